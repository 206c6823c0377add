"""A real onggid for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from node_under_test import Daemon, StartDaemon, find_program


@pytest.fixture
def program() -> str:
    return find_program("onggid")


@pytest.fixture
def start_daemon(program: str, tmp_path: Path) -> Iterator[StartDaemon]:
    running: list[Daemon] = []

    def start(*arguments: str) -> Daemon:
        folder = tmp_path / f"node-{len(running)}"
        folder.mkdir()
        running.append(Daemon(program, folder / "data", arguments))
        return running[-1]

    yield start
    for daemon in running:
        if daemon.node.process.poll() is None:
            daemon.kill()


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> Daemon:
    return start_daemon("--set", "active.enabled=false")
