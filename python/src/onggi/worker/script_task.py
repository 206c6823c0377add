"""Runs a piece of Python for each command. The sandbox's own tests are its main user.

The payload is the source. Each command is a JSON value, seen by the source as `argument`; what the
source leaves in `result` goes back as the JSON body of an end frame.
"""

from __future__ import annotations

import json
from typing import Any

from onggi import _frames as frames
from onggi.worker.channel import Channel


def run(channel: Channel, spec: dict[str, Any], payload: bytes) -> None:
    """Answers until the daemon hangs up."""
    code = compile(payload.decode(), "<script>", "exec")
    while (frame := channel.receive()) is not None:
        names: dict[str, Any] = {
            "__name__": "__script__",
            "argument": json.loads(frame.body) if frame.body else None,
            "channel": channel,
            "result": None,
        }
        try:
            exec(code, names)
            body = json.dumps(names["result"]).encode()
        except Exception as error:
            channel.send_error(frame.sequence, error)
            continue
        channel.send(frames.END, frame.sequence, body)
