"""Batches as safetensors images: any nesting of tensors, arrays and plain values, without pickle.

An image is a u64 with the length of a JSON header, the header, and raw data in which every tensor
begins at a multiple of 64 bytes. `__metadata__.structure` says how the tensors nest. The format is
described in docs/protocol.md; the container is safetensors (huggingface/safetensors, format 0.x).
"""

from __future__ import annotations

import base64
import json
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from onggi import _palette

ALIGNMENT = 64
HEADER_BYTES_MAX = 64 << 20
DEPTH_MAX = 32
# Below this a palette saves too little to be worth its tables.
PALETTE_VALUES_MIN = 16 << 10

_LENGTH = struct.Struct("<Q")

_TORCH_TYPES: dict[str, torch.dtype] = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "U16": torch.uint16,
    "I16": torch.int16,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "U32": torch.uint32,
    "I32": torch.int32,
    "F32": torch.float32,
    "U64": torch.uint64,
    "I64": torch.int64,
    "F64": torch.float64,
    "C64": torch.complex64,
    "C128": torch.complex128,
}
_NAMES = {dtype: name for name, dtype in _TORCH_TYPES.items()}


class CannotEncode(TypeError):
    """The batch holds something that has no form on the wire."""


class Malformed(ValueError):
    """The bytes are not the image of a batch."""


@dataclass
class Image:
    """A batch ready to be written: `nbytes` in all."""

    header: bytes
    parts: list[tuple[int, memoryview]]
    nbytes: int

    def write(self, out: memoryview) -> None:
        _LENGTH.pack_into(out, 0, len(self.header))
        out[_LENGTH.size : _LENGTH.size + len(self.header)] = self.header
        for offset, part in self.parts:
            out[offset : offset + len(part)] = part


@dataclass
class _Encoder:
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)

    def add(self, tensor: torch.Tensor) -> str:
        name = str(len(self.tensors))
        self.tensors[name] = tensor
        return name

    def node(self, value: Any, depth: int = 0) -> dict[str, Any]:
        if depth > DEPTH_MAX:
            raise CannotEncode("a batch nests too deeply")
        kind = type(value)
        if isinstance(value, torch.Tensor):
            return {"t": self.add(_plain(value))}
        if kind is np.ndarray:
            return {"n": self.add(_from_array(value))}
        if value is None or kind in (bool, int, float, str):
            return {"v": value} if not _is_odd(value) else {"r": repr(value)}
        if kind in (bytes, bytearray):
            return {"b": base64.b64encode(value).decode()}
        if kind is list:
            return {"l": [self.node(item, depth + 1) for item in value]}
        if kind is tuple:
            return {"u": [self.node(item, depth + 1) for item in value]}
        if kind is dict:
            return {
                "d": [[self.node(k, depth + 1), self.node(v, depth + 1)] for k, v in value.items()]
            }
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            name = f"{kind.__module__}:{kind.__qualname__}"
            return {"nt": [name, [self.node(item, depth + 1) for item in value]]}
        if isinstance(value, np.generic):
            return {"s": self.add(_from_array(np.asarray(value)))}
        raise CannotEncode(
            f"a batch holds a {kind.__module__}.{kind.__qualname__}; what travels is tensors, "
            "NumPy arrays, numbers, text, bytes and None in lists, tuples, named tuples and dicts"
        )


def _is_odd(value: object) -> bool:
    """Floats that JSON has no word for."""
    return isinstance(value, float) and (value != value or value in (float("inf"), -float("inf")))


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout is not torch.strided or tensor.dtype not in _NAMES:
        raise CannotEncode(f"a tensor of {tensor.layout} and {tensor.dtype} cannot travel")
    if tensor.requires_grad:
        tensor = tensor.detach()
    return tensor.resolve_conj().resolve_neg().contiguous()


