"""The warm parent of Python workers: imports what they will need, then forks them on order.

Started by the broker as `python -m onggi.worker.zygote --profile NAME` with its socket as
descriptor 3. Everything before the fork is shared by all tenants, so nothing of a tenant's may ever
come here: no path, no payload, no import that a tenant chose.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.metadata
import json
import os
import sys
from collections.abc import Callable

from onggi import _sandbox
from onggi.worker import runtime

CONTROL_FD = 3

# Imported before the first fork. A missing optional one is left out and its absence reported.
REQUIRED = {
    "numpy": ["numpy", "numpy.random", "cloudpickle"],
    "torch": ["numpy", "numpy.random", "cloudpickle", "torch", "torch.utils.data"],
}
COMMON = [
    "base64",
    "bisect",
    "collections.abc",
    "concurrent.futures",
    "csv",
    "glob",
    "gzip",
    "hashlib",
    "io",
    "math",
    "mmap",
    "pathlib",
    "pickle",
    "random",
    "tempfile",
    "traceback",
    "typing",
    "encodings.idna",
    "encodings.latin_1",
]
OPTIONAL = [
    "PIL.Image",
    "PIL.ImageEnhance",
    "PIL.ImageOps",
    "PIL.PngImagePlugin",
    "PIL.JpegImagePlugin",
    "PIL.BmpImagePlugin",
    "PIL.WebPImagePlugin",
    "fsspec",
    "onggi._filesystem",
    "onggi.worker.loader_task",
]
PACKAGES = {
    "numpy": ["numpy", "pillow", "cloudpickle"],
    "torch": ["torch", "numpy", "pillow", "cloudpickle", "torchvision"],
}


def warm(profile: str) -> dict[str, str]:
    """Imports the profile's modules, runs an operation of each, and says what it found."""
    for name in [*COMMON, *REQUIRED[profile]]:
        importlib.import_module(name)
    for name in OPTIONAL:
        try:
            importlib.import_module(name)
        except ImportError as error:
            if name.startswith("onggi."):
                print(f"zygote: {name} is left out: {error}", file=sys.stderr)
    if profile == "torch":
        _warm_torch()
    versions = {"python": sys.version.split()[0]}
    for name in PACKAGES[profile]:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _warm_torch() -> None:
    import numpy as np
    import torch

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    # The first of each loads code and tables that every worker would otherwise load again.
    torch.from_numpy(np.zeros((2, 2), dtype=np.float32)).div(255).sub_(0.5).contiguous()
    torch.stack([torch.zeros(3), torch.ones(3)]).permute(1, 0)
    torch.utils.data.default_collate([(torch.zeros(2), 1), (torch.ones(2), 2)])
    torch.Generator().manual_seed(1)
    torch.randperm(4)
    torch.random.get_rng_state()


def rehearsal_of(profile: str) -> Callable[[], object]:
    """What a worker goes through once before its task, so that the pages which that writes to are
    the worker's own by then: taking them from the zygote one by one costs a first batch 15 ms."""
    if profile != "torch":
        return lambda: None
    from onggi.worker.rehearsal import Rehearsal

    return Rehearsal.prepare().play


def readable_paths() -> list[str]:
    """What workers must be able to read for imports after the fork: this interpreter's files."""
    paths = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    paths.update(os.path.abspath(entry) for entry in sys.path if entry)
    forbidden = {"/", "/home", "/root", "/etc", "/var", "/tmp", os.path.expanduser("~")}
    # A prefix of /usr is bound anyway; one that is a whole home or root folder would show too much.
    return sorted(p for p in paths if os.path.exists(p) and p not in forbidden)


def main() -> int:
    """Serves until the broker goes; in a forked worker, runs its task."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile", required=True, choices=sorted(REQUIRED))
    profile = parser.parse_args().profile
    # `python -m` puts the directory it was started in first; workers must not import from there.
    sys.path[:] = [entry for entry in sys.path if entry not in ("", os.getcwd())]
    try:
        versions = warm(profile)
        rehearse = rehearsal_of(profile)
        gc.collect()
        gc.freeze()
        order = _sandbox.serve(CONTROL_FD, json.dumps(versions), readable_paths(), rehearse)
    except StopIteration:
        return 0
    except Exception as error:
        _sandbox.report_failure(CONTROL_FD, f"{type(error).__name__}: {error}")
        return 1
    return runtime.run_worker(order["socket_fd"], order["arena_fd"])


if __name__ == "__main__":
    # Not sys.exit: a worker has no business with what the zygote's imports registered at exit.
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
