"""Every attack of the corpus succeeds outside the sandbox and fails inside it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attacks import ATTACKS, Attack
from runner import Runner

VFOLDER = "11111111-2222-4333-8444-555555555555"
ATTACKER = "22222222-2222-4222-8222-222222222222"

CONTROL = """
import json, sys
given = json.load(sys.stdin)
names = {"argument": given["argument"], "result": None}
exec(compile(given["source"], "<attack>", "exec"), names)
print(json.dumps(bool(names["result"])))
"""


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What attacks aim at: files, a port, an abstract socket, a process; all of this test's own."""
    top = tmp_path_factory.mktemp("host")
    (top / "secret.txt").write_text("the secret")
    data = top / "data"
    data.mkdir()
    (data / "a.txt").write_text("data")
    (data / "way_out").symlink_to(top / "secret.txt")
    other = top / "other_tenant"
    other.mkdir()
    (other / "canary-4711").write_text("theirs")
    name = f"onggi-attack-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as abstract,
        subprocess.Popen(["sleep", "600"]) as sleeper,
    ):
        abstract.bind("\0" + name)
        abstract.listen()
        yield {
            "top": str(top),
            "secret": str(top / "secret.txt"),
            "data": str(data),
            "canary": "canary-4711",
            "tcp": tcp.getsockname()[1],
            "abstract": "\0" + name,
            "pid": sleeper.pid,
            "uid": 65533,
        }
        sleeper.kill()


def attempt_outside(attack: Attack, targets: dict[str, Any], scratch: Path) -> tuple[bool, str]:
    Path(targets["data"], "doomed.txt").write_text("x")
    (scratch / "outside").touch()
    argument = {**targets, "scratch": str(scratch), "outside": True}
    done = subprocess.run(
        [sys.executable, "-c", CONTROL],
        input=json.dumps({"source": attack.source, "argument": argument}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        start_new_session=True,
    )
    return done.stdout.strip() == "true", done.stderr[-600:]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack(attack: Attack, runner: Runner, targets: dict[str, Any], tmp_path: Path) -> None:
    if attack.needs_root and os.geteuid() != 0:
        pytest.skip("the control needs root")
    succeeded, why = attempt_outside(attack, targets, tmp_path)
    assert succeeded, f"the control failed, so the attack proves nothing: {why}"

    before = sorted(Path(targets["data"]).iterdir())
    Path(targets["data"], "doomed.txt").write_text("x")
    argument = {**targets, "data": "/data", "scratch": "/tmp", "outside": False}
    answer = runner.script(
        attack.source,
        argument,
        tenant=ATTACKER,
        mounts={"/data": (VFOLDER, targets["data"])},
        limits=attack.limits,
    )
    got_away = [result for result in answer.results if result]
    assert not got_away, f"the attack succeeded: {got_away}"
    assert answer.results or answer.error, answer.raw
    assert Path(targets["data"], "doomed.txt").exists()
    assert Path(targets["data"], "a.txt").exists()
    assert {p.name for p in before} <= {p.name for p in Path(targets["data"]).iterdir()}
