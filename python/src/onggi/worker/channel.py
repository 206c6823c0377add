"""A worker's one line to the daemon: a Unix socket that carries frames and an arena for results."""

from __future__ import annotations

import base64
import bisect
import json
import mmap
import os
import struct
import traceback
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from onggi._frames import ERROR, FLAG_IN_ARENA, HEAD, LOG, MAGIC, RELEASE
from onggi._sandbox import xxh3

ARENA_BODY = struct.Struct("<QQ")
RELEASE_BODY = struct.Struct("<Q")

ALIGNMENT = 4096
INLINE_BYTES_MAX = 1 << 20
TRACEBACK_CHARACTERS_MAX = 64 << 10


class Frame(NamedTuple):
    """What came from the daemon."""

    kind: int
    sequence: int
    body: bytes


@dataclass
class Reservation:
    """Space in the arena, to be filled and then sent or given back."""

    offset: int
    nbytes: int
    buffer: memoryview


class ArenaFull(MemoryError):
    """A single result is larger than the whole arena."""


@dataclass
class _Arena:
    """Hands out parts of a mapped memory, lowest address first so that warm pages are reused."""

    size: int
    free: list[tuple[int, int]] = field(default_factory=list)  # (offset, size), by offset
    taken: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.free = [(0, self.size)]

    def take(self, nbytes: int) -> int | None:
        wanted = max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)
        for index, (offset, size) in enumerate(self.free):
            if size >= wanted:
                if size == wanted:
                    del self.free[index]
                else:
                    self.free[index] = (offset + wanted, size - wanted)
                self.taken[offset] = wanted
                return offset
        return None

    def give_back(self, offset: int) -> None:
        size = self.taken.pop(offset)
        index = bisect.bisect(self.free, (offset, 0))
        if index < len(self.free) and self.free[index][0] == offset + size:
            size += self.free.pop(index)[1]
        if index > 0 and sum(self.free[index - 1]) == offset:
            previous, previous_size = self.free[index - 1]
            self.free[index - 1] = (previous, previous_size + size)
        else:
            self.free.insert(index, (offset, size))