def _from_array(array: np.ndarray[Any, Any]) -> torch.Tensor:
    if array.dtype.hasobject or array.dtype.kind not in "biufc":
        raise CannotEncode(f"a NumPy array of {array.dtype} cannot travel")
    native = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    return torch.from_numpy(native if native.flags.writeable else native.copy()).reshape(
        array.shape
    )


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    if tensor.numel() == 0:
        return memoryview(b"")
    return memoryview(tensor.reshape(-1).view(torch.uint8).numpy())  # type: ignore[arg-type]


def encode(
    batch: Any, states: Mapping[str, bytes] | None = None, *, palette: bool = False
) -> Image:
    """The image of a batch and generator states. Copies no tensor that is contiguous, but for
    `palette`: large float tensors are then shortened where that loses nothing."""
    encoder = _Encoder()
    structure = encoder.node(batch)
    shortened = []
    tensors: dict[str, tuple[torch.Tensor, memoryview]] = {}
    for name, tensor in encoder.tensors.items():
        short = _shorten(tensor) if palette else None
        if short is not None:
            shortened.append(name)
            indices, table = short
            tensors[name] = (indices, _bytes_of(indices))
            tensors[f"{name}.table"] = (table, _bytes_of(table))
        else:
            tensors[name] = (tensor, _bytes_of(tensor))
    for name, state in (states or {}).items():
        tensor = torch.frombuffer(bytearray(state), dtype=torch.uint8)
        tensors[f"__rng.{name}"] = (tensor, _bytes_of(tensor))
    header: dict[str, Any] = {
        "__metadata__": {"palette": " ".join(shortened), "structure": json.dumps(structure)}
    }
    offset = 0
    for name, (tensor, data) in tensors.items():
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(data)],
        }
        offset += -(-len(data) // ALIGNMENT) * ALIGNMENT
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(_LENGTH.size + len(text)) % ALIGNMENT)
    base = _LENGTH.size + len(text)
    parts = [(base + header[name]["data_offsets"][0], data) for name, (_, data) in tensors.items()]
    end = max((start + len(data) for start, data in parts), default=base)
    return Image(text, parts, end)


def _layout(shape: Sequence[int]) -> tuple[int, int]:
    """Channels and the size of a plane: [N, C, H, W] has channels, other shapes are all one."""
    if len(shape) == 4:
        return shape[1], shape[2] * shape[3]
    count = 1
    for n in shape:
        count *= n
    return 1, count


