"""The states of Python's, NumPy's and torch's generators, as bytes that can travel and be kept.

A state is moved as the raw words of the Mersenne Twister, never as a pickle.
"""

from __future__ import annotations

import random
import struct
from typing import Any, cast

import numpy as np
import torch

GENERATORS = ("python", "numpy", "torch")

States = dict[str, bytes]

_WORDS = 624
_TAIL = struct.Struct("<IBd")


def capture() -> States:
    """The states of all three global generators."""
    return {name: _CAPTURE[name]() for name in GENERATORS}


def restore(states: States) -> None:
    """Sets those global generators that `states` names."""
    for name, state in states.items():
        _RESTORE[name](state)


def changed(before: States, after: States) -> States:
    """What of `after` differs."""
    return {name: state for name, state in after.items() if before.get(name) != state}


def to_tensors(states: States) -> dict[str, torch.Tensor]:
    """For a state_dict: tensors survive torch.save with weights_only=True."""
    return {
        name: torch.frombuffer(bytearray(state), dtype=torch.uint8)
        for name, state in states.items()
    }


def from_tensors(states: dict[str, torch.Tensor]) -> States:
    return {name: state.numpy().tobytes() for name, state in states.items()}


def seed_worker(base_seed: int, worker: int) -> None:
    """Seeds all three exactly as torch's own worker `worker` would (data-loading contract of
    torch.utils.data, `_worker_loop`)."""
    from torch.utils.data._utils.worker import _generate_state

    random.seed(base_seed + worker)
    torch.manual_seed(base_seed + worker)
    np.random.seed(_generate_state(base_seed, worker))


def _capture_python() -> bytes:
    _version, words, gauss = random.getstate()
    tail = _TAIL.pack(words[_WORDS], gauss is not None, gauss or 0.0)
    return np.array(words[:_WORDS], dtype="<u4").tobytes() + tail


def _restore_python(state: bytes) -> None:
    words = np.frombuffer(state, dtype="<u4", count=_WORDS).tolist()
    position, has_gauss, gauss = _TAIL.unpack_from(state, _WORDS * 4)
    random.setstate((3, (*words, position), gauss if has_gauss else None))


def _capture_numpy() -> bytes:
    _name, words, position, has_gauss, gauss = cast(
        tuple[str, Any, int, int, float], np.random.get_state()
    )
    tail = _TAIL.pack(position, has_gauss, gauss)
    return cast(bytes, words.astype("<u4").tobytes()) + tail


def _restore_numpy(state: bytes) -> None:
    words = np.frombuffer(state, dtype="<u4", count=_WORDS)
    position, has_gauss, gauss = _TAIL.unpack_from(state, _WORDS * 4)
    np.random.set_state(("MT19937", words, position, has_gauss, gauss))


def _capture_torch() -> bytes:
    return torch.get_rng_state().numpy().tobytes()


def _restore_torch(state: bytes) -> None:
    torch.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


_CAPTURE = {"python": _capture_python, "numpy": _capture_numpy, "torch": _capture_torch}
_RESTORE = {"python": _restore_python, "numpy": _restore_numpy, "torch": _restore_torch}
