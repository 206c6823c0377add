"""What a loader did: where, why, how much and how fast."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

DATA_BOUND_SHARE = 0.1


@dataclass
class Stats:
    """Counts since the loader was wrapped; times in seconds, sizes in bytes of the network."""

    site: str = "not started"
    reason: str = ""
    node: str = ""
    epochs: int = 0
    batches: int = 0
    samples: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    waiting_seconds: float = 0.0
    iterating_seconds: float = 0.0
    first_batch_seconds: float | None = None
    fallbacks: list[str] = field(default_factory=list)

    @property
    def stall_share(self) -> float:
        """The share of the time between batches that was spent waiting for data."""
        return self.waiting_seconds / self.iterating_seconds if self.iterating_seconds else 0.0

    @property
    def samples_per_second(self) -> float:
        return self.samples / self.iterating_seconds if self.iterating_seconds else 0.0

    @property
    def verdict(self) -> str:
        """Whether the data or the computing is what training waits for."""
        if not self.batches:
            return "nothing has been loaded yet"
        share = f"{100 * self.stall_share:.1f} % of the time waiting for data"
        if self.stall_share > DATA_BOUND_SHARE:
            return f"data-bound: {share}"
        return f"compute-bound: {share}"

    @contextmanager
    def waiting(self) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.waiting_seconds += time.perf_counter() - began

    def __str__(self) -> str:
        parts = [
            f"{self.site} ({self.reason})" if self.reason else self.site,
            f"{self.batches:,} batches, {self.samples:,} samples in {self.epochs} epochs",
            f"{size(self.bytes_received)} received, {size(self.bytes_sent)} sent",
            self.verdict,
        ]
        return "; ".join(parts)


def size(count: float) -> str:
    """Bytes for people: 1.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
