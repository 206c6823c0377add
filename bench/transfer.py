#!/usr/bin/env python3
"""1 GiB down and up over one connection, against what the kernel and the disk can do."""

from __future__ import annotations

import os
import subprocess
import time

from node import TOOLS, Node
from report import WORK, Row, interleaved, publish, seconds_of

MIB = 1 << 20
SIZE_MIB = int(os.environ.get("BENCH_MIB", "1024"))
RUNS = 9


def main() -> None:
    WORK.mkdir(parents=True, exist_ok=True)
    loopback = str(TOOLS / "loopback")
    source = WORK / "source.bin"
    if not source.exists() or source.stat().st_size != SIZE_MIB * MIB:
        with source.open("wb") as file:
            for _ in range(SIZE_MIB):
                file.write(os.urandom(MIB))
    node = Node("active.enabled=false")
    try:
        vfolder = node.new_vfolder("bench")
        target = f"/v1/vfolders/{vfolder}/files/big.bin"
        seconds_of(loopback, "put", str(node.port), target, node.token, str(source))
        seconds_of(loopback, "get", str(node.port), target, node.token)  # into the page cache
        download = interleaved(
            RUNS,
            ours=lambda: seconds_of(loopback, "get", str(node.port), target, node.token),
            sendfile=lambda: seconds_of(loopback, "sendfile", str(source)),
            splice=lambda: seconds_of(loopback, "splice", str(source)),
            send=lambda: seconds_of(loopback, "send", str(source)),
        )
        upload = interleaved(
            RUNS,
            ours=lambda: put(loopback, node, vfolder, str(source)),
            dd=lambda: dd(str(source), str(node.data / "dd.bin")),
        )
    finally:
        node.stop()
    best = min(download["sendfile"], download["splice"], download["send"])
    publish(
        "transfer",
        [
            row(f"download {SIZE_MIB} MiB, page cache, 1 connection", download["ours"], best, 0.9),
            row(f"upload {SIZE_MIB} MiB, durable", upload["ours"], upload["dd"], 0.8),
        ],
    )


def put(loopback: str, node: Node, vfolder: str, source: str) -> float:
    target = f"/v1/vfolders/{vfolder}/files/up.bin"
    seconds = seconds_of(loopback, "put", str(node.port), target, node.token, source)
    node.call("DELETE", target)
    return seconds


def dd(source: str, target: str) -> float:
    began = time.perf_counter()
    command = ["dd", f"if={source}", f"of={target}", "bs=4M", "oflag=direct", "conv=fsync"]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - began
    os.unlink(target)
    return seconds


def row(work: str, ours: float, limit: float, at_least: float) -> Row:
    return Row(work, SIZE_MIB / ours, None, SIZE_MIB / limit, "MiB/s", limit / ours, at_least)


if __name__ == "__main__":
    main()
