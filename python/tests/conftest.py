"""A real onggid for the SDK's tests. Fixtures only: other folders have a conftest too."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import onggi
import pytest
from sdk_daemon import START_SECONDS, Daemon, start_daemon


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
