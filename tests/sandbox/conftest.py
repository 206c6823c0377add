"""A running sandbox_run for all tests of this folder, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from runner import Runner, find_programs


@pytest.fixture(scope="session")
def shared_runner() -> Iterator[Runner]:
    programs = find_programs()
    if programs is None:
        pytest.skip("sandbox_run is not built")
    runner = Runner.start(*programs)
    if not runner.report["ok"]:
        runner.stop()
        pytest.skip(f"this machine cannot build the sandbox: {runner.report['items']}")
    yield runner
    runner.stop()


@pytest.fixture
def runner(shared_runner: Runner) -> Iterator[Runner]:
    """The runner, which must work as before once the test is over: attacks leave no mark."""
    yield shared_runner
    assert shared_runner.process.poll() is None, "the attack ended sandbox_run"
    answer = shared_runner.script("result = argument + 1", 41)
    assert answer.results == [42], answer.raw
