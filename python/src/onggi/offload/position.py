"""Where an epoch stands: what is needed to go on at the exact next batch, anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.data import DataLoader

from onggi.offload import rng

VERSION = 1


@dataclass
class Start:
    """The generators as an epoch found them: they decide its base seed and its order."""

    states: rng.States
    generators: dict[str, torch.Tensor]

    @classmethod
    def capture(cls, loader: DataLoader[Any]) -> Start:
        return cls(rng.capture(), {name: g.get_state() for name, g in _generators(loader).items()})

    def restore(self, loader: DataLoader[Any]) -> None:
        rng.restore(self.states)
        for name, generator in _generators(loader).items():
            if name in self.generators:
                generator.set_state(self.generators[name])

    @contextmanager
    def restored(self, loader: DataLoader[Any]) -> Iterator[None]:
        """Inside, the generators are as they were; afterwards the global ones as before."""
        now = rng.capture()
        self.restore(loader)
        try:
            yield
        finally:
            rng.restore(now)


def _generators(loader: DataLoader[Any]) -> dict[str, torch.Generator]:
    """Those that belong to the loader or its samplers, by where they are."""
    found: dict[str, torch.Generator] = {}
    holders: list[tuple[str, Any]] = [
        ("loader", loader),
        ("sampler", loader.sampler),
        ("batch_sampler", loader.batch_sampler),
        ("batch_sampler.sampler", getattr(loader.batch_sampler, "sampler", None)),
    ]
    for name, holder in holders:
        generator = getattr(holder, "generator", None)
        known = any(generator is g for g in found.values())
        if isinstance(generator, torch.Generator) and not known:
            found[name] = generator
    return found


@dataclass
class Position:
    """`yielded` batches of an epoch are done. `streams` holds the generator states of each virtual
    worker after its last of them, where known; without it the epoch is replayed to this point."""

    num_workers: int
    yielded: int
    start: Start
    streams: dict[int, rng.States] | None = None
    now: rng.States = field(default_factory=dict)  # W = 0: the process's own generators

    def to_state_dict(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "num_workers": self.num_workers,
            "yielded": self.yielded,
            "start": rng.to_tensors(self.start.states),
            "generators": self.start.generators,
            "streams": None
            if self.streams is None
            else {str(n): rng.to_tensors(states) for n, states in self.streams.items()},
            "now": rng.to_tensors(self.now),
        }

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> Position:
        if state.get("version") != VERSION:
            raise ValueError(f"the state is of version {state.get('version')}, not {VERSION}")
        streams = state["streams"]
        return cls(
            num_workers=int(state["num_workers"]),
            yielded=int(state["yielded"]),
            start=Start(rng.from_tensors(state["start"]), dict(state["generators"])),
            streams=None
            if streams is None
            else {int(n): rng.from_tensors(states) for n, states in streams.items()},
            now=rng.from_tensors(state["now"]),
        )
