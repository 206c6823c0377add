"""What happens at each limit: one clear error, the worker's last lines, and life goes on."""

from __future__ import annotations

import threading
import time

from runner import Runner

OTHER = "33333333-3333-4333-8333-333333333333"


def test_memory(runner: Runner) -> None:
    answer = runner.script(
        "print('before the fall')\nx = bytearray(b'x' * (512 << 20))",
        limits={"memory_bytes": 128 << 20},
    )
    assert answer.error is not None
    assert answer.error["code"] == "resource_exhausted"
    assert "limits.memory_bytes" in answer.error["detail"]
    assert answer.error["log"] == ["before the fall"]


def test_cpu_time(runner: Runner) -> None:
    answer = runner.script("while True: pass", limits={"cpu_seconds": 1})
    assert answer.error is not None
    assert answer.error["code"] == "resource_exhausted"
    assert "limits.cpu_seconds" in answer.error["detail"]


def test_cpu_time_of_children_counts(runner: Runner) -> None:
    answer = runner.script(
        """
import os
for _ in range(4):
    if os.fork() == 0:
        while True: pass
import time
time.sleep(60)
""",
        limits={"cpu_seconds": 2},
    )
    assert answer.error is not None
    assert "limits.cpu_seconds" in answer.error["detail"]


def test_wall_time(runner: Runner) -> None:
    answer = runner.script("import time\ntime.sleep(60)", limits={"wall_seconds": 1})
    assert answer.error is not None
    assert answer.error["code"] == "deadline_exceeded"
    assert answer.raw["seconds"] < 20


def test_output(runner: Runner) -> None:
    answer = runner.run(
        spec={"profile": "numpy", "entry": "echo", "limits": {"output_bytes": 10_000}},
        commands=[[0, "x" * 3000] for _ in range(10)],
    )
    assert answer.error is not None
    assert "limits.output_bytes" in answer.error["detail"]
    assert sum(frame["bytes"] for frame in answer.frames) < 12_000


def test_arena(runner: Runner) -> None:
    answer = runner.script(
        "channel.reserve(1 << 20)", limits={"arena_bytes": 64 << 10, "memory_bytes": 256 << 20}
    )
    assert answer.error is not None
    assert "limits.arena_bytes" in answer.error["detail"]


def test_log_flood(runner: Runner) -> None:
    answer = runner.script("for n in range(200_000): print('line', n, 'x' * 200)\nresult = 'done'")
    assert answer.results == ["done"]
    assert sum(len(line) for line in answer.logs) < 5 << 20
    assert "the rest is dropped" in answer.logs[-1]


def test_one_endless_line(runner: Runner) -> None:
    answer = runner.script(
        "import sys\nfor _ in range(200): sys.stdout.write('x' * 65536)\nresult = 'done'"
    )
    assert answer.results == ["done"]
    assert max((len(line) for line in answer.logs), default=0) <= 8 << 10


def test_too_high_a_limit_is_refused(runner: Runner) -> None:
    answer = runner.script("result = 1", limits={"memory_bytes": 1 << 50})
    assert answer.error is not None
    assert answer.error["code"] == "too_large"


def test_crash(runner: Runner) -> None:
    answer = runner.script("import ctypes\nprint('now')\nctypes.string_at(0)")
    assert answer.error is not None
    assert answer.error["code"] == "internal"
    assert "SIGSEGV" in answer.error["detail"]
    assert "now" in answer.error["log"]


def test_exit(runner: Runner) -> None:
    answer = runner.script("import os\nos._exit(3)")
    assert answer.error is not None
    assert "exit status 3" in answer.error["detail"]


def test_exception_has_its_traceback(runner: Runner) -> None:
    answer = runner.script("def f(): raise KeyError('k')\nf()")
    assert answer.error is not None
    assert "in f" in answer.error["traceback"]
    assert answer.error["exception"] == "builtins.KeyError"


def test_cancel(runner: Runner) -> None:
    answer = runner.run(
        spec={"profile": "numpy", "entry": "script"},
        payload="import time\ntime.sleep(60)",
        cancel_after_ms=500,
    )
    assert answer.error is not None
    assert answer.error["code"] == "cancelled"
    assert answer.raw["seconds"] < 20


def test_neighbours_go_on_beside_a_fork_and_memory_bomb(runner: Runner) -> None:
    bombs = [
        runner.submit(
            spec={
                "profile": "numpy",
                "entry": "script",
                "limits": {"processes": 32, "memory_bytes": 64 << 20, "wall_seconds": 5},
            },
            payload="import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        )
        for _ in range(2)
    ]
    answers = [runner.script("result = sum(range(100_000))", tenant=OTHER) for _ in range(5)]
    assert all(answer.results == [4999950000] for answer in answers)
    for bomb in bombs:
        assert runner.wait(bomb).error is not None


def test_workers_share_nothing_through_their_parent(runner: Runner) -> None:
    first = runner.script(
        "import random\nrandom.onggi_poison = 'x'\nopen('/tmp/left', 'w').write('x')\nresult = 1"
    )
    second = runner.script(
        """
import os, random
result = [hasattr(random, 'onggi_poison'), os.path.exists('/tmp/left')]
""",
        tenant=OTHER,
    )
    assert first.results == [1]
    assert second.results == [[False, False]]


def test_tenants_have_different_identities(runner: Runner) -> None:
    ids = {
        runner.script("import os\nresult = os.getuid()", tenant=tenant).results[0]
        for tenant in (OTHER, "44444444-4444-4444-8444-444444444444")
    }
    privileged = next(i for i in runner.report["items"] if i["name"] == "identity")["available"]
    assert len(ids) == (2 if privileged else 1)


def test_many_at_once(runner: Runner) -> None:
    begun = time.monotonic()
    answers = []

    def one(n: int) -> None:
        answers.append(runner.script(f"result = {n}").results)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [[n] for n in range(12)]
    assert time.monotonic() - begun < 60
