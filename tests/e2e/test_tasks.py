"""Tasks over HTTP, with the profile that needs no Python; loaders have tests of their own."""

from __future__ import annotations

import json
import signal
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from node_under_test import Daemon, StartDaemon

native = pytest.importorskip("onggi._native")

SPEC, PAYLOAD, COMMAND, TASK, BATCH, PROGRESS, LOG, ERROR, END = range(1, 10)
LAST = 2
HEAD = struct.Struct("<IBBHIIQQ")
MAGIC = 0x49474E4F
FRAMES = "application/vnd.onggi.frames"
WAIT_SECONDS = 30.0


def frame(kind: int, body: bytes, sequence: int = 0, channel: int = 0) -> bytes:
    checksum = native.xxh3(body)
    return HEAD.pack(MAGIC, kind, 0, channel, sequence, 0, len(body), checksum) + body


def spec(**fields: Any) -> bytes:
    return frame(SPEC, json.dumps({"profile": "native", "entry": "echo", **fields}).encode())


def read_frame(source: Any) -> tuple[int, int, int, bytes] | None:
    head = source.read(HEAD.size)
    if not head:
        return None
    magic, kind, flags, _, sequence, zero, length, checksum = HEAD.unpack(head)
    assert (magic, zero) == (MAGIC, 0)
    body = source.read(length)
    assert native.xxh3(body) == checksum
    return kind, flags, sequence, body


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> Daemon:
    node = start_daemon("--set", "active.profiles=native")
    if not node.send("GET", "/v1/node").field("sandbox.ok"):
        pytest.skip("this machine has no means for a sandbox")
    return node


def begin(daemon: Daemon, body: bytes) -> Any:
    connection = daemon.connect()
    connection.request("POST", "/v1/tasks", body, daemon.headers(Content_Type=FRAMES))
    return connection.getresponse()


def started(response: Any) -> str:
    assert response.status == 200
    got = read_frame(response)
    assert got is not None
    assert got[0] == TASK
    task = str(json.loads(got[3])["task"])
    assert response.headers["Onggi-Task"] == task
    return task


def results(response: Any, count: int) -> list[tuple[int, int, int, bytes]]:
    found: list[tuple[int, int, int, bytes]] = []
    while len(found) < count:
        got = read_frame(response)
        assert got is not None, "the stream ended early"
        if got[0] not in (PROGRESS, LOG):
            found.append(got)
    return found


def tasks_of(daemon: Daemon) -> list[Any]:
    return list(daemon.send("GET", "/v1/tasks").field("items"))


def wait_for_no_tasks(daemon: Daemon) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while tasks_of(daemon):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_results_come_in_the_order_of_their_commands(daemon: Daemon) -> None:
    bodies = [bytes([n]) * n * 1000 for n in range(1, 20)]
    commands = [frame(COMMAND, body, n, n % 3) for n, body in enumerate(bodies)]
    response = begin(daemon, spec(workers=3) + b"".join(commands))
    task = started(response)
    assert [(kind, body) for kind, _, _, body in results(response, len(bodies))] == [
        (BATCH, body) for body in bodies
    ]
    assert tasks_of(daemon)[0]["id"] == task
    assert tasks_of(daemon)[0]["workers"] == 3


def test_commands_may_come_later(daemon: Daemon) -> None:
    response = begin(daemon, spec() + frame(COMMAND, b"first", 0))
    task = started(response)
    assert results(response, 1)[0][3] == b"first"
    path = f"/v1/tasks/{task}/commands"
    answer = daemon.send("POST", path, frame(COMMAND, b"second", 1), Content_Type=FRAMES)
    assert answer.status == 204, answer.body
    assert results(response, 1)[0][3] == b"second"
    assert daemon.send("POST", path, b"nonsense", Content_Type=FRAMES).status == 400
    assert daemon.send("POST", path, spec(), Content_Type=FRAMES).status == 400


