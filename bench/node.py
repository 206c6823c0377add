"""A node for a benchmark: the release build that pip installed, with data and port of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from report import ROOT, WORK

PROGRAMS = Path(os.environ.get("ONGGI_BIN", Path(sys.executable).parent))
TOOLS = Path(os.environ.get("ONGGI_BENCH_BIN", ROOT / "build" / "dev" / "bin"))


class Node:
    def __init__(
        self, *settings: str, address: str = "127.0.0.1", prefix: tuple[str, ...] = ()
    ) -> None:
        WORK.mkdir(parents=True, exist_ok=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://{address}:{self.port}"
        self.data = WORK / f"node-{self.port}"
        command = [*prefix, str(PROGRAMS / "onggid"), "--data", str(self.data)]
        command += ["--port", str(self.port), "--set", f"server.address={address}"]
        for setting in settings:
            command += ["--set", setting]
        self._log = WORK / "onggid.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        token = self.data / "admin.token"
        for _ in range(200):
            if token.exists() and "serves" in self._log.read_text():
                break
            if self.process.poll() is not None:
                sys.exit(f"onggid did not start: {self._log.read_text()}")
            time.sleep(0.05)
        self.token = token.read_text().strip()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def new_vfolder(self, name: str) -> str:
        made = self.call("POST", "/v1/vfolders", {"volume": "local", "name": name})
        return str(made["id"])

    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) << 10

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        shutil.rmtree(self.data, ignore_errors=True)