def _shorten(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Bytes and tables in place of floats, or None where there are too few or too many values."""
    if tensor.dtype is not torch.float32 or tensor.numel() < PALETTE_VALUES_MIN:
        return None
    channels, plane = _layout(tensor.shape)
    indices = torch.empty(tensor.shape, dtype=torch.uint8)
    table = torch.zeros(channels, 256)
    parts = [_bytes_of(t) for t in (tensor, indices, table)]
    if not _palette.encode(parts[0], channels, plane, parts[1], parts[2]):
        return None
    return indices, table


def _lengthen(
    indices: torch.Tensor, table: torch.Tensor, take: Callable[[int], bytearray]
) -> torch.Tensor:
    channels, plane = _layout(indices.shape)
    if not indices.numel():
        raise Malformed("a palette without values")
    buffer = take(4 * indices.numel())
    values = torch.frombuffer(buffer, dtype=torch.float32).view(indices.shape)
    try:
        parts = [_bytes_of(t) for t in (indices, table, values)]
        _palette.decode(parts[0], channels, plane, parts[1], parts[2])
    except ValueError as error:
        raise Malformed("a palette does not fit its tensor") from error
    return values


@dataclass
class Decoded:
    batch: Any
    states: dict[str, bytes]


def decode(
    data: bytearray | memoryview | bytes, take: Callable[[int], bytearray] = bytearray
) -> Decoded:
    """The batch in an image. Its tensors share `data`'s memory, or that of a buffer from `take`
    where a palette made them short. Never trusts a number in it."""
    view = memoryview(data)
    header, base = _read_header(view)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not isinstance(metadata.get("structure"), str):
        raise Malformed("the image has no structure")
    tensors = {name: _tensor(view, base, entry) for name, entry in header.items()}
    for name in str(metadata.pop("palette", "")).split():
        if name not in tensors or f"{name}.table" not in tensors:
            raise Malformed("a palette is missing")
        tensors[name] = _lengthen(tensors[name], tensors[f"{name}.table"], take)
    try:
        structure = json.loads(metadata.pop("structure"))
    except (ValueError, RecursionError) as error:
        raise Malformed("the structure is not JSON") from error
    states = {
        name.removeprefix("__rng."): tensor.numpy().tobytes()
        for name, tensor in tensors.items()
        if name.startswith("__rng.")
    }
    return Decoded(_build(structure, tensors, 0), states)


def _read_header(view: memoryview) -> tuple[dict[str, Any], int]:
    if len(view) < _LENGTH.size:
        raise Malformed("the image is too short")
    (length,) = _LENGTH.unpack_from(view)
    if length > min(len(view) - _LENGTH.size, HEADER_BYTES_MAX):
        raise Malformed("the header is longer than the image")
    base = _LENGTH.size + length
    try:
        header = json.loads(bytes(view[_LENGTH.size : base]))
    except (ValueError, RecursionError) as error:
        raise Malformed("the header is not JSON") from error
    if not isinstance(header, dict):
        raise Malformed("the header is not an object")
    return header, base


def _tensor(view: memoryview, base: int, entry: Any) -> torch.Tensor:
    try:
        dtype = _TORCH_TYPES[entry["dtype"]]
        shape = entry["shape"]
        begin, end = entry["data_offsets"]
        numbers = [*shape, begin, end]
    except (KeyError, TypeError, ValueError) as error:
        raise Malformed("a tensor's entry is incomplete") from error
    if any(type(n) is not int or n < 0 for n in numbers) or len(shape) > 64:
        raise Malformed("a tensor's shape or place is not of whole numbers")
    count = 1
    for n in shape:
        count *= n
    if end - begin != count * dtype.itemsize or base + end > len(view):
        raise Malformed("a tensor's place does not fit its shape or the image")
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(view, dtype=dtype, count=count, offset=base + begin).view(shape)


def _build(node: Any, tensors: dict[str, torch.Tensor], depth: int) -> Any:
    if depth > DEPTH_MAX or not isinstance(node, dict) or len(node) != 1:
        raise Malformed("the structure is not one of ours")
    [(kind, value)] = node.items()
    builder = _BUILDERS.get(kind)
    if builder is None:
        raise Malformed(f"unknown kind of value '{kind}'")
    try:
        return builder(value, tensors, depth)
    except (KeyError, TypeError, AttributeError) as error:
        raise Malformed(f"a '{kind}' of the structure is broken") from error


def _items(value: Any, tensors: dict[str, torch.Tensor], depth: int) -> list[Any]:
    return [_build(item, tensors, depth + 1) for item in value]


def _named_tuple(value: Any, tensors: dict[str, torch.Tensor], depth: int) -> Any:
    name, items = value
    return _named_tuple_class(name)(*_items(items, tensors, depth))


def _named_tuple_class(name: str) -> Any:
    """A class that this process has already: a node cannot make us import anything."""
    module, _, qualname = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")):
        raise Malformed(f"no named tuple {name} here")
    return found


_BUILDERS: dict[str, Callable[[Any, dict[str, torch.Tensor], int], Any]] = {
    "t": lambda value, tensors, _: tensors[value],
    "n": lambda value, tensors, _: tensors[value].numpy(),
    "s": lambda value, tensors, _: tensors[value].numpy()[()],
    "v": lambda value, *_: value,
    "r": lambda value, *_: {"nan": float("nan"), "inf": float("inf"), "-inf": -float("inf")}[value],
    "b": lambda value, *_: base64.b64decode(value, validate=True),
    "l": _items,
    "u": lambda value, tensors, depth: tuple(_items(value, tensors, depth)),
    "d": lambda value, tensors, depth: {
        _build(k, tensors, depth + 1): _build(v, tensors, depth + 1) for k, v in value
    },
    "nt": _named_tuple,
}
