"""The data-loader task: torch's worker loop, in the sandbox, for one or several random streams.

A loader with W workers has W streams of random numbers; batch k belongs to stream k mod W. A worker
hosts some of them, each with its own copy of the data set and its own generator states, so that
any number of workers gives the batches that torch's own loader would have given
(torch.utils.data, `_worker_loop`). W = 0 means the client's own generators: their states come with
commands and go back with results.
"""

from __future__ import annotations

import base64
import io
import pickle
import platform
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.utils.data import _DatasetKind
from torch.utils.data._utils import collate
from torch.utils.data._utils import worker as torch_worker

from onggi._frames import BATCH, COMMAND, END, FLAG_EXHAUSTED
from onggi.offload import rng, wire
from onggi.worker.channel import Channel


class LoaderCommand(NamedTuple):
    """What the client asks of a stream. Pickled: it goes only into the sandbox, never out of it."""

    stream: int
    index: Any = None
    states: dict[str, bytes] | None = None  # set these generator states first (W = 0)
    skip: bool = False  # do it, but send only that it was done
    reset: bool = False  # a new epoch of persistent workers


class IndexWatch:
    """Stands before a data set to know which sample is being made when one fails."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.current: Any = None

    def __getitem__(self, index: Any) -> Any:
        self.current = index
        return self._dataset[index]


@dataclass
class Stream:
    """One virtual torch worker."""

    work: dict[str, Any]
    number: int
    resumed: dict[str, bytes] | None
    states: dict[str, bytes] = field(default_factory=dict)
    fetcher: Any = None
    info: Any = None
    exhausted: bool = False
    init_error: Exception | None = None
    watch: IndexWatch | None = None

    @property
    def is_virtual_worker(self) -> bool:
        return bool(self.work["num_workers"] > 0)

    def start(self) -> None:
        """Seeds and initialises, as the worker process would have."""
        if self.is_virtual_worker:
            base_seed = self.work["base_seed"]
            rng.seed_worker(base_seed, self.number)
            self.info = torch_worker.WorkerInfo(
                id=self.number,
                num_workers=self.work["num_workers"],
                seed=base_seed + self.number,
                dataset=self.work["dataset"],
            )
            torch_worker._worker_info = self.info
        try:
            if self.is_virtual_worker and self.work["worker_init_fn"] is not None:
                self.work["worker_init_fn"](self.number)
            self.new_fetcher()
        except Exception as error:
            self.init_error = error
        if self.resumed:
            rng.restore(self.resumed)
        self.states = rng.capture()

    def new_fetcher(self) -> None:
        self.exhausted = False
        dataset = self.work["dataset"]
        if self.work["kind"] == _DatasetKind.Map and not getattr(dataset, "__getitems__", None):
            dataset = IndexWatch(dataset)
        self.watch = dataset if isinstance(dataset, IndexWatch) else None
        self.fetcher = _DatasetKind.create_fetcher(
            self.work["kind"],
            dataset,
            self.work["auto_collation"],
            self.work["collate_fn"],
            self.work["drop_last"],
        )

    def fetch(self, index: Any) -> Any:
        if self.init_error is not None:
            error, self.init_error = self.init_error, None
            raise error
        if self.fetcher is None or self.exhausted:
            raise StopIteration
        return self.fetcher.fetch(index)


class LoaderTask:
    def __init__(self, channel: Channel, spec: dict[str, Any], payload: bytes) -> None:
        self._channel = channel
        self._payload = payload
        self._options: dict[str, Any] = spec["options"]
        self._results_max: int = self._options["results_max"]
        self._streams: dict[int, Stream] = {}
        self._current: Stream | None = None

    def run(self) -> None:
        torch.set_num_threads(1)
        _register_file_system()
        collate.default_collate_fn_map[torch.Tensor] = TensorCollator()
        while (frame := self._channel.receive()) is not None:
            if frame.kind == COMMAND:
                self._answer(frame.sequence, LoaderCommand(*pickle.loads(frame.body)))

    def _answer(self, sequence: int, command: LoaderCommand) -> None:
        stream: Stream | None = None
        try:
            stream = self._enter(command.stream)
            if command.reset:
                stream.new_fetcher()
                self._channel.send_json(END, sequence, {})
                return
            if command.states is not None:
                rng.restore(command.states)
                stream.states = rng.capture()
            batch = stream.fetch(command.index)
            if command.skip:
                self._channel.send_json(END, sequence, {})
            else:
                self._send(sequence, stream, batch)
        except StopIteration:
            if stream is None or stream.work["kind"] == _DatasetKind.Map:
                self._send_error(
                    sequence, stream, RuntimeError("the data set raised StopIteration")
                )
                return
            stream.exhausted = True
            # A batch that was begun and dropped has drawn random numbers all the same.
            drawn = rng.changed(stream.states, rng.capture())
            states = {name: base64.b64encode(state).decode() for name, state in drawn.items()}
            self._channel.send_json(END, sequence, {"states": states}, FLAG_EXHAUSTED)
        except Exception as error:
            self._send_error(sequence, stream, error)

    def _enter(self, number: int) -> Stream:
        """The stream, with its generator states in place."""
        if self._current is not None and self._current.number == number:
            return self._current
        if self._current is not None:
            self._current.states = rng.capture()
        stream = self._streams.get(number)
        if stream is None:
            stream = self._streams[number] = self._unpack(number)
            self._current = stream
            stream.start()
        else:
            rng.restore(stream.states)
        torch_worker._worker_info = stream.info
        self._current = stream
        return stream

    def _unpack(self, number: int) -> Stream:
        """Each stream has copies of its own, as each of torch's worker processes has."""
        theirs, ours = self._options["python"], platform.python_version()
        if theirs.split(".")[:2] != ours.split(".")[:2]:
            raise CannotLoad(f"it is of Python {theirs}, and the node has {ours}")
        reader = io.BytesIO(self._payload)
        try:
            work = pickle.load(reader)
            states = pickle.load(reader)
        except Exception as error:
            raise CannotLoad(f"{type(error).__name__}: {error}") from error
        work["num_workers"] = self._options["num_workers"]
        work["base_seed"] = self._options["base_seed"]
        return Stream(work, number, states.get(number))

    def _send(self, sequence: int, stream: Stream, batch: Any) -> None:
        after = rng.capture()
        changed = rng.changed(stream.states, after)
        stream.states = after
        image = wire.encode(batch, changed, palette=self._options["palette"])
        self._channel.wait_until_fewer(self._results_max)
        reservation = self._channel.reserve(image.nbytes)
        image.write(reservation.buffer)
        self._channel.send_reserved(BATCH, sequence, reservation, image.nbytes)

    def _send_error(self, sequence: int, stream: Stream | None, error: Exception) -> None:
        phase = "load" if isinstance(error, CannotLoad) else "run"
        details: dict[str, Any] = {"phase": phase}
        current = None if stream is None or stream.watch is None else stream.watch.current
        if current is not None:
            details["sample_index"] = current if isinstance(current, (int, str)) else repr(current)
        self._channel.send_error(sequence, error, **details)


