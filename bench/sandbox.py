#!/usr/bin/env python3
"""How long a task takes to start on a warm node: from the order to the broker until the worker
stands behind its walls and says ready; and a whole task over HTTP, from request to result."""

from __future__ import annotations

import json
import statistics
import sys
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import onggi
import torch
from node import Node
from onggi._frames import COMMAND, ERROR, HEAD, SPEC
from onggi.offload.session import CONTENT_TYPE, frame
from report import Row, publish
from torch.utils.data import DataLoader, Dataset

RUNS = 60


class Ones(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.ones(1)


def run_native(node: Node, vfolder: str) -> None:
    spec = {"profile": "native", "entry": "tree_digest", "workers": 1}
    spec["mounts"] = [{"vfolder": vfolder, "path": "/data"}]
    command = json.dumps({"path": "/data"}).encode()
    body = frame(SPEC, json.dumps(spec).encode()) + frame(COMMAND, command)
    headers = {"Authorization": f"Bearer {node.token}", "Content-Type": CONTENT_TYPE}
    request = urllib.request.Request(node.url + "/v1/tasks", body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        _read_frame(answer)  # the task
        kind, text = _read_frame(answer)
    if kind == ERROR:
        sys.exit(f"native: {text.decode()}")


def run_torch(node: Node) -> None:
    client = onggi.connect(node.url, node.token)
    loader = onggi.offload(DataLoader(Ones()), client=client, policy="storage", strict=True)
    assert len(list(loader)) == 1


def _read_frame(answer: Any) -> tuple[int, bytes]:
    head = HEAD.unpack(answer.read(HEAD.size))
    return head[1], answer.read(head[6])


def starts(node: Node, profile: str) -> tuple[float, float]:
    """The histogram of starts: seconds in all, and how many."""
    text = urllib.request.urlopen(f"{node.url}/metrics", timeout=10).read().decode()
    name = "onggi_active_worker_start_seconds"
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(name))
    parts = (lines.get(f'{name}_{part}{{profile="{profile}"}}', "0") for part in ("sum", "count"))
    seconds, count = (float(part) for part in parts)
    return seconds, count


def measure(node: Node, profile: str, task: Callable[[], None]) -> tuple[float, float]:
    """Milliseconds at the median: a worker's start, and the whole task over HTTP."""
    for _ in range(3):
        task()
    begins, whole = [], []
    for _ in range(RUNS):
        seconds, count = starts(node, profile)
        began = time.perf_counter()
        task()
        whole.append(time.perf_counter() - began)
        seconds_after, count_after = starts(node, profile)
        begins.append((seconds_after - seconds) / (count_after - count))
        time.sleep(0.05)  # spares are made again
    return 1000 * statistics.median(begins), 1000 * statistics.median(whole)


def main() -> None:
    node = Node("active.prewarm=torch,native")
    try:
        vfolder = node.new_vfolder("bench")
        works = {
            "native": (lambda: run_native(node, vfolder), 3.0),
            "torch": (lambda: run_torch(node), 12.0),
        }
        rows = []
        for profile, (task, limit) in works.items():
            start, whole = measure(node, profile, task)
            work = f"task start, warm {profile} worker"
            rows.append(Row(work, start, None, limit, "ms", limit / start, 1))
            rows.append(Row(f"whole {profile} task over HTTP", whole, None, None, "ms", None, None))
    finally:
        node.stop()
    publish("sandbox", rows)


if __name__ == "__main__":
    main()
