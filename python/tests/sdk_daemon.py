"""Starts the real onggid that the SDK's tests talk to."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 30.0


def find_program(name: str) -> str:
    """The program in the folder ONGGI_BIN, else the one built last, else the one on the PATH."""
    folder = os.environ.get("ONGGI_BIN")
    if folder:
        return str(Path(folder) / name)
    built = sorted(ROOT.glob(f"build/*/bin/{name}"), key=lambda path: path.stat().st_mtime)
    found = str(built[-1]) if built else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not built")
    return found


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Daemon:
    """A running onggid and where it is."""

    url: str
    token: str
    data: Path
    process: subprocess.Popen[bytes]


def start_daemon(data: Path, *settings: str) -> Daemon:
    """Starts onggid with KEY=VALUE `settings`; it serves when this returns."""
    port = free_port()
    command = [find_program("onggid"), "--data", str(data), "--port", str(port)]
    for setting in settings:
        command += ["--set", setting]
    with (data.parent / f"{data.name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    token_file = data / "admin.token"
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0 and token_file.exists():
                token = token_file.read_text().strip()
                return Daemon(f"http://127.0.0.1:{port}", token, data, process)
        time.sleep(0.02)
    process.kill()
    log_text = (data.parent / f"{data.name}.log").read_text()
    raise AssertionError(f"onggid did not start:\n{log_text}")
