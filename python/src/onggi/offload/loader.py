"""The wrapped loader: a DataLoader in all respects but where its work is done."""

from __future__ import annotations

import html
import os
import pickle
import platform
import time
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

from torch.utils.data import DataLoader, IterDataPipe, MapDataPipe
from torch.utils.data.dataloader import _DatasetKind

from onggi._client import Client, connect
from onggi._errors import OnggiError
from onggi.offload import rng
from onggi.offload.epoch import OwnGeneratorsEpoch, StreamsEpoch, make_epoch
from onggi.offload.failures import CannotShip, TaskError
from onggi.offload.local import LocalEpoch
from onggi.offload.policy import Decision, Features, Forced, Policy, make_policy
from onggi.offload.position import VERSION, Position, Start
from onggi.offload.report import Stats
from onggi.offload.session import (
    BufferPool,
    Command,
    Session,
    SessionSpec,
    TaskHttp,
)
from onggi.offload.shipment import Shipment, pack

T = TypeVar("T")
Epoch = StreamsEpoch | OwnGeneratorsEpoch | LocalEpoch

OFF_VARIABLE = "ONGGI_OFFLOAD"  # "off": every wrapped loader runs locally


@dataclass
class Settings:
    data: Mapping[str, str] = field(default_factory=dict)
    policy: str | Policy = "auto"
    strict: bool = False
    workers: int | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    client: Client | None = None


def unwrapped(loader: DataLoader[T]) -> DataLoader[T]:
    """The loader inside a wrapped one; any other as it is."""
    return loader.original if isinstance(loader, OffloadedLoader) else loader


