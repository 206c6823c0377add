#!/usr/bin/env python3
"""How long a task takes to start on a warm node: from the order to the broker until the worker
stands behind its walls and says ready; and a whole task over HTTP, from request to result."""

from __future__ import annotations

import json
import statistics
import sys
import time
import urllib.request
from typing import Any

from node import Node
from onggi._frames import COMMAND, ERROR, HEAD, PAYLOAD, SPEC
from onggi.offload.session import CONTENT_TYPE, frame
from report import Row, publish

RUNS = 60


def run_task(node: Node, profile: str, entry: str, mounts: list[dict[str, str]]) -> float:
    spec: dict[str, Any] = {"profile": profile, "entry": entry, "workers": 1, "mounts": mounts}
    spec |= {"cwd": "/", "env": {}, "options": {}, "limits": {}}
    body = frame(SPEC, json.dumps(spec).encode()) + frame(PAYLOAD, b"") + frame(COMMAND, b"hello")
    headers = {"Authorization": f"Bearer {node.token}"}
    headers["Content-Type"] = CONTENT_TYPE
    request = urllib.request.Request(node.url + "/v1/tasks", body, headers)
    began = time.perf_counter()
    with urllib.request.urlopen(request, timeout=60) as answer:
        _read_frame(answer)  # the task
        kind, text = _read_frame(answer)
    if kind == ERROR:
        sys.exit(f"{profile}: {text.decode()}")
    return time.perf_counter() - began


def _read_frame(answer: Any) -> tuple[int, bytes]:
    head = HEAD.unpack(answer.read(HEAD.size))
    return head[1], answer.read(head[6])


def starts(node: Node, profile: str) -> list[float]:
    """The histogram of starts, as (sum, count)."""
    text = urllib.request.urlopen(f"{node.url}/metrics", timeout=10).read().decode()
    found = {}
    for line in text.splitlines():
        for part in ("sum", "count"):
            name = f'onggi_active_worker_start_seconds_{part}{{profile="{profile}"}} '
            if line.startswith(name):
                found[part] = float(line.split()[-1])
    return [found.get("sum", 0.0), found.get("count", 0.0)]


def measure(node: Node, profile: str, entry: str, vfolder: str) -> tuple[float, float]:
    mounts = [{"vfolder": vfolder, "path": "/data"}] if profile == "native" else []
    for _ in range(3):
        run_task(node, profile, entry, mounts)
    begins, whole = [], []
    for _ in range(RUNS):
        before = starts(node, profile)
        whole.append(run_task(node, profile, entry, mounts))
        after = starts(node, profile)
        if after[1] > before[1]:
            begins.append((after[0] - before[0]) / (after[1] - before[1]))
        time.sleep(0.05)  # spares are made again
    return statistics.median(begins), statistics.median(whole)


def main() -> None:
    node = Node("active.prewarm=torch,native")
    try:
        vfolder = node.new_vfolder("bench")
        rows = []
        for profile, entry, limit in (("native", "tree_digest", 3.0), ("torch", "echo", 12.0)):
            start, whole = (1000 * s for s in measure(node, profile, entry, vfolder))
            work = f"task start, warm {profile} worker"
            rows.append(Row(work, start, None, limit, "ms", limit / start, 1))
            rows.append(Row(f"whole {profile} task over HTTP", whole, None, None, "ms", None, None))
    finally:
        node.stop()
    publish("sandbox", rows)


if __name__ == "__main__":
    main()