class Channel:
    """Frames to and from the daemon. One thread at a time."""

    def __init__(self, socket_fd: int, arena_fd: int, index: int = 0) -> None:
        self.index = index
        self._fd = socket_fd
        size = os.fstat(arena_fd).st_size
        self._arena = _Arena(size)
        self._map = mmap.mmap(arena_fd, size, mmap.MAP_SHARED)
        self._view = memoryview(self._map)
        self._waiting: deque[Frame] = deque()
        self._closed = False

    @property
    def arena_bytes(self) -> int:
        """The most that one result may hold."""
        return self._arena.size

    def receive(self) -> Frame | None:
        """The next start, payload or command; None once the daemon has hung up."""
        while not self._waiting:
            if not self._take_frame():
                return None
        return self._waiting.popleft()

    def reserve(self, nbytes: int) -> Reservation:
        """Space for a result of `nbytes`. Waits for earlier results to go while all is full."""
        if nbytes > self._arena.size:
            raise ArenaFull(
                f"a result of {nbytes:,} bytes does not fit the worker's arena of "
                f"{self._arena.size:,} bytes; raise limits.arena_bytes or make smaller batches"
            )
        while True:
            offset = self._arena.take(nbytes)
            if offset is not None:
                return Reservation(offset, nbytes, self._view[offset : offset + nbytes])
            if not self._arena.taken or not self._take_frame():
                raise EOFError("the daemon hung up")

    def wait_until_fewer(self, results: int) -> None:
        """Waits while `results` or more are reserved or on their way: bounds what is made ahead."""
        while len(self._arena.taken) >= results:
            if not self._take_frame():
                raise EOFError("the daemon hung up")

    def discard(self, reservation: Reservation) -> None:
        """Gives back what is not going to be sent."""
        self._arena.give_back(reservation.offset)

    def send_reserved(
        self,
        kind: int,
        sequence: int,
        reservation: Reservation,
        nbytes: int | None = None,
        flags: int = 0,
    ) -> None:
        """Sends the first `nbytes` of what was reserved. The daemon reads them where they lie."""
        length = reservation.nbytes if nbytes is None else nbytes
        body = ARENA_BODY.pack(reservation.offset, length)
        checksum = xxh3(reservation.buffer[:length])
        self._write_frame(kind, flags | FLAG_IN_ARENA, sequence, body, checksum)

    def send(
        self, kind: int, sequence: int, body: bytes | bytearray | memoryview = b"", flags: int = 0
    ) -> None:
        """Sends a small body through the socket, a large one by the arena."""
        if len(body) > INLINE_BYTES_MAX:
            reservation = self.reserve(len(body))
            reservation.buffer[:] = body
            self.send_reserved(kind, sequence, reservation, flags=flags)
            return
        self._write_frame(kind, flags, sequence, body, xxh3(body))

    def send_json(self, kind: int, sequence: int, value: Any, flags: int = 0) -> None:
        """Sends a JSON body."""
        self.send(kind, sequence, json.dumps(value).encode(), flags)

    def log(self, text: str, stream: str = "worker") -> None:
        """A line for the client's log. What is printed arrives there by itself."""
        self.send_json(LOG, 0, {"stream": stream, "text": text[:TRACEBACK_CHARACTERS_MAX]})

    def send_error(
        self, sequence: int, error: BaseException, flags: int = 0, **details: Any
    ) -> None:
        """Sends what went wrong. `error.onggi_sample_index`, when there, names the sample."""
        kind = type(error)
        text = "".join(traceback.format_exception(kind, error, error.__traceback__))
        problem: dict[str, Any] = {
            "type": "about:blank",
            "title": "The task's code raised",
            "status": 422,
            "code": "invalid_argument",
            "detail": f"{kind.__name__}: {error}"[:TRACEBACK_CHARACTERS_MAX],
            "exception": f"{kind.__module__}.{kind.__qualname__}",
            "traceback": text[-TRACEBACK_CHARACTERS_MAX:],
        }
        index = getattr(error, "onggi_sample_index", None)
        if isinstance(index, bytes):
            index = base64.b64encode(index).decode()
        if index is not None:
            problem["sample_index"] = index if isinstance(index, (int, str)) else repr(index)
        problem.update(details)
        self.send_json(ERROR, sequence, problem, flags)

    def _take_frame(self) -> bool:
        head = self._read(HEAD.size)
        if head is None:
            return False
        magic, kind, _flags, _channel, sequence, _reserved, length, checksum = HEAD.unpack(head)
        if magic != MAGIC:
            raise ConnectionError("the daemon sent what is not a frame")
        body = self._read(length)
        if body is None:
            return False
        if kind == RELEASE:
            self._arena.give_back(RELEASE_BODY.unpack(body)[0])
            return True
        if xxh3(body) != checksum:
            raise ConnectionError("a frame from the daemon failed its checksum")
        self._waiting.append(Frame(kind, sequence, body))
        return True

    def _read(self, nbytes: int) -> bytes | None:
        if nbytes == 0:
            return b""
        first = os.read(self._fd, nbytes) if not self._closed else b""
        if len(first) == nbytes:
            return first
        buffer = bytearray(nbytes)
        view = memoryview(buffer)
        filled = len(first)
        view[:filled] = first
        got = filled
        while got and filled < nbytes:
            got = os.readv(self._fd, [view[filled:]])
            filled += got
        if filled < nbytes:
            self._closed = True
            return None
        return bytes(buffer)

    def _write_frame(
        self,
        kind: int,
        flags: int,
        sequence: int,
        body: bytes | bytearray | memoryview,
        checksum: int,
    ) -> None:
        head = HEAD.pack(MAGIC, kind, flags, self.index, sequence, 0, len(body), checksum)
        written = os.writev(self._fd, [head, body])
        total = len(head) + len(body)
        if written < total:
            rest = memoryview(b"".join((head, bytes(body))))
            while written < total:
                written += os.write(self._fd, rest[written:])
