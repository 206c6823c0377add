"""Batches as safetensors images: exact to the bit; malformed images are refused."""

from __future__ import annotations

import contextlib
import json
import struct
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from onggi.offload import wire


def image(batch: Any, palette: bool = False) -> bytearray:
    encoded = wire.encode(batch, {"torch": b"state"}, palette=palette)
    out = bytearray(encoded.nbytes)
    encoded.write(memoryview(out))
    return out


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.complex64]
)
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3, 4)])
def test_tensors_come_back(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = torch.rand(shape).to(dtype)
    decoded = wire.decode(image([tensor]))
    assert decoded.batch[0].dtype is dtype
    assert decoded.batch[0].shape == tensor.shape
    assert torch.equal(decoded.batch[0], tensor)
    assert decoded.states == {"torch": b"state"}


def test_plain_values_come_back() -> None:
    batch = {"a": [1, 2.5, None, True, "text", b"\x00\xff"], 3: (float("inf"), np.float32(0.1))}
    decoded = wire.decode(image(batch)).batch
    assert decoded == batch
    assert type(decoded[3][1]) is np.float32


def test_every_tensor_is_aligned() -> None:
    data = image([torch.rand(3), torch.rand(5), np.arange(7)])
    header = json.loads(data[8 : 8 + struct.unpack_from("<Q", data)[0]])
    base = 8 + struct.unpack_from("<Q", data)[0]
    starts = [entry["data_offsets"][0] + base for key, entry in header.items() if key[0] != "_"]
    assert [start % 64 for start in starts] == [0, 0, 0]


@pytest.mark.parametrize("odd", [float("nan"), -0.0, float("inf")])
def test_a_palette_is_exact_and_small(odd: float) -> None:
    pixels = torch.randint(0, 255, (8, 3, 64, 64)).float().div(255).sub(0.4).div(0.2)
    pixels[0, 0, 0, 0] = odd
    plain, short = image([pixels]), image([pixels], palette=True)
    assert len(short) < len(plain) / 3.5
    decoded = wire.decode(short).batch[0]
    assert decoded.numpy().tobytes() == pixels.numpy().tobytes()


def test_what_has_too_many_values_stays_as_it_is() -> None:
    noise = torch.rand(4, 3, 64, 64)
    assert torch.equal(wire.decode(image([noise], palette=True)).batch[0], noise)


@pytest.mark.parametrize(
    "batch", [[object()], [np.array(["text"])], [{1, 2}], [torch.rand(2).to_sparse()]]
)
def test_what_has_no_form_is_named(batch: Any) -> None:
    with pytest.raises(wire.CannotEncode):
        wire.encode(batch)


def forged(**entry: Any) -> bytes:
    tensor = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **entry}
    header = {"__metadata__": {"structure": '{"t":"0"}'}, "0": tensor}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(8)


@pytest.mark.parametrize(
    "entry",
    [
        {"shape": [3]},
        {"shape": [-2]},
        {"shape": [1 << 62, 1 << 62]},
        {"shape": [True, 2]},
        {"data_offsets": [4, 12]},
        {"data_offsets": [-8, 0]},
        {"data_offsets": [0]},
        {"dtype": "F999"},
        {"dtype": ["F32"]},
    ],
)
def test_a_forged_entry_is_refused(entry: dict[str, Any]) -> None:
    assert torch.equal(wire.decode(forged()).batch, torch.zeros(2))
    with pytest.raises(wire.Malformed):
        wire.decode(forged(**entry))


@pytest.mark.parametrize(
    "structure",
    ['{"t":"9"}', '{"x":1}', "[]", "{}", '{"nt":["os:system",[]]}', '{"nt":["builtins:tuple",[]]}'],
)
def test_a_forged_structure_is_refused(structure: str) -> None:
    text = json.dumps({"__metadata__": {"structure": structure}}).encode()
    with pytest.raises(wire.Malformed):
        wire.decode(struct.pack("<Q", len(text)) + text)


@given(st.binary(max_size=200), st.integers(0, 300))
def test_no_bytes_do_harm(noise: bytes, place: int) -> None:
    data = image([torch.rand(3), "text"])
    data[place : place + len(noise)] = noise
    for candidate in (noise, data):
        with contextlib.suppress(wire.Malformed):
            wire.decode(candidate)
