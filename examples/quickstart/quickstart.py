#!/usr/bin/env python3
"""From nothing to the main job: a node, a vfolder with real pictures, three ways to train on them.

QUICKSTART_IMAGES (12,000) and QUICKSTART_EPOCHS (2) make it smaller or larger. All that it makes
lies below build/quickstart; it stops what it started.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / "build" / "quickstart"
PROGRAMS = Path(sys.executable).parent
IMAGES = int(os.environ.get("QUICKSTART_IMAGES", "12000"))
EPOCHS = int(os.environ.get("QUICKSTART_EPOCHS", "2"))
MIB = 1 << 20


@dataclass
class Row:
    """One way to load, measured."""

    name: str
    seconds: float
    samples_per_second: float
    accuracy: float
    rss_bytes: (
        int  # peak of the training process and its loader's workers, summed as `top` shows it
    )
    pss_bytes: int  # the same, shared pages counted once
    network_bytes: int
    loader: str


def own_address() -> str:
    """What others reach this machine by, so that the loader saves bytes as it does on a network,
    not processor time as it does on loopback; loopback where there is nothing else."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documents: this sends nothing
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


class Node:
    """An onggid of our own, with data and port of its own."""

    def __init__(self) -> None:
        address = own_address()
        with socket.socket() as probe:
            probe.bind((address, 0))
            port = probe.getsockname()[1]
        self.url = f"http://{address}:{port}"
        data = WORK / "node"
        shutil.rmtree(data, ignore_errors=True)
        command = [str(PROGRAMS / "onggid"), "--data", str(data)]
        command += ["--address", address, "--port", str(port), "--set", "active.prewarm=torch"]
        with (WORK / "onggid.log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self._wait_until_ready()
        token = (data / "admin.token").read_text().strip()
        self.environment = {**os.environ, "ONGGI_URL": self.url, "ONGGI_TOKEN": token}
        self.environment["PATH"] = f"{PROGRAMS}:{os.environ['PATH']}"

    def _wait_until_ready(self) -> None:
        for _ in range(200):
            try:
                urllib.request.urlopen(f"{self.url}/readyz", timeout=1).close()
                return
            except OSError:
                if self._process.poll() is not None:
                    break
                time.sleep(0.05)
        sys.exit(f"onggid did not start; see {WORK / 'onggid.log'}")

    def bytes_moved(self) -> int:
        """Both ways, as the daemon counts them."""
        text = urllib.request.urlopen(f"{self.url}/metrics", timeout=10).read().decode()
        names = ("onggi_http_bytes_sent_total", "onggi_http_bytes_received_total")
        return sum(int(line.split()[-1]) for line in text.splitlines() if line.startswith(names))

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(timeout=30)


class MemoryWatch(threading.Thread):
    """Samples the memory of a process and all below it."""

    def __init__(self, process: int) -> None:
        super().__init__(daemon=True)
        self._process = process
        self._done = threading.Event()
        self.rss_bytes = 0
        self.pss_bytes = 0

    def run(self) -> None:
        while not self._done.wait(0.1):
            rss = pss = 0
            for process in self._tree():
                try:
                    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
                except OSError:
                    continue
                sizes = {line.split()[0]: int(line.split()[1]) << 10 for line in lines[1:]}
                rss += sizes.get("Rss:", 0)
                pss += sizes.get("Pss:", 0)
            self.rss_bytes = max(self.rss_bytes, rss)
            self.pss_bytes = max(self.pss_bytes, pss)

    def _tree(self) -> list[int]:
        found = [self._process]
        for process in found:
            try:
                children = Path(f"/proc/{process}/task/{process}/children").read_text()
            except OSError:
                continue
            found += [int(child) for child in children.split()]
        return found

    def stop(self) -> None:
        self._done.set()
        self.join()


def train(name: str, node: Node, *arguments: str) -> Row:
    print(f"\n» {name}")
    before = node.bytes_moved()
    command = [sys.executable, str(HERE / "train.py"), "--epochs", str(EPOCHS), *arguments]
    process = subprocess.Popen(command, env=node.environment, stdout=subprocess.PIPE, text=True)
    watch = MemoryWatch(process.pid)
    watch.start()
    output, _ = process.communicate()
    watch.stop()
    if process.returncode:
        sys.exit(f"{name} failed; the node's log is {WORK / 'onggid.log'}")
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    print(f"  {result['seconds']:.1f} s, accuracy {100 * result['accuracy']:.1f} %")
    if result["loader"]:
        print(f"  {result['loader']}")
    return Row(
        name=name,
        seconds=result["seconds"],
        samples_per_second=result["samples_per_second"],
        accuracy=result["accuracy"],
        rss_bytes=watch.rss_bytes,
        pss_bytes=watch.pss_bytes,
        network_bytes=node.bytes_moved() - before,
        loader=result["loader"],
    )


def print_table(rows: list[Row]) -> None:
    heads = ("way", "peak RAM", "(shared once)", "network", "time", "samples/s", "accuracy")
    lines = [
        (
            row.name,
            f"{row.rss_bytes / MIB:,.0f} MiB",
            f"{row.pss_bytes / MIB:,.0f} MiB",
            f"{row.network_bytes / MIB:,.1f} MiB",
            f"{row.seconds:.1f} s",
            f"{row.samples_per_second:,.0f}",
            f"{100 * row.accuracy:.2f} %",
        )
        for row in rows
    ]
    widths = [max(len(line[i]) for line in (heads, *lines)) for i in range(len(heads))]
    print()
    for line in (heads, *lines):
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        print("  ".join(cells))


PANELS: tuple[tuple[str, Callable[[Row], float]], ...] = (
    ("peak RAM of the training process, MiB", lambda row: row.rss_bytes / MIB),
    ("network, MiB", lambda row: row.network_bytes / MIB),
    ("samples/s", lambda row: row.samples_per_second),
)


def draw_in_terminal(rows: list[Row]) -> None:
    width = 40
    for title, value in PANELS:
        most = max(value(row) for row in rows) or 1
        print(f"\n{title}")
        for row in rows:
            bar = "█" * max(1, round(width * value(row) / most)) if value(row) else ""
            print(f"  {row.name:<22} {bar} {value(row):,.0f}")


def draw_picture(rows: list[Row], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(PANELS), figsize=(13, 3.2), layout="constrained")
    colours = ["#9aa5b1", "#616e7c", "#c2410c"]
    for axis, (title, value) in zip(axes, PANELS, strict=True):
        bars = axis.barh([row.name for row in rows], [value(row) for row in rows], color=colours)
        axis.bar_label(bars, fmt="{:,.0f}", padding=3)
        axis.set_title(title, fontsize=10)
        axis.invert_yaxis()
        axis.margins(x=0.18)
        axis.spines[["top", "right"]].set_visible(False)
        if axis is not axes[0]:
            axis.set_yticklabels([])
    figure.savefig(path, dpi=150)


def main() -> None:
    WORK.mkdir(parents=True, exist_ok=True)
    pictures = WORK / f"fashion-{IMAGES}"
    if not pictures.exists():
        sys.path.insert(0, str(HERE))
        from fashion import write_image_folder

        print(f"» writing {IMAGES:,} pictures of Fashion-MNIST as PNG files")
        partial = pictures.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        write_image_folder(partial, IMAGES)
        partial.rename(pictures)
    print("» starting a node of our own")
    node = Node()
    try:
        print("» uploading them into a vfolder: onggi cp -r … onggi://local/fashion")
        commands = (
            ["onggi", "vfolder", "create", "local/fashion"],
            ["onggi", "cp", "-r", str(pictures), "onggi://local/fashion"],
        )
        for command in commands:
            subprocess.run(command, env=node.environment, check=True)
        remote = "onggi://local/fashion"
        rows = [
            train("plain, local copy", node, "--data", str(pictures)),
            train("plain, over network", node, "--data", remote),
            train("wrapped by onggi", node, "--data", remote, "--offload"),
        ]
    finally:
        node.stop()
        print("\n» the node is stopped")
    print_table(rows)
    draw_in_terminal(rows)
    picture = WORK / "quickstart.png"
    draw_picture(rows, picture)
    (WORK / "quickstart.json").write_text(json.dumps([vars(row) for row in rows], indent=1))
    print(f"\nThe same as a picture: {picture.relative_to(ROOT)}")
    print(
        "Next: `.venv/bin/onggi serve`, then in your own script `loader = onggi.offload(loader)`."
    )
    print("`.venv/bin/onggi doctor` says what this machine has; README.md goes on from here.")


if __name__ == "__main__":
    main()