class CannotLoad(Exception):
    """The work cannot be made here, as when a module is missing. It can run where it comes from."""


class TensorCollator:
    """default_collate for tensors. torch's workers stack into shared memory; here memory is used
    again once nothing refers to it, since fresh pages cost as much as the copy."""

    _KEPT_MAX = 16

    def __init__(self) -> None:
        self._scratch: list[torch.Tensor] = []
        self._idle_uses = _storage_uses(torch.empty(1))

    def __call__(
        self,
        batch: list[torch.Tensor],
        *,
        collate_fn_map: dict[Any, Callable[..., Any]] | None = None,
    ) -> torch.Tensor:
        first = batch[0]
        if type(first) is not torch.Tensor or first.requires_grad or first.is_nested:
            return torch.stack(batch, 0)
        shape = (len(batch), *first.shape)
        for out in self._scratch:
            if out.dtype == first.dtype and out.shape == shape and self._is_idle(out):
                return torch.stack(batch, 0, out=out.view(shape))
        made = torch.stack(batch, 0)
        self._scratch = [*self._scratch[1 - self._KEPT_MAX :], made]
        return made.view(shape)

    def _is_idle(self, tensor: torch.Tensor) -> bool:
        """Whether no other tensor shares the memory: all that leaves here is a view of its own."""
        return _storage_uses(tensor) <= self._idle_uses


def _storage_uses(tensor: torch.Tensor) -> int:
    storage = tensor.untyped_storage()
    return int(torch._C._storage_Use_Count(storage._cdata))


def _register_file_system() -> None:
    """onggi:// URLs, where the package is not installed and has no entry point."""
    with suppress(ImportError):
        import fsspec

        fsspec.register_implementation("onggi", "onggi._filesystem.OnggiFileSystem", clobber=True)


def run(channel: Channel, spec: dict[str, Any], payload: bytes) -> None:
    """The entry `loader`."""
    LoaderTask(channel, spec, payload).run()
