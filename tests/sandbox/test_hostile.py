"""Workers that attack the daemon through the one line they have."""

from __future__ import annotations

import pytest
from runner import Runner

HEAD = """
import os, struct
from onggi._sandbox import xxh3
def head(kind=5, flags=0, sequence=0, reserved=0, length=0, checksum=0, magic=0x49474E4F):
    fields = (magic, kind, flags, 0, sequence, reserved, length, checksum)
    return struct.pack('<IBBHIIQQ', *fields)
def place(offset, length):
    return head(flags=0x80, length=16) + struct.pack('<QQ', offset, length)
def send(data):
    os.write(3, data)
import time
"""

BREACHES = {
    "noise": "send(os.urandom(4096))",
    "another magic": "send(head(magic=1))",
    "an unknown kind": "send(head(kind=99))",
    "a kind of the client's": "send(head(kind=3, checksum=xxh3(b'')))",
    "a kind of the daemon's": "send(head(kind=32, length=8, checksum=xxh3(bytes(8))) + bytes(8))",
    "unknown flags": "send(head(flags=0x40))",
    "a reserved word": "send(head(reserved=1))",
    "a body without end": "send(head(length=1 << 62))",
    "a body over the limit": "send(head(length=(1 << 30) + 1))",
    "a large body inline": "send(head(length=64 << 20))",
    "a large JSON body": "send(head(kind=7, length=(1 << 20) + 1))",
    "a wrong checksum": "send(head(length=1, checksum=1) + b'x')",
    "an arena body of another size": "send(head(flags=0x80, length=8) + bytes(8))",
    "an offset past the arena": "send(place(1 << 40, 1))",
    "a length past the arena": "send(place(0, 1 << 40))",
    "an overflowing sum": "send(place(4096, (1 << 64) - 1))",
    "another sequence than asked": "send(head(sequence=77, checksum=xxh3(b'')))",
}


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_ends_the_task_alone(name: str, runner: Runner) -> None:
    answer = runner.script(HEAD + BREACHES[name] + "\ntime.sleep(30)")
    assert answer.error is not None, answer.raw
    assert answer.error["code"] == "internal"
    assert "broken" not in answer.raw
    assert answer.raw["seconds"] < 20


def test_half_a_head_and_silence_ends_at_the_wall_time(runner: Runner) -> None:
    answer = runner.script(HEAD + "send(head()[:16])\ntime.sleep(60)", limits={"wall_seconds": 1})
    assert answer.error is not None
    assert answer.error["code"] == "deadline_exceeded"


def test_a_writer_that_changes_what_is_being_sent(runner: Runner) -> None:
    """The client's checksum tells; the daemon neither crashes nor reads further than it may."""
    answer = runner.script(
        HEAD
        + """
import mmap, threading
arena = mmap.mmap(4, 32 << 20)
stop = False
def flip():
    n = 0
    while not stop:
        arena[n % (16 << 20)] = n & 255
        n += 4093
thread = threading.Thread(target=flip)
thread.start()
for _ in range(20):
    send(head(flags=0x80, sequence=0, length=16, checksum=1) + struct.pack('<QQ', 0, 16 << 20))
time.sleep(2)
stop = True
""",
        limits={"wall_seconds": 10},
    )
    assert "broken" in answer.raw or answer.error is not None


def test_descriptors_sent_along_are_dropped(runner: Runner) -> None:
    source = (
        HEAD
        + """
import socket
line = socket.socket(fileno=3)
for _ in range(200):
    fd = os.open('/dev/null', os.O_RDONLY)
    body = b'{"stream":"x","text":""}'
    socket.send_fds(line, [head(kind=7, length=len(body), checksum=xxh3(body)) + body], [fd] * 50)
    os.close(fd)
line.detach()
result = 'sent'
"""
    )
    before = runner.open_files()
    answer = runner.script(source)
    assert answer.results == ["sent"] or answer.error is not None
    assert runner.open_files() <= before + 8
