"""A running task on a node, as the loader sees it: commands out, results in, in order."""

from __future__ import annotations

import itertools
import json
import queue
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from onggi._client import Client
from onggi._errors import OnggiError, Unavailable, raise_for_status
from onggi._frames import (
    BATCH,
    COMMAND,
    END,
    ERROR,
    FLAG_LAST,
    HEAD,
    LOG,
    MAGIC,
    PAYLOAD,
    SPEC,
)
from onggi._native import Stream, xxh3
from onggi.offload.failures import WorkerLost, parse_problem
from onggi.offload.report import Stats

BODY_BYTES_MAX = 1 << 30
CONTENT_TYPE = "application/vnd.onggi.frames"


class Command(NamedTuple):
    channel: int
    sequence: int
    body: bytes


class Result(NamedTuple):
    """What a command gave: a batch, an end (exhausted or skipped) or an error."""

    kind: int
    sequence: int
    flags: int
    body: bytearray


def frame(kind: int, body: bytes, channel: int = 0, sequence: int = 0) -> bytes:
    return HEAD.pack(MAGIC, kind, 0, channel, sequence, 0, len(body), xxh3(body)) + body


class TaskHttp:
    """How frames reach a task and come back: over the client's HTTP."""

    def __init__(self, client: Client) -> None:
        self._http = client._http

    def open(self, frames: bytes) -> Stream:
        return self._http.open_stream("POST", "/v1/tasks", frames, {"Content-Type": CONTENT_TYPE})

    def push(self, task: str, frames: bytes) -> None:
        headers = {"Content-Type": CONTENT_TYPE}
        status, _, body = self._http.request("POST", f"/v1/tasks/{task}/commands", frames, headers)
        raise_for_status(status, body)


class BufferPool:
    """Buffers for bodies, used again once nothing refers to them: no tensor that was given out."""

    # What getrefcount sees of a buffer that only the pool's list holds, in take()'s loop.
    _IDLE_REFERENCES = 3
    _KEPT_MAX = 64

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []

    def take(self, nbytes: int) -> bytearray:
        for buffer in self._buffers:
            if len(buffer) == nbytes and sys.getrefcount(buffer) <= self._IDLE_REFERENCES:
                return buffer
        made = bytearray(nbytes)
        self._buffers.append(made)
        if len(self._buffers) > self._KEPT_MAX:
            del self._buffers[0]
        return made


@dataclass(frozen=True)
class SessionSpec:
    spec: Mapping[str, Any]
    payload: bytes


class Session:
    """Runs one task. A thread reads results ahead, `ahead` of them at most; the network's own
    back-pressure holds back the node. Close it, or leave it to the garbage collector."""

    def __init__(
        self,
        http: TaskHttp,
        what: SessionSpec,
        commands: Iterable[Command],
        ahead: int,
        stats: Stats,
        pool: BufferPool,
    ) -> None:
        self._http = http
        self._stats = stats
        self._pool = pool
        self.expanded = BufferPool()  # for what travels short; not the reading thread's
        self._results: queue.Queue[Result | BaseException] = queue.Queue(maxsize=max(1, ahead))
        self._closed = threading.Event()
        opening = b"".join(
            itertools.chain(
                (frame(SPEC, json.dumps(what.spec).encode()), frame(PAYLOAD, what.payload)),
                (frame(COMMAND, c.body, c.channel, c.sequence) for c in commands),
            )
        )
        self._stats.bytes_sent += len(opening)
        self._stream = http.open(opening)
        first = self._read_frame()
        if first is None or first.kind == ERROR:
            self._stream.close()
            raise self._lost(first)
        task = json.loads(bytes(first.body))
        self.task: str = task["task"]
        self.node: str = task.get("node", "")
        self._reader = threading.Thread(target=self._read, name="onggi-reader", daemon=True)
        self._reader.start()

    def push(self, commands: Iterable[Command]) -> None:
        frames = b"".join(frame(COMMAND, c.body, c.channel, c.sequence) for c in commands)
        if frames:
            self._stats.bytes_sent += len(frames)
            self._http.push(self.task, frames)

    def receive(self, timeout: float | None = None) -> Result:
        """The next result; WorkerLost when the task is over."""
        try:
            result = self._results.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f"no batch came within {timeout} seconds") from None
        if isinstance(result, BaseException):
            self._results.put(result)  # for whoever asks again
            raise result
        return result

    def close(self) -> None:
        """Ends the task: the node kills its workers. Returns once the reader is gone."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._stream.close()
        while self._reader.is_alive():
            try:
                self._results.get_nowait()  # the reader may be waiting for room
            except queue.Empty:
                self._reader.join(0.01)

    def __del__(self) -> None:
        if hasattr(self, "_reader"):
            self.close()

    def _read(self) -> None:
        try:
            while not self._closed.is_set():
                result = self._read_frame()
                if result is None or (result.kind in (ERROR, END) and result.flags & FLAG_LAST):
                    self._put(self._lost(result))
                    return
                if result.kind in (BATCH, ERROR, END):
                    self._put(result)
                elif result.kind == LOG:
                    self._print_log(result)
        except OnggiError as error:
            self._put(error)
        except Exception as error:
            self._put(WorkerLost(f"the stream of results broke: {error}"))

    def _put(self, item: Result | BaseException) -> None:
        while not self._closed.is_set():
            try:
                self._results.put(item, timeout=0.2)
                return
            except queue.Full:
                continue

    def _read_frame(self) -> Result | None:
        head = bytearray(HEAD.size)
        got = self._stream.readinto(memoryview(head))
        if got == 0:
            return None
        if got < HEAD.size:
            raise WorkerLost("the stream of results was cut short")
        magic, kind, flags, _, sequence, _, length, checksum = HEAD.unpack(head)
        if magic != MAGIC or length > BODY_BYTES_MAX:
            raise WorkerLost("the node sent what is not a frame")
        body = self._pool.take(length)
        if length and self._stream.readinto(memoryview(body)) < length:
            raise WorkerLost("the stream of results was cut short")
        if xxh3(body) != checksum:
            raise WorkerLost("a frame failed its checksum")
        self._stats.bytes_received += HEAD.size + length
        return Result(kind, sequence, flags, body)

    @staticmethod
    def _print_log(result: Result) -> None:
        print(parse_problem(result.body).get("text", ""), file=sys.stderr)

    def _lost(self, result: Result | None) -> OnggiError:
        if result is None:
            return Unavailable("the node closed the connection")
        problem = parse_problem(result.body)
        if result.kind == END:
            return WorkerLost("the task ended early")
        detail = str(problem.get("detail", "the task failed"))
        log = problem.get("log")
        if isinstance(log, list) and log:
            detail += "\nLast lines of its log:\n" + "\n".join(str(line) for line in log)
        return WorkerLost(detail)
