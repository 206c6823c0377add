"""An epoch whose work is done on a node: torch's own schedule, a task in place of processes."""

from __future__ import annotations

import base64
import itertools
import json
import pickle
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.dataloader import _BaseDataLoaderIter, _DatasetKind
from torch.utils.data.distributed import DistributedSampler

from onggi._frames import BATCH, END, ERROR, FLAG_EXHAUSTED
from onggi.offload import rng, wire
from onggi.offload.failures import WorkerLost, exception_from, parse_problem
from onggi.offload.position import Position, Start
from onggi.offload.session import Command, Result, Session

# Commands that may be without a result when the sampler can be drawn ahead.
DRAWN_AHEAD_MAX = 10_000
# Batches made ahead on a guess when the random numbers are the process's own.
GUESSED_AHEAD_MAX = 4

# Opens a session for (streams' number, base seed, streams' states) with its first commands.
OpenSession = Callable[[int, int, dict[int, rng.States], list[Command]], Session]


def can_draw_ahead(loader: DataLoader[Any]) -> bool:
    """Whether the sampler's order is settled by its first index: then drawing it early changes
    nothing. True of torch's own samplers unless they share a generator with others."""
    sampler: Any = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
    if type(sampler) is BatchSampler:
        sampler = sampler.sampler
    if type(sampler) in (RandomSampler, SubsetRandomSampler, WeightedRandomSampler):
        replacement = getattr(sampler, "replacement", False) and type(sampler) is RandomSampler
        return sampler.generator is None and not replacement
    return type(sampler) in (SequentialSampler, DistributedSampler)


class StorageEpoch(_BaseDataLoaderIter):
    """Base of the two kinds. torch's base class draws the base seed and makes the sampler's
    iterator, so that those are torch's by construction."""

    def __init__(
        self, loader: DataLoader[Any], open_session: OpenSession, resume: Position | None
    ) -> None:
        self._open_session = open_session
        self._iterable = loader._dataset_kind == _DatasetKind.Iterable
        self._session: Session | None = None
        self._yielded = 0
        self._start = resume.start if resume else Start.capture(loader)
        with self._start.restored(loader) if resume else nullcontext():
            self._begin(loader, resume)

    def _begin(self, loader: DataLoader[Any], resume: Position | None) -> None:
        super().__init__(loader)

    @property
    def node(self) -> str:
        return self._session.node if self._session else ""

    @property
    def can_reconnect(self) -> bool:
        """Whether reconnect() can go on with a new task after this one was lost."""
        return False

    def reconnect(self) -> None:
        raise NotImplementedError

    def position(self) -> Position:
        raise NotImplementedError

    def close(self) -> None:
        if self._session is not None:
            self._session.close()

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _receive(self) -> Result:
        assert self._session is not None
        timeout: float = self._timeout
        return self._session.receive(timeout or None)

    def _decode(self, result: Result) -> wire.Decoded:
        assert self._session is not None
        return wire.decode(result.body, self._session.expanded.take)

    def _finish(self, batch: Any) -> Any:
        self._yielded += 1
        if self._pin_memory:
            from torch.utils.data._utils.pin_memory import pin_memory

            return pin_memory(batch, self._pin_memory_device)
        return batch

    def _raise_if_error(self, result: Result) -> None:
        if result.kind == ERROR:
            raise exception_from(parse_problem(result.body), f"in Onggi worker on {self.node}")


def _dump(
    stream: int,
    index: Any = None,
    states: rng.States | None = None,
    skip: bool = False,
    reset: bool = False,
) -> bytes:
    # The fields of loader_task.LoaderCommand; pickled here, unpickled only in the sandbox.
    return pickle.dumps((stream, index, states, skip, reset), protocol=5)


