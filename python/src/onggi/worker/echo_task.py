"""Sends each command's body back, by way of the arena. For measuring and for tests."""

from __future__ import annotations

from typing import Any

from onggi import _frames as frames
from onggi.worker.channel import Channel


def run(channel: Channel, spec: dict[str, Any], payload: bytes) -> None:
    """Answers until the daemon hangs up."""
    while (frame := channel.receive()) is not None:
        reservation = channel.reserve(len(frame.body))
        reservation.buffer[:] = frame.body
        channel.send_reserved(frames.BATCH, frame.sequence, reservation)
