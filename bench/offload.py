#!/usr/bin/env python3
"""The wrapped loader against the plain one: first batch, throughput and memory over loopback, then
over a link of 1 Gbit/s between two network namespaces (root; veth and htb)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from node import PROGRAMS, Node
from PIL import Image
from report import ROOT, WORK, Row, interleaved, publish

sys.path.insert(0, str(ROOT / "examples" / "quickstart"))
from fashion import write_image_folder
from quickstart import MemoryWatch

RUNS = 3
FIRST_RUNS = 9
FIRST_BATCH = 32
PICTURES = 12_000
PHOTOS = 2_000
NAMESPACE = "onggi-bench"
HERE, THERE = "10.77.0.1", "10.77.0.2"
MIB = 1 << 20


class Runs:
    """Runs load_once.py and keeps what its runs said."""

    def __init__(self, node: Node) -> None:
        self.environment = {**os.environ, "ONGGI_URL": node.url, "ONGGI_TOKEN": node.token}
        self.first: dict[str, list[float]] = {}
        self.rss: dict[str, list[int]] = {}

    def rate(self, name: str, *arguments: str) -> float:
        script = str(ROOT / "bench" / "load_once.py")
        process = subprocess.Popen(
            [sys.executable, script, *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        watch = MemoryWatch(process.pid)
        watch.start()
        output, _ = process.communicate()
        watch.stop()
        if process.returncode:
            sys.exit(f"{name} failed")
        result = json.loads(output.splitlines()[-1])
        self.first.setdefault(name, []).append(result["first"])
        self.rss.setdefault(name, []).append(watch.rss_bytes)
        return float(result["samples"] / result["seconds"])


def upload(node: Node, folder: Path, name: str) -> str:
    node.new_vfolder(name)
    environment = {**os.environ, "ONGGI_URL": node.url, "ONGGI_TOKEN": node.token}
    url = f"onggi://local/{name}"
    command = [str(PROGRAMS / "onggi"), "cp", "-r", str(folder), url]
    subprocess.run(command, env=environment, check=True)
    return url


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def loopback(pictures: Path) -> list[Row]:
    node = Node("active.prewarm=torch")
    try:
        remote = upload(node, pictures, "fashion") + "/train"
        runs = Runs(node)
        local = str(pictures / "train")
        rates = interleaved(
            RUNS,
            local=lambda: runs.rate("local", "--data", local),
            ours=lambda: runs.rate("ours", "--data", remote, "--offload"),
        )
        start = ("--warm", "--first", "--batch", str(FIRST_BATCH))
        interleaved(
            FIRST_RUNS,
            local_first=lambda: runs.rate("local first", "--data", local, *start),
            first=lambda: runs.rate("ours first", "--data", remote, "--offload", *start),
        )
    finally:
        node.stop()
    first = {name: median(values) for name, values in runs.first.items()}
    rss = {name: median([v / MIB for v in values]) for name, values in runs.rss.items()}
    return [
        Row(
            f"first batch of {FIRST_BATCH}, warm zygote, against local with 2 workers",
            first["ours first"] * 1000,
            first["local first"] * 1000,
            None,
            "ms",
            first["local first"] / first["ours first"],
            1 / 0.5,
        ),
        Row(
            "Fashion-MNIST tree, Python transforms, loopback",
            rates["ours"],
            rates["local"],
            None,
            "samples/s",
            rates["ours"] / rates["local"],
            0.95,
        ),
        Row(
            "peak RAM of the training process (resident, summed)",
            rss["ours"],
            rss["local"],
            None,
            "MiB",
            rss["local"] / rss["ours"],
            1 / 0.5,
        ),
    ]


def make_photos(target: Path) -> None:
    """JPEG files of photo-like noise: 500 × 375 to 425, some upright, about 65 to 110 kB."""
    generator = np.random.default_rng(5)
    target.mkdir(parents=True, exist_ok=True)
    for number in range(PHOTOS):
        height = int(generator.integers(375, 426))
        size = (height, 500) if number % 4 == 0 else (500, height)
        coarse = generator.integers(0, 256, (size[1] // 16, size[0] // 16, 3), dtype=np.uint8)
        smooth = Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)
        grain = generator.normal(0, generator.uniform(12, 31), (size[1], size[0], 1))
        pixels = np.clip(np.asarray(smooth, dtype=np.float32) + grain, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(target / f"{number:05}.jpg", quality=80)


def shape_link() -> None:
    unshape_link()
    commands = [
        f"ip netns add {NAMESPACE}",
        f"ip link add ob0 type veth peer name ob1 netns {NAMESPACE}",
        f"ip addr add {HERE}/24 dev ob0",
        "ip link set ob0 up",
        f"ip netns exec {NAMESPACE} ip addr add {THERE}/24 dev ob1",
        f"ip netns exec {NAMESPACE} ip link set ob1 up",
        f"ip netns exec {NAMESPACE} ip link set lo up",
    ]
    for prefix, device in (("", "ob0"), (f"ip netns exec {NAMESPACE} ", "ob1")):
        commands += [
            f"{prefix}tc qdisc add dev {device} root handle 1: htb default 1",
            f"{prefix}tc class add dev {device} parent 1: classid 1:1 htb rate 1gbit burst 256k",
        ]
    for command in commands:
        subprocess.run(command.split(), check=True)


def unshape_link() -> None:
    for command in (f"ip netns del {NAMESPACE}", "ip link del ob0"):
        subprocess.run(command.split(), check=False, stderr=subprocess.DEVNULL)


def shaped(photos: Path) -> list[Row]:
    shape_link()
    node = None
    try:
        prefix = ("ip", "netns", "exec", NAMESPACE)
        node = Node("active.prewarm=torch", address=THERE, prefix=prefix)
        remote = upload(node, photos, "photos")
        runs = Runs(node)
        arguments = ("--kind", "photos", "--data", remote)
        rates = interleaved(
            RUNS,
            plain=lambda: runs.rate("plain", *arguments),
            ours=lambda: runs.rate("ours", *arguments, "--offload"),
        )
    finally:
        if node is not None:
            node.stop()
        unshape_link()
    work = "2,000 photos over 1 Gbit/s, against reading the files over the link"
    ratio = rates["ours"] / rates["plain"]
    return [Row(work, rates["ours"], rates["plain"], None, "samples/s", ratio, 1.3)]


def main() -> None:
    WORK.mkdir(parents=True, exist_ok=True)
    pictures, photos = WORK / f"fashion-{PICTURES}", WORK / "photos"
    if not pictures.exists():
        write_image_folder(pictures, PICTURES)
    if not photos.exists():
        make_photos(photos)
    publish("offload", loopback(pictures) + shaped(photos))


if __name__ == "__main__":
    main()