class OffloadedLoader(DataLoader[T]):
    """What onggi.offload gives. Its attributes are the wrapped loader's own."""

    def __init__(self, loader: DataLoader[T], settings: Settings) -> None:
        original: DataLoader[T] = unwrapped(loader)
        # Not DataLoader.__init__: the loader has been made already, and stays as it was made.
        self.__dict__.update(original.__dict__)
        self.__dict__["_iterator"] = None
        self.original = original
        self._settings = settings
        self._policy = make_policy(settings.policy)
        self._client = settings.client
        self._stats = Stats()
        self._pool = BufferPool()
        self._resume: Position | None = None
        self._running: weakref.ref[LoaderIteration] | None = None
        self._persistent: StreamsEpoch | LocalEpoch | None = None

    # ------------------------------------------------------------ as a loader

    def __iter__(self) -> Iterator[T]:  # type: ignore[override]
        began = time.perf_counter()
        resume, self._resume = self._resume, None
        epoch: Epoch
        if self._persistent is not None and resume is None:
            epoch = self._persistent
            epoch.next_epoch(self)
        else:
            epoch = self._open_epoch(resume)
        keep = self.persistent_workers and self.num_workers > 0
        if keep and not isinstance(epoch, OwnGeneratorsEpoch):
            self._persistent = epoch
        iteration = LoaderIteration(self, epoch, began)
        self._running = weakref.ref(iteration)
        return iteration

    def state_dict(self) -> dict[str, Any]:
        """Where the current epoch stands, for load_state_dict() of a loader over the same data with
        any num_workers: the next batch there is the next batch here, random numbers included. Holds
        tensors and plain values, so torch.save(…) and weights_only=True work."""
        running = self._running() if self._running is not None else None
        if running is None or running.finished:
            return {"version": VERSION, "epoch": "not started"}
        return running.position().to_state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next iteration goes on from `state`."""
        not_started = state.get("epoch") == "not started"
        self._resume = None if not_started else Position.from_state_dict(state)

    def stats(self) -> Stats:
        """Where, why, how much and how fast; `.verdict` says what training waits for."""
        return self._stats

    def close(self) -> None:
        """Ends persistent workers and a running epoch on the node."""
        if self._running is not None and (running := self._running()) is not None:
            running.close()
        if self._persistent is not None:
            self._persistent.close()
            self._persistent = None

    def __repr__(self) -> str:
        data = type(self.dataset).__name__
        try:
            count = f"{len(self):,} batches"
        except TypeError:
            count = "batches of unknown number"
        lines = [f"<onggi: {data}, {count} an epoch, {self._stats}>"]
        lines += [f"  ran locally: {reason}" for reason in self._stats.fallbacks[-3:]]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"

    # ------------------------------------------------------------ where

    def _open_epoch(self, resume: Position | None) -> Epoch:
        self._stats.epochs += 1
        start = Start.capture(self)
        try:
            decision, shipment = self._decide()
            if decision.site == "storage":
                assert shipment is not None
                epoch = self._open_on_node(shipment, resume)
                self._note("storage", decision.reason, epoch.node)
                return epoch
            self._note("local", decision.reason, "")
        except OnggiError as error:
            if self._settings.strict:
                raise
            self.fall_back(str(error))
            start.restore(self)  # an epoch that could not begin may have drawn its order
        return LocalEpoch(self, resume)

    def _note(self, site: str, reason: str, node: str) -> None:
        self._stats.site = site if not node else f"{site} on {node}"
        self._stats.reason, self._stats.node = reason, node

    def fall_back(self, reason: str) -> None:
        first = reason.splitlines()[0] if reason else "unknown"
        self._stats.fallbacks.append(first)
        self._note("local", first, "")

    def _decide(self) -> tuple[Decision, Shipment | None]:
        if os.environ.get(OFF_VARIABLE, "").lower() in ("off", "0", "local"):
            return Decision("local", f"{OFF_VARIABLE} is set to off"), None
        if isinstance(self._policy, Forced) and self._policy.site == "local":
            return self._policy.decide(Features(None, True)), None
        self._refuse_what_cannot_run_elsewhere()
        shipment = pack(self._work(), self._settings.data, self._connected())
        if isinstance(self._policy, Forced):
            return self._policy.decide(Features(None, shipment.data_is_local)), shipment
        known = shipment.epoch_bytes() if shipment.data_is_local else None
        return self._policy.decide(Features(known, shipment.data_is_local)), shipment

    def _refuse_what_cannot_run_elsewhere(self) -> None:
        if type(self.original).__iter__ is not DataLoader.__iter__:
            kind = type(self.original).__name__
            raise CannotShip(f"{kind} is a DataLoader with an __iter__ of its own")
        if isinstance(self.dataset, (IterDataPipe, MapDataPipe)):
            raise CannotShip("DataPipes share state with the training process")

    def _connected(self) -> Client:
        if self._client is None:
            self._client = connect()
        return self._client

    def _work(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "collate_fn": self.collate_fn,
            "worker_init_fn": self.worker_init_fn,
            "kind": self._dataset_kind,
            "auto_collation": self._auto_collation,
            "drop_last": self.drop_last,
        }

    # ------------------------------------------------------------ on a node

    def _open_on_node(
        self, shipment: Shipment, resume: Position | None
    ) -> StreamsEpoch | OwnGeneratorsEpoch:
        streams = resume.num_workers if resume else self.num_workers
        workers = max(1, min(streams, self._settings.workers or streams))
        ahead = max(2, workers * (self.prefetch_factor or 2))
        http = TaskHttp(self._connected())

        def open_session(
            count: int, base_seed: int, states: dict[int, rng.States], commands: list[Command]
        ) -> Session:
            spec = {
                **shipment.spec(),
                "profile": "torch",
                "entry": "loader",
                "workers": workers,
                "limits": dict(self._settings.limits),
                "options": {
                    "python": platform.python_version(),
                    "num_workers": count,
                    "base_seed": base_seed,
                    "palette": _crosses_a_network(self._connected()),
                    "results_max": 1 + (self.prefetch_factor or 2),
                },
            }
            payload = _with_streams(shipment.payload, states)
            what = SessionSpec(spec, payload)
            return Session(http, what, commands, ahead, self._stats, self._pool)

        return make_epoch(self, open_session, workers, resume)


def _crosses_a_network(client: Client) -> bool:
    """Where bytes are dear; on one machine a palette costs more than the copy that it saves."""
    native = client._http.native
    if native.unix_socket:
        return False
    host = urlsplit(native.base_url).hostname or ""
    return host != "localhost" and not host.startswith("127.") and host != "::1"


def _with_streams(payload: bytes, states: dict[int, rng.States]) -> bytes:
    """The work, then the states that its streams go on from: two pickles, one after the other."""
    return payload + pickle.dumps(states, protocol=5)


class LoaderIteration:
    """One pass over the data. Counts, and goes on elsewhere when the node is lost."""

    def __init__(self, loader: OffloadedLoader[Any], epoch: Epoch, began: float) -> None:
        self._loader = loader
        self._epoch = epoch
        self._stats = loader.stats()
        self._began = began
        self._last = began
        self._first = True
        self.finished = False

    def __iter__(self) -> LoaderIteration:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        try:
            with self._stats.waiting():
                batch = self._next()
        except StopIteration:
            self.finished = True
            raise
        except BaseException:
            if not isinstance(self._epoch, LocalEpoch):
                self._epoch.close()
            raise
        self._count(batch)
        return batch

    def position(self) -> Position:
        return self._epoch.position()

    def close(self) -> None:
        self._epoch.close()

    def __del__(self) -> None:
        if not self._loader.persistent_workers:
            self._epoch.close()

    def _next(self) -> Any:
        try:
            return next(self._epoch)
        except TaskError:
            raise  # the user's own code failed; it would fail here too
        except OnggiError as error:
            return self._go_on_after(error)

    def _go_on_after(self, error: OnggiError) -> Any:
        """The node or its worker was lost: once more there, then here, from the same batch."""
        unfit = isinstance(error, CannotShip)
        if self._epoch.can_reconnect and not unfit:
            try:
                self._epoch.reconnect()
                return next(self._epoch)
            except OnggiError:
                pass  # what counts for the user is what went wrong first
        if self._loader._settings.strict or isinstance(self._epoch, LocalEpoch):
            raise error
        position = self._epoch.position()
        self._epoch.close()
        self._loader.fall_back(str(error) if unfit else f"the node was lost in mid-epoch: {error}")
        self._epoch = LocalEpoch(self._loader, position)
        return next(self._epoch)

    def _count(self, batch: Any) -> None:
        now = time.perf_counter()
        self._stats.batches += 1
        self._stats.samples += _samples_in(batch, self._loader)
        self._stats.iterating_seconds += now - self._last
        self._last = now
        if self._first:
            self._first = False
            self._stats.first_batch_seconds = now - self._began


def _samples_in(batch: Any, loader: DataLoader[Any]) -> int:
    """How many samples a batch holds, as far as its outside tells."""
    if loader.batch_sampler is None and loader._dataset_kind == _DatasetKind.Map:
        return 1
    while isinstance(batch, (list, tuple, dict)):
        if not batch:
            return 0
        batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
    shape = getattr(batch, "shape", None)
    return int(shape[0]) if shape else int(loader.batch_size or 1)