class StreamsEpoch(StorageEpoch):
    """num_workers > 0: each virtual worker has a stream of random numbers of its own."""

    def __init__(
        self,
        loader: DataLoader[Any],
        open_session: OpenSession,
        workers: int,
        resume: Position | None = None,
    ) -> None:
        self._processes = workers
        self._streams = resume.num_workers if resume else loader.num_workers
        super().__init__(loader, open_session, resume)

    def _begin(self, loader: DataLoader[Any], resume: Position | None) -> None:
        super()._begin(loader, resume)
        # torch makes the sampler's iterator twice: so do we, and it draws the same.
        super()._reset(loader)
        self._outstanding_max = (loader.prefetch_factor or 2) * self._streams
        if not self._iterable and can_draw_ahead(loader):
            self._outstanding_max = max(self._outstanding_max, DRAWN_AHEAD_MAX)
        self._states: dict[int, rng.States] = dict(resume.streams or {}) if resume else {}
        self._at_start = dict(self._states)
        # Batches that are made again but not sent: where only the epoch's start is known.
        self._skip = 0
        if resume is not None and (self._iterable or resume.streams is None):
            self._skip = resume.yielded
        elif resume is not None:
            self._yielded = resume.yielded
            for _ in range(resume.yielded):
                self._next_index()
        self._tasks: dict[int, tuple[int, Any]] = {}  # by sequence: stream and index
        self._begin_schedule(sequence=self._yielded, turn=self._yielded)
        self._open()

    def _begin_schedule(self, sequence: int, turn: int) -> None:
        self._sent = self._received = sequence
        self._active = [True] * self._streams
        self._turns = itertools.cycle(range(self._streams))
        for _ in range(turn % self._streams):
            next(self._turns)
        self._drawn_all = False

    def _open(self) -> None:
        # The first batch does not wait for all that can be drawn ahead: that follows it.
        first = 2 * self._streams
        commands = [*(self._command(n) for n in sorted(self._tasks)), *self._draw(first)]
        self._session = self._open_session(
            self._streams, int(self._base_seed), self._states, commands
        )

    @property
    def can_reconnect(self) -> bool:
        return not self._iterable and self._skip == 0

    def reconnect(self) -> None:
        self.close()
        self._open()

    def next_epoch(self, loader: DataLoader[Any]) -> None:
        """Persistent workers: the same task, data sets and generators go on."""
        assert self._session is not None
        self._start = Start.capture(loader)
        super()._reset(loader)
        first = self._sent + self._streams
        resets = [
            Command(s % self._processes, self._sent + s, _dump(s, reset=True))
            for s in range(self._streams)
        ]
        self._session.push(resets)
        for _ in resets:
            self._raise_if_error(self._receive())
        self._yielded = self._skip = 0
        self._at_start = dict(self._states)
        self._begin_schedule(sequence=first, turn=0)
        self._session.push(self._draw())

    def position(self) -> Position:
        streams = dict(self._at_start if self._iterable else self._states)
        return Position(self._streams, self._yielded, self._start, streams)

    def _draw(self, most: int | None = None) -> list[Command]:
        """Draws indices as far ahead as torch would, or all when that changes nothing."""
        commands = []
        outstanding = min(self._outstanding_max, most or self._outstanding_max)
        while len(self._tasks) < outstanding and not self._drawn_all:
            command = self._draw_one()
            if command is not None:
                commands.append(command)
        return commands

    def _draw_one(self) -> Command | None:
        try:
            index = self._next_index()
        except StopIteration:
            self._drawn_all = True
            return None
        for _ in range(self._streams):
            stream = next(self._turns)
            if self._active[stream]:
                self._tasks[self._sent] = (stream, index)
                self._sent += 1
                return self._command(self._sent - 1)
        self._drawn_all = True  # every stream's iterable data set is over
        return None

    def _command(self, sequence: int) -> Command:
        stream, index = self._tasks[sequence]
        # A command gives one batch at most, so these are all among those already yielded.
        skip = sequence < self._skip
        return Command(stream % self._processes, sequence, _dump(stream, index, skip=skip))

    def _next_data(self) -> Any:
        while self._tasks:
            result = self._receive()
            if result.sequence != self._received:
                raise WorkerLost(f"result {result.sequence} came, not {self._received}")
            decoded = self._decode(result) if result.kind == BATCH else None
            stream, _ = self._tasks.pop(self._received)
            self._received += 1
            if result.kind == END and result.flags & FLAG_EXHAUSTED:
                self._active[stream] = False
                self._push_more()
                continue
            self._push_more()
            self._raise_if_error(result)
            if decoded is not None:
                self._states[stream] = {**self._states.get(stream, {}), **decoded.states}
            if decoded is None or self._yielded < self._skip:
                self._yielded += 1
                continue
            return self._finish(decoded.batch)
        if not self._persistent_workers:
            self.close()
        raise StopIteration

    def _push_more(self) -> None:
        # Far ahead, a refill now and then is enough; else one for one, as torch does.
        far_ahead = self._outstanding_max >= DRAWN_AHEAD_MAX
        if far_ahead and self._yielded == 0:
            return
        if not far_ahead or len(self._tasks) <= self._outstanding_max // 2:
            assert self._session is not None
            self._session.push(self._draw())