def test_workers_see_the_vfolder_they_were_given(daemon: Daemon) -> None:
    vfolder = daemon.make_vfolder()
    daemon.send("PUT", f"/v1/vfolders/{vfolder}/files/d/a", b"hello")
    mounts = [{"vfolder": vfolder, "path": "/data/set"}]
    command = frame(COMMAND, json.dumps({"path": "/data/set"}).encode(), 0)
    response = begin(daemon, spec(entry="tree_digest", mounts=mounts) + command)
    started(response)
    kind, _, _, body = results(response, 1)[0]
    assert kind == END, body
    assert (json.loads(body)["files"], json.loads(body)["size_bytes"]) == (1, 5)


def test_foreign_vfolders_cannot_be_mounted(daemon: Daemon) -> None:
    mounts = [{"vfolder": "00000000-0000-4000-8000-000000000000", "path": "/data"}]
    response = begin(daemon, spec(mounts=mounts))
    assert response.status == 404
    assert json.load(response)["code"] == "not_found"


def test_deleting_a_task_ends_its_stream(daemon: Daemon) -> None:
    response = begin(daemon, spec())
    task = started(response)
    assert daemon.send("DELETE", f"/v1/tasks/{task}").status == 204
    frames = []
    while got := read_frame(response):
        frames.append(got)
    assert frames[-1][1] & LAST
    wait_for_no_tasks(daemon)
    assert daemon.send("DELETE", f"/v1/tasks/{task}").status == 404


def test_a_client_that_leaves_takes_its_task_along(daemon: Daemon) -> None:
    response = begin(daemon, spec())
    started(response)
    response.close()
    wait_for_no_tasks(daemon)


@pytest.mark.parametrize("grace_seconds", [2, 600])
def test_a_stopping_daemon_ends_idle_streams_with_a_reason(
    start_daemon: StartDaemon, grace_seconds: int
) -> None:
    grace = f"server.grace_seconds={grace_seconds}"
    daemon = start_daemon("--set", "active.profiles=native", "--set", grace)
    if not daemon.send("GET", "/v1/node").field("sandbox.ok"):
        pytest.skip("this machine has no means for a sandbox")
    response = begin(daemon, spec())
    started(response)
    daemon.node.process.terminate()
    frames = []
    while got := read_frame(response):
        frames.append(got)
    assert (frames[-1][0], frames[-1][1] & LAST) == (ERROR, LAST)
    assert daemon.node.process.wait(WAIT_SECONDS) == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"ONGI",
        spec()[:-1],
        frame(COMMAND, b"x"),
        spec() + spec(),
        frame(SPEC, b"not json"),
        frame(SPEC, b"{}"),
        spec(profile="jax"),
        spec(workers=0),
        spec(colour="red"),
        spec() + frame(BATCH, b"x"),
        spec() + frame(33, b"{}"),
        spec()[:-1] + b"?",
    ],
)
def test_malformed_bodies_are_refused(daemon: Daemon, body: bytes) -> None:
    response = begin(daemon, body)
    assert response.status == 400
    assert json.load(response)["code"] == "invalid_argument"


def descendants(pid: int) -> set[int]:
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(entry.parent.name)] = int(entry.read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError):
            continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_no_worker_is_left_behind(start_daemon: StartDaemon, how: signal.Signals) -> None:
    daemon = start_daemon("--set", "active.profiles=native", "--set", "server.grace_seconds=0")
    if not daemon.send("GET", "/v1/node").field("sandbox.ok"):
        pytest.skip("this machine has no means for a sandbox")
    commands = frame(COMMAND, b"a", 0, 0) + frame(COMMAND, b"b", 1, 1)
    response = begin(daemon, spec(workers=2) + commands)
    started(response)
    results(response, 2)
    processes = descendants(daemon.node.process.pid)
    assert len(processes) >= 3
    daemon.node.process.send_signal(how)
    daemon.node.process.wait(WAIT_SECONDS)
    deadline = time.monotonic() + WAIT_SECONDS
    while any(Path(f"/proc/{pid}").exists() for pid in processes):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    response.close()
