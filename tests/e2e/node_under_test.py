"""A real onggid, on a free port, with data of its own, and a client of it for tests."""

from __future__ import annotations

import http.client
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from run_api_tests import TIMEOUT_SECONDS, Answer, Node  # noqa: E402


@dataclass
class Daemon:
    """A node with an administrator's client."""

    program: str
    data: Path
    arguments: tuple[str, ...]
    node: Node = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.node = Node.start(self.program, self.data, *self.arguments)

    @property
    def token(self) -> str:
        return (self.data / "admin.token").read_text().strip()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.node.port, timeout=TIMEOUT_SECONDS)

    def headers(self, **more: str) -> dict[str, str]:
        named = {name.replace("_", "-"): value for name, value in more.items()}
        return {"Authorization": f"Bearer {self.token}", **named}

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        if isinstance(body, dict):
            body = json.dumps(body)
            headers.setdefault("Content_Type", "application/json")
        connection = self.connect()
        try:
            connection.request(method, path, body, self.headers(**headers))
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def make_vfolder(self, name: str = "v", volume: str = "local") -> str:
        answer = self.send("POST", "/v1/vfolders", {"volume": volume, "name": name})
        assert answer.status == 201, answer.body
        return str(answer.field("id"))

    def kill(self) -> None:
        self.node.process.kill()
        self.node.process.wait(TIMEOUT_SECONDS)

    def staging(self) -> list[Path]:
        """Staging files of all vfolders of the default volume."""
        return list((self.data / "volumes/local").glob("**/.upload/*"))


def find_program(name: str) -> str:
    """The program of the environment's choice (ONGGID, …), else the one built last."""
    given = os.environ.get(name.upper().replace("-", "_"))
    built = sorted(ROOT.glob(f"build/*/bin/{name}"), key=lambda path: path.stat().st_mtime)
    if not given and not built:
        pytest.skip(f"{name} is not built")
    return given or str(built[-1])


StartDaemon = Callable[..., Daemon]
