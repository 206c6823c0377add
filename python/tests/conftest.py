"""A real onggid for the SDK's tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import onggi
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


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A storage-only daemon that the tests share; each makes vfolders of its own."""
    running = start_daemon(tmp_path_factory.mktemp("node") / "data", "active.enabled=false")
    yield running
    running.process.terminate()
    running.process.wait(START_SECONDS)


@pytest.fixture(autouse=True)
def own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own profiles, tokens and caches stay out of the tests."""
    for name in ("ONGGI_URL", "ONGGI_TOKEN", "ONGGI_PROFILE", "ONGGI_MOUNTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def client(daemon: Daemon) -> onggi.Client:
    return onggi.connect(daemon.url, daemon.token)


@pytest.fixture
def vfolder(client: onggi.Client, request: pytest.FixtureRequest) -> Iterator[onggi.VFolder]:
    """An empty vfolder, named after the test."""
    made = client.create_vfolder(f"{request.node.name[:80]}-{time.monotonic_ns()}")
    yield made
    made.delete()
