"""Kill anything at any moment: the service recovers, and nothing is left behind."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from runner import Runner, find_programs


@pytest.fixture
def own_runner() -> Iterator[Runner]:
    programs = find_programs()
    if programs is None:
        pytest.skip("sandbox_run is not built")
    runner = Runner.start(*programs)
    if not runner.report["ok"]:
        runner.stop()
        pytest.skip("this machine cannot build the sandbox")
    yield runner
    if runner.process.poll() is None:
        runner.stop()


def children_of(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found.append(int(entry.name))
    return found


def descendants(pid: int) -> list[int]:
    found = children_of(pid)
    return found + [grandchild for child in found for grandchild in descendants(child)]


def groups() -> set[str]:
    return {str(path) for path in Path("/sys/fs/cgroup").glob("**/onggi-*/w*")}


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_workers_killed_at_random_leave_nothing(own_runner: Runner) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    dice = random.Random(seed)
    own_runner.script("result = 1")
    (broker,) = children_of(own_runner.process.pid)
    (zygote,) = children_of(broker)
    time.sleep(0.5)
    files, group_count = own_runner.open_files(), len(groups())
    for _ in range(60):
        number = own_runner.submit(
            spec={"profile": "numpy", "entry": "script"},
            payload="import time\nfor _ in range(50): time.sleep(0.001)\nresult = 1",
        )
        time.sleep(dice.random() * 0.03)
        workers = children_of(zygote)
        if workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(dice.choice(workers), signal.SIGKILL)
        answer = own_runner.wait(number)
        assert answer.results == [1] or answer.error is not None
    assert own_runner.script("result = 2").results == [2]
    assert wait_until(lambda: own_runner.open_files() <= files)
    assert wait_until(lambda: len(groups()) <= group_count)
    assert wait_until(lambda: len(children_of(zygote)) <= 2)


def test_a_killed_zygote_is_started_again(own_runner: Runner) -> None:
    own_runner.script("result = 1")
    number = own_runner.submit(
        spec={"profile": "numpy", "entry": "script"}, payload="import time\ntime.sleep(60)"
    )
    time.sleep(0.3)
    (broker,) = children_of(own_runner.process.pid)
    (zygote,) = children_of(broker)
    os.kill(zygote, signal.SIGKILL)
    error = own_runner.wait(number).error
    assert error is not None
    assert error["code"] == "unavailable"
    assert own_runner.script("result = 3").results == [3]


def test_a_killed_broker_is_started_again(own_runner: Runner) -> None:
    own_runner.script("result = 1")
    number = own_runner.submit(
        spec={"profile": "numpy", "entry": "script"}, payload="import time\ntime.sleep(60)"
    )
    time.sleep(0.3)
    family = descendants(own_runner.process.pid)
    (broker,) = children_of(own_runner.process.pid)
    os.kill(broker, signal.SIGKILL)
    error = own_runner.wait(number).error
    assert error is not None
    assert error["code"] == "unavailable"
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in family))
    assert wait_until(lambda: own_runner.script("result = 4").results == [4])


def test_the_end_of_the_daemon_ends_all(own_runner: Runner) -> None:
    own_runner.script("result = 1")
    own_runner.submit(
        spec={"profile": "numpy", "entry": "script"}, payload="import time\ntime.sleep(60)"
    )
    time.sleep(0.3)
    family = descendants(own_runner.process.pid)
    assert len(family) >= 3
    own_runner.process.kill()
    own_runner.process.wait()
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in family))


def test_nothing_is_left_after_an_orderly_end(own_runner: Runner) -> None:
    before = groups()
    own_runner.script("result = 1")
    family = descendants(own_runner.process.pid)
    metrics = own_runner.stop()
    assert "onggi_active_tasks 0" in metrics
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in family))
    assert groups() <= before
