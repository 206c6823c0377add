"""The life of a Python worker behind its walls: what to run, with what, and what if it fails."""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

from onggi import _frames as frames
from onggi.worker.channel import Channel


def run_worker(socket_fd: int, arena_fd: int) -> int:
    """Says ready, takes the start and the payload, and runs the entry. Gives the exit status."""
    # print() goes to a pipe that the daemon turns into log frames line by line.
    sys.stdout = open(1, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    channel = Channel(socket_fd, arena_fd)
    channel.send(frames.READY, 0)
    start = channel.receive()
    if start is None:
        return 0
    try:
        spec: dict[str, Any] = json.loads(start.body)
        channel.index = spec["index"]
        payload = _receive_payload(channel, spec["payload_bytes"])
        os.environ.update(spec.get("env", {}))
        entry = importlib.import_module(f"onggi.worker.{spec['entry']}_task")
        entry.run(channel, spec, payload)
    except EOFError:
        return 0
    except BaseException as error:
        channel.send_error(0, error, frames.FLAG_LAST)
        return 1
    return 0


def _receive_payload(channel: Channel, nbytes: int) -> bytes:
    if nbytes == 0:
        return b""
    frame = channel.receive()
    if frame is None or frame.kind != frames.PAYLOAD:
        raise EOFError("the daemon hung up before the payload")
    return frame.body
