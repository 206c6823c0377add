"""Trains the small CNN once, by one way of loading, and prints what it took as one line of JSON.

python train.py --data ./fashion                         plain loader, files on this disk
python train.py --data onggi://local/fashion             plain loader, files over the network
python train.py --data onggi://local/fashion --offload   the wrapped loader
"""

from __future__ import annotations

import argparse
import json
import random
import time
from typing import Any

import numpy as np
import torch
from fashion import ImageFolder, SmallCnn
from torch import nn
from torch.utils.data import DataLoader


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--offload", action="store_true")
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args()

    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    model = SmallCnn()
    train_data = ImageFolder(f"{options.data}/train", augment=True)
    loader: Any = DataLoader(train_data, batch_size=128, shuffle=True, num_workers=2)
    if options.offload:
        import onggi

        loader = onggi.offload(loader)  # the one line

    began = time.perf_counter()
    loss = train(model, loader, options.epochs)
    seconds = time.perf_counter() - began
    result = {
        "seconds": seconds,
        "samples_per_second": options.epochs * len(train_data) / seconds,
        "loss": loss,
        "accuracy": accuracy(model, ImageFolder(f"{options.data}/test", augment=False)),
        "loader": repr(loader) if options.offload else "",
    }
    print(json.dumps(result))


def train(model: nn.Module, loader: Any, epochs: int) -> float:
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loss_of = nn.CrossEntropyLoss()
    loss = torch.zeros(())
    for _ in range(epochs):
        for pixels, labels in loader:
            optimizer.zero_grad()
            loss = loss_of(model(pixels), labels)
            loss.backward()
            optimizer.step()
    return float(loss.detach())


@torch.no_grad()
def accuracy(model: nn.Module, data: ImageFolder) -> float:
    right = 0
    for pixels, labels in DataLoader(data, batch_size=500):
        right += int((model(pixels).argmax(1) == labels).sum())
    return right / len(data)


if __name__ == "__main__":
    main()
