"""Float tensors of at most 256 values a channel as bytes and tables, exact to the bit.

`values` holds float32 laid out as [any, channels, plane]; `indices` a byte for each; `tables` 256
float32 a channel. ValueError when the sizes do not fit.
"""

from typing_extensions import Buffer

def encode(values: Buffer, channels: int, plane: int, indices: Buffer, tables: Buffer) -> bool:
    """Fills `indices` and `tables`; False when a channel has more than 256 values."""

def decode(indices: Buffer, channels: int, plane: int, tables: Buffer, values: Buffer) -> None:
    """The inverse: fills `values`."""
