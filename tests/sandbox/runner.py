"""Drives sandbox_run: real workers behind real walls, without a daemon."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def find_programs() -> tuple[Path, Path] | None:
    """sandbox_run and onggi-broker of the newest build, or of ONGGI_BUILD."""
    given = os.environ.get("ONGGI_BUILD")
    builds = [Path(given)] if given else sorted(ROOT.glob("build/*"))
    found = [(b / "bin/sandbox_run", b / "bin/onggi-broker") for b in builds]
    found = [pair for pair in found if all(p.exists() for p in pair)]
    return max(found, key=lambda pair: pair[0].stat().st_mtime, default=None)


@dataclass
class Answer:
    """What came of one task."""

    raw: dict[str, Any]

    @property
    def frames(self) -> list[dict[str, Any]]:
        return list(self.raw.get("frames", []))

    def bodies(self, kind: int) -> list[Any]:
        return [json.loads(f["text"]) for f in self.frames if f["kind"] == kind and "text" in f]

    @property
    def results(self) -> list[Any]:
        """What a script left in `result`, command by command."""
        ends = [f for f in self.frames if f["kind"] == 9 and not f["flags"] & 2]
        return [json.loads(f["text"]) for f in ends]

    @property
    def error(self) -> dict[str, Any] | None:
        errors = self.bodies(8)
        return errors[-1] if errors else self.raw.get("refused")

    @property
    def logs(self) -> list[str]:
        return [body["text"] for body in self.bodies(7)]


@dataclass
class Runner:
    """One sandbox_run. Tasks may run at once, from several threads."""

    process: subprocess.Popen[str]
    report: dict[str, Any] = field(default_factory=dict)
    metrics: str = ""
    _answers: dict[int, dict[str, Any]] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _ids: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    @classmethod
    def start(cls, sandbox_run: Path, broker: Path) -> Runner:
        process = subprocess.Popen(
            [sandbox_run, broker, sys.executable, str(ROOT / "python/src")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        runner = cls(process)
        assert process.stdout is not None
        runner.report = json.loads(process.stdout.readline())
        threading.Thread(target=runner._read, daemon=True).start()
        return runner

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                if line.startswith("{"):
                    answer = json.loads(line)
                    self._answers[answer["id"]] = answer
                else:
                    self.metrics += line
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def submit(self, **request: Any) -> int:
        """Starts a task; its number."""
        request.setdefault("payload", "")
        request.setdefault("commands", [[0, ""]])
        number = next(self._ids)
        assert self.process.stdin is not None
        with self._changed:
            self.process.stdin.write(json.dumps({"id": number, **request}) + "\n")
            self.process.stdin.flush()
        return number

    def wait(self, number: int, timeout: float = 60) -> Answer:
        """The answer of the task `number`."""
        with self._changed:
            done = self._changed.wait_for(lambda: number in self._answers, timeout)
            assert done, f"no answer within {timeout} s"
            return Answer(self._answers.pop(number))

    def run(self, timeout: float = 60, **request: Any) -> Answer:
        """Runs a task to its end."""
        return self.wait(self.submit(**request), timeout)

    def script(
        self,
        source: str,
        argument: Any = None,
        *,
        profile: str = "numpy",
        timeout: float = 60,
        tenant: str = "",
        mounts: dict[str, tuple[str, str]] | None = None,
        limits: dict[str, int] | None = None,
    ) -> Answer:
        """Runs Python source in a worker. `mounts`: path in the sandbox -> (uuid, directory)."""
        spec: dict[str, Any] = {"profile": profile, "entry": "script", "limits": limits or {}}
        mounts = mounts or {}
        spec["mounts"] = [{"path": path, "vfolder": m[0]} for path, m in mounts.items()]
        return self.run(
            timeout,
            spec=spec,
            payload=source,
            tenant=tenant,
            commands=[[0, json.dumps(argument)]],
            mounts={m[0]: m[1] for m in mounts.values()},
        )

    def open_files(self) -> int:
        """How many descriptors sandbox_run holds."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self) -> str:
        """Ends everything; the metrics it printed last."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)
        return self.metrics
