"""An epoch in this process's own workers: torch's loader, resumable and counted like the other."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from torch.utils.data import DataLoader
from torch.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _DatasetKind,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)

from onggi.offload import rng
from onggi.offload.position import Position, Start


class LocalEpoch:
    """Gives torch's own iterator. A position is reached by making the epoch's batches again; with
    num_workers = 0 by its sampler alone, since the generators' states are kept."""

    node = "this machine"
    can_reconnect = False

    def __init__(self, loader: DataLoader[Any], resume: Position | None = None) -> None:
        self._loader = loader
        self._yielded = 0
        self._start = resume.start if resume else Start.capture(loader)
        self._num_workers = resume.num_workers if resume else loader.num_workers
        with self._start.restored(loader) if resume else nullcontext():
            self._inner = self._make()
            if resume is not None:
                self._go_to(resume)
        if resume is not None and self._num_workers == 0:
            rng.restore(resume.now)

    def _make(self) -> _BaseDataLoaderIter:
        now = self._loader.num_workers, self._loader.prefetch_factor
        self._loader.num_workers = self._num_workers
        if self._num_workers > 0 and self._loader.prefetch_factor is None:
            self._loader.prefetch_factor = 2
        try:
            if self._num_workers == 0:
                return _SingleProcessDataLoaderIter(self._loader)
            return _MultiProcessingDataLoaderIter(self._loader)
        finally:
            self._loader.num_workers, self._loader.prefetch_factor = now

    def _go_to(self, resume: Position) -> None:
        by_sampler = self._num_workers == 0 and self._loader._dataset_kind == _DatasetKind.Map
        for _ in range(resume.yielded):
            next(self._inner._sampler_iter if by_sampler else self._inner)
        self._yielded = resume.yielded

    def next_epoch(self, loader: DataLoader[Any]) -> None:
        """Persistent workers go on."""
        self._start = Start.capture(loader)
        self._yielded = 0
        self._inner._reset(loader)

    def __next__(self) -> Any:
        batch = next(self._inner)
        self._yielded += 1
        return batch

    def position(self) -> Position:
        now = rng.capture() if self._num_workers == 0 else {}
        return Position(self._num_workers, self._yielded, self._start, None, now)

    def reconnect(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """torch's iterator ends its workers when it is let go."""
