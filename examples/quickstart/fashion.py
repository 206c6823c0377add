"""The data and the model of the quickstart, written as one writes them anywhere."""

from __future__ import annotations

import gzip
import random
import struct
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import torch
from PIL import Image, ImageOps
from torch import nn
from torch.utils.data import Dataset

IDX_FOLDER = Path("/usr/share/datasets/fashion-mnist")  # Debian's dataset-fashion-mnist
CLASSES = 10


def write_image_folder(target: Path, images: int) -> None:
    """Writes the first `images` training images, and a sixth as many test images, as PNG files:
    target/{train,test}/<class>/<number>.png, an image-folder tree."""
    for split, prefix, count in (("train", "train", images), ("test", "t10k", images // 6)):
        pixels = _read_idx(IDX_FOLDER / f"{prefix}-images-idx3-ubyte.gz")[:count]
        labels = _read_idx(IDX_FOLDER / f"{prefix}-labels-idx1-ubyte.gz")[:count]
        for label in range(CLASSES):
            (target / split / str(label)).mkdir(parents=True, exist_ok=True)
        for number, (picture, label) in enumerate(zip(pixels, labels, strict=True)):
            Image.fromarray(picture).save(target / split / str(label) / f"{number:05}.png")


def _read_idx(path: Path) -> np.ndarray[Any, Any]:
    """The IDX format of MNIST: a magic number with the number of dimensions, those, then bytes."""
    with gzip.open(path) as file:
        dimensions = struct.unpack(">HBB", file.read(4))[2]
        shape = struct.unpack(f">{dimensions}I", file.read(4 * dimensions))
        return np.frombuffer(file.read(), dtype=np.uint8).reshape(shape)


class ImageFolder(Dataset[tuple[torch.Tensor, int]]):
    """Pictures in one folder a class, on any file system that fsspec knows."""

    def __init__(self, root: str, augment: bool) -> None:
        self.augment = augment
        self.root = root
        files, base = fsspec.url_to_fs(root)
        self.paths = sorted(files.find(base))
        self.labels = [int(path.rsplit("/", 2)[1]) for path in self.paths]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        protocol = self.root.partition("://")[0] if "://" in self.root else "file"
        with fsspec.filesystem(protocol).open(self.paths[index], "rb") as file:
            picture = Image.open(file).convert("L")
        if self.augment:
            picture = random_crop(picture, padding=2)
            if random.random() < 0.5:
                picture = ImageOps.mirror(picture)
        pixels = torch.from_numpy(np.array(picture)).float().div(255)
        return pixels.sub(0.286).div(0.353).unsqueeze(0), self.labels[index]


def random_crop(picture: Image.Image, padding: int) -> Image.Image:
    width, height = picture.size
    left, top = (int(torch.randint(0, 2 * padding + 1, (1,))) for _ in range(2))
    padded = ImageOps.expand(picture, padding)
    return padded.crop((left, top, left + width, top + height))


class SmallCnn(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * 7 * 7, CLASSES),
        )
