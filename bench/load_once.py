"""Goes through a data set once by one way of loading and prints what it took, as JSON."""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import torch
from PIL import Image, ImageOps
from torch.utils.data import DataLoader, Dataset

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "quickstart"))
from fashion import ImageFolder


class Photos(Dataset[tuple[torch.Tensor, int]]):
    """JPEG files, a random crop of each resized to 224 × 224, mirrored at random and normalised."""

    def __init__(self, root: str) -> None:
        self.root = root
        files, base = fsspec.url_to_fs(root)
        self.paths = sorted(files.find(base))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        protocol = self.root.partition("://")[0] if "://" in self.root else "file"
        with fsspec.filesystem(protocol).open(self.paths[index], "rb") as file:
            picture = Image.open(file).convert("RGB")
        side = int(min(picture.size) * (0.5 + 0.5 * float(torch.rand(1))))
        left = random.randint(0, picture.width - side)
        top = random.randint(0, picture.height - side)
        box = (left, top, left + side, top + side)
        picture = picture.resize((224, 224), Image.Resampling.BILINEAR, box)
        if random.random() < 0.5:
            picture = ImageOps.mirror(picture)
        pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1).float().div(255)
        mean = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
        deviation = torch.tensor([0.229, 0.224, 0.225])[:, None, None]
        return pixels.sub(mean).div(deviation), index % 8


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=["fashion", "photos"], default="fashion")
    parser.add_argument("--data", required=True)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--first", action="store_true", help="stop after the first batch")
    parser.add_argument("--offload", action="store_true")
    parser.add_argument("--warm", action="store_true", help="start the loader once before")
    options = parser.parse_args()
    torch.manual_seed(1)
    data: Any = Photos(options.data)
    if options.kind == "fashion":
        data = ImageFolder(options.data, augment=True)
    loader: Any = DataLoader(data, batch_size=options.batch, shuffle=True, num_workers=2)
    if options.offload:
        import onggi

        loader = onggi.offload(loader, policy="storage", strict=True)
    if options.warm:
        for _ in loader:
            break
        time.sleep(1)  # the workers of that are gone, and the node has made new ones
    began = time.perf_counter()
    first = samples = 0.0
    for pixels, _ in loader:
        samples += len(pixels)
        first = first or time.perf_counter() - began
        if options.first:
            break
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "first": first, "samples": samples}))


if __name__ == "__main__":
    main()
