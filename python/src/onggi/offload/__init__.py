"""Data loaders that run where their data lies: `loader = onggi.offload(loader)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from onggi._client import Client
    from onggi.offload.loader import OffloadedLoader
    from onggi.offload.policy import Policy

T = TypeVar("T")


def offload(
    loader: DataLoader[T],
    *,
    data: Mapping[str, str] | None = None,
    policy: str | Policy = "auto",
    strict: bool = False,
    workers: int | None = None,
    limits: Mapping[str, int] | None = None,
    client: Client | None = None,
) -> OffloadedLoader[T]:
    """Wraps a torch DataLoader so that its work is done on the node that holds its data.

    The batches are those of `loader`, bit for bit, for the same seeds. Data is found by `onggi://`
    URLs in the data set, or by `data`: `{"./fashion": "onggi://local/fashion"}` says that the local
    folder (which need not exist) is that vfolder, and the data set finds it at the same path.

    `policy` is "auto" (storage when the data is not here or an epoch is above 64 MiB), "storage" or
    "local". What cannot be sent runs locally, with the reason in `print(loader)`; `strict=True`
    raises OffloadError instead. `workers` is the number of processes on the node (default: the
    loader's num_workers). `limits` are per task: cpu_seconds, memory_bytes, wall_seconds,
    output_bytes, processes, arena_bytes. `client` defaults to `onggi.connect()`.
    """
    from onggi.offload.loader import OffloadedLoader, Settings

    settings = Settings(
        data=dict(data or {}),
        policy=policy,
        strict=strict,
        workers=workers,
        limits=dict(limits or {}),
        client=client,
    )
    return OffloadedLoader(loader, settings)


def unwrap(loader: DataLoader[T]) -> DataLoader[T]:
    """The loader that was wrapped; any other loader as it is."""
    from onggi.offload.loader import unwrapped

    return unwrapped(loader)
