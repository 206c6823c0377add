"""A small epoch of made-up pictures, played by a worker that waits for its task."""

from __future__ import annotations

import io
import pickle
import random
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from onggi.offload import rng, wire
from onggi.worker.loader_task import Stream

SIDE = 32
SAMPLES = 16
PATHS = 5_000


class Pictures(Dataset[tuple[torch.Tensor, int]]):
    """What users' data sets do: a long list of paths, a decoder, random transforms."""

    def __init__(self) -> None:
        self.paths = [f"/pictures/{number:07}.png" for number in range(PATHS)]
        self.encoded = _encoded_pictures()

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        pixels = np.zeros((SIDE, SIDE, 3), dtype=np.uint8)
        if self.encoded:
            from PIL import Image, ImageOps

            with io.BytesIO(self.encoded[index % len(self.encoded)]) as file:
                picture = ImageOps.expand(Image.open(file).convert("RGB"), 2)
            left = int(torch.randint(0, 4, (1,)))
            picture = picture.crop((left, 0, left + SIDE, SIDE)).resize((SIDE, SIDE))
            pixels = np.array(picture if random.random() < 0.5 else ImageOps.mirror(picture))
        shift = float(np.random.rand())
        tensor = torch.from_numpy(pixels).permute(2, 0, 1).float().div(255).sub(shift)
        return tensor.contiguous(), len(self.paths[index])


def _encoded_pictures() -> list[bytes]:
    encoded = []
    with suppress(ImportError, OSError):
        from PIL import Image

        for kind in ("PNG", "JPEG"):
            file = io.BytesIO()
            Image.new("RGB", (SIDE, SIDE)).save(file, kind)
            encoded.append(file.getvalue())
    return encoded


@dataclass(frozen=True)
class Rehearsal:
    payload: bytes

    @staticmethod
    def prepare() -> Rehearsal:
        """In the zygote: the work as a client sends it, its class and functions by value."""
        loader = DataLoader(Pictures(), batch_size=SAMPLES)
        work = {
            "dataset": loader.dataset,
            "collate_fn": loader.collate_fn,
            "worker_init_fn": None,
            "kind": loader._dataset_kind,
            "auto_collation": True,
            "drop_last": False,
            "num_workers": 1,
            "base_seed": 0,
        }
        module = sys.modules[__name__]
        cloudpickle.register_pickle_by_value(module)
        try:
            return Rehearsal(cloudpickle.dumps(work, protocol=5))
        finally:
            cloudpickle.unregister_pickle_by_value(module)

    def play(self) -> None:
        """In a worker: unpickles, makes a batch, encodes it. The generators stay as they were."""
        before = rng.capture()
        work: dict[str, Any] = pickle.load(io.BytesIO(self.payload))
        stream = Stream(work, 0, None)
        stream.start()
        batch = stream.fetch(list(range(SAMPLES)))
        image = wire.encode(batch, rng.changed(stream.states, rng.capture()), palette=False)
        image.write(memoryview(bytearray(image.nbytes)))
        torch.utils.data._utils.worker._worker_info = None
        rng.restore(before)