@dataclass
class Wanted:
    """An index that was drawn and has no batch yet; `sequence` once it was asked for."""

    index: Any
    sequence: int | None = None


class OwnGeneratorsEpoch(StorageEpoch):
    """num_workers = 0: samples draw from the process's own generators, between training's draws.
    Their states go out with a command and come back with its batch. Batches ahead are made on the
    guess that training draws nothing meanwhile; a wrong guess costs time, never exactness."""

    def _begin(self, loader: DataLoader[Any], resume: Position | None) -> None:
        super()._begin(loader, resume)
        guess = not self._iterable and can_draw_ahead(loader)
        self._ahead_max = GUESSED_AHEAD_MAX if guess else 1
        self._wanted: deque[Wanted] = deque()
        self._sequence = 0
        self._expected: rng.States = {}
        self._session = self._open_session(0, int(self._base_seed), {}, [])
        if resume is None:
            return
        for n in range(resume.yielded):
            index = self._next_index()
            if self._iterable:
                # It has to be walked to its place, with the draws of the start.
                self._send(Wanted(index), resume.start.states if n == 0 else None, skip=True)
                self._receive()
        self._yielded = resume.yielded

    def __init__(
        self, loader: DataLoader[Any], open_session: OpenSession, resume: Position | None = None
    ) -> None:
        super().__init__(loader, open_session, resume)
        if resume is not None:
            rng.restore(resume.now)  # the process's generators are part of this loader's state

    def position(self) -> Position:
        return Position(0, self._yielded, self._start, None, rng.capture())

    def _next_data(self) -> Any:
        if not self._wanted and not self._draw():
            self.close()
            raise StopIteration
        now = rng.capture()
        if self._wanted[0].sequence is not None and now != self._expected:
            self._ahead_max = 1  # training draws: guessing again would waste the node's time
            for wanted in self._wanted:
                wanted.sequence = None
        if self._wanted[0].sequence is None:
            self._send(self._wanted[0], now)
        self._guess_ahead()
        result = self._result_of(self._wanted.popleft())
        self._raise_if_error(result)
        if result.kind == END:
            rng.restore(_states_of_end(result))
            self.close()
            raise StopIteration
        decoded = self._decode(result)
        rng.restore(decoded.states)
        self._expected = {**now, **decoded.states}
        return self._finish(decoded.batch)

    def _draw(self) -> bool:
        try:
            self._wanted.append(Wanted(self._next_index()))
        except StopIteration:
            return False
        return True

    def _guess_ahead(self) -> None:
        while self._ahead_max > 1 and len(self._wanted) < self._ahead_max and self._draw():
            pass
        if self._ahead_max > 1:
            for wanted in self._wanted:
                if wanted.sequence is None:
                    self._send(wanted, None)

    def _send(self, wanted: Wanted, states: rng.States | None, skip: bool = False) -> None:
        assert self._session is not None
        wanted.sequence = self._sequence
        self._sequence += 1
        body = _dump(0, wanted.index, states, skip)
        self._session.push([Command(0, wanted.sequence, body)])

    def _result_of(self, wanted: Wanted) -> Result:
        while True:
            result = self._receive()
            if result.sequence == wanted.sequence:  # others were wrong guesses
                return result


def _states_of_end(result: Result) -> rng.States:
    states = json.loads(bytes(result.body)).get("states", {})
    return {
        name: base64.b64decode(state) for name, state in states.items() if name in rng.GENERATORS
    }


def make_epoch(
    loader: DataLoader[Any],
    open_session: OpenSession,
    workers: int,
    resume: Position | None = None,
) -> StreamsEpoch | OwnGeneratorsEpoch:
    streams = resume.num_workers if resume else loader.num_workers
    if streams > 0:
        return StreamsEpoch(loader, open_session, workers, resume)
    return OwnGeneratorsEpoch(loader, open_session, resume)
