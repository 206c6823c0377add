"""The wrapped loader gives the batches of the plain one, bit for bit, whole epochs compared.

All against a real daemon with real sandboxed workers.
"""

from __future__ import annotations

import importlib
import random
import sys
import threading
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import onggi
import pytest
import torch
from onggi.offload.failures import OffloadError
from sdk_daemon import ROOT, Daemon, start_daemon
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    get_worker_info,
)

Pair = namedtuple("Pair", "pixels label")


class Noisy(Dataset[Any]):
    """Draws from all three generators for each sample, and nests its values."""

    def __init__(self, count: int = 53) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return {
            "pair": Pair(torch.rand(3, 4) + index, index),
            "numpy": np.random.rand(2).astype(np.float32),
            "python": random.random() if index % 2 else random.gauss(0, 1),
            "text": f"sample {index}",
            "worker": -1 if (info := get_worker_info()) is None else info.id,
        }


class Uneven(IterableDataset[Any]):
    """Worker n of N gives every Nth sample, and more of them the higher n is."""

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for number in range(first, 40 + first * 9, step):
            yield torch.rand(2) + number, random.random()


class DrawsAtEachStep(Sampler[int]):
    """An order that depends on the global generators while it is iterated."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        for _ in range(self.count):
            yield random.randrange(self.count) + int(torch.randint(0, 1, (1,)))


def seed_by_worker(worker: int) -> None:
    random.random()
    torch.manual_seed(torch.initial_seed() ^ worker)


def seed(value: int = 7) -> None:
    random.seed(value)
    np.random.seed(value)
    torch.manual_seed(value)


def bits(value: Any) -> Any:
    """A batch as something that == compares bit for bit, types included."""
    if isinstance(value, torch.Tensor):
        return ("tensor", value.dtype, tuple(value.shape), value.numpy().tobytes())
    if isinstance(value, np.ndarray):
        return ("array", str(value.dtype), value.shape, value.tobytes())
    if isinstance(value, dict):
        return ("dict", [(key, bits(item)) for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [bits(item) for item in value])
    return (type(value).__name__, value)


def epochs(loader: Any, count: int = 2, draw: bool = False) -> list[Any]:
    """All batches of some epochs from the same seeds, and what the generators are afterwards."""
    seed()
    seen = []
    for _ in range(count):
        for batch in loader:
            seen.append(bits(batch))
            if draw:  # as dropout does
                torch.rand(1)
    return [*seen, torch.rand(1).item(), random.random(), float(np.random.rand())]


MAP_CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "in order": lambda: {"batch_size": 8},
    "shuffled": lambda: {"batch_size": 8, "shuffle": True},
    "drop last": lambda: {"batch_size": 8, "shuffle": True, "drop_last": True},
    "no batches": lambda: {"batch_size": None},
    "own generator": lambda: {
        "batch_size": 8,
        "shuffle": True,
        "generator": torch.Generator().manual_seed(3),
    },
    "with replacement": lambda: {
        "batch_size": 8,
        "sampler": RandomSampler(Noisy(), replacement=True, num_samples=40),
    },
    "global draws": lambda: {"batch_size": 8, "sampler": DrawsAtEachStep(53)},
    "batch sampler": lambda: {"batch_sampler": BatchSampler(RandomSampler(Noisy()), 5, True)},
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that runs tasks, with this interpreter and these sources."""
    running = start_daemon(
        tmp_path_factory.mktemp("node") / "data",
        f"active.python={sys.executable}",
        f"active.python_path={ROOT / 'python' / 'src'}",
    )
    yield running
    running.process.terminate()
    running.process.wait(30)


@pytest.fixture
def wrap(client: onggi.Client) -> Callable[..., Any]:
    def wrap(loader: DataLoader[Any], **options: Any) -> Any:
        return onggi.offload(
            loader, **{"client": client, "policy": "storage", "strict": True, **options}
        )

    return wrap


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
@pytest.mark.parametrize("case", MAP_CASES)
def test_map_style_epochs_are_equal(wrap: Callable[..., Any], case: str, workers: int) -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(Noisy(), num_workers=workers, **MAP_CASES[case]())

    assert epochs(wrap(make())) == epochs(make())


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
@pytest.mark.parametrize("drop_last", [False, True])
def test_iterable_epochs_are_equal(wrap: Callable[..., Any], workers: int, drop_last: bool) -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(Uneven(), batch_size=4, drop_last=drop_last, num_workers=workers)

    assert epochs(wrap(make())) == epochs(make())


@pytest.mark.parametrize("workers", [0, 2])
def test_training_that_draws_changes_nothing(wrap: Callable[..., Any], workers: int) -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(Noisy(), batch_size=8, shuffle=True, num_workers=workers)

    assert epochs(wrap(make()), draw=True) == epochs(make(), draw=True)


def test_persistent_workers_go_on(wrap: Callable[..., Any]) -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(
            Noisy(), batch_size=8, shuffle=True, num_workers=2, persistent_workers=True
        )

    wrapped = wrap(make())
    assert epochs(wrapped, count=3) == epochs(make(), count=3)
    wrapped.close()


def test_worker_init_runs(wrap: Callable[..., Any]) -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(Noisy(), batch_size=8, num_workers=2, worker_init_fn=seed_by_worker)

    assert epochs(wrap(make())) == epochs(make())


def test_fewer_processes_than_streams(wrap: Callable[..., Any]) -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=3)

    assert epochs(wrap(make(), workers=2)) == epochs(make())


@pytest.mark.parametrize("policy", ["storage", "local"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("done", [0, 1, 5, 13])
@pytest.mark.parametrize("iterable", [False, True])
def test_an_epoch_goes_on_where_it_was(
    wrap: Callable[..., Any], policy: str, workers: int, done: int, iterable: bool
) -> None:
    def make(num_workers: int) -> Any:
        data: Any = Uneven() if iterable else Noisy(110)
        shuffle = {} if iterable else {"shuffle": True}
        loader = DataLoader(data, batch_size=4, num_workers=num_workers, **shuffle)
        return wrap(loader, policy=policy)

    seed()
    whole = make(workers)
    expected = [bits(batch) for batch in whole]
    expected_next = [bits(batch) for batch in whole]

    seed()
    first = make(workers)
    iterator = iter(first)
    for _ in range(min(done, len(expected))):
        next(iterator)
    state = first.state_dict()
    generators = torch.get_rng_state(), random.getstate(), np.random.get_state()
    del iterator
    first.close()

    seed(99)
    torch.set_rng_state(generators[0])
    random.setstate(generators[1])
    np.random.set_state(generators[2])
    second = make(workers if workers == 0 else workers + 1)
    second.load_state_dict(state)
    assert [bits(batch) for batch in second] == expected[done:]
    if workers == 0:  # with workers, another number of them is another next epoch
        assert [bits(batch) for batch in second] == expected_next


def test_a_state_is_torch_saveable(wrap: Callable[..., Any], tmp_path: Path) -> None:
    loader = wrap(DataLoader(Noisy(), batch_size=4, num_workers=1))
    iterator = iter(loader)
    next(iterator)
    torch.save(loader.state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    loader.load_state_dict(state)
    assert state["yielded"] == 1


class Fails(Noisy):
    def __getitem__(self, index: int) -> Any:
        if index == 21:
            raise KeyError("no such picture")
        return index


@pytest.mark.parametrize("workers", [0, 2])
def test_the_users_error_comes_with_its_sample(wrap: Callable[..., Any], workers: int) -> None:
    loader = wrap(DataLoader(Fails(), batch_size=8, num_workers=workers))
    with pytest.raises(KeyError) as caught:
        list(loader)
    assert "sample 21" in str(caught.value)
    assert "no such picture" in str(caught.value)
    assert "__getitem__" in str(caught.value), "the traceback there"


def test_what_cannot_be_pickled_runs_locally_and_says_why(client: onggi.Client) -> None:
    class Locked(Noisy):
        def __init__(self) -> None:
            super().__init__(8)
            self.lock = threading.Lock()

    def make() -> DataLoader[Any]:
        return DataLoader(Locked(), batch_size=4, num_workers=0)

    loader = onggi.offload(make(), client=client, policy="storage")
    assert epochs(loader) == epochs(make())
    assert loader.stats().site == "local"
    assert "dataset" in repr(loader)
    assert "pickle" in repr(loader)
    with pytest.raises(OffloadError, match="dataset"):
        list(onggi.offload(make(), client=client, policy="storage", strict=True))


def test_a_module_that_the_node_lacks_runs_locally_and_says_why(
    client: onggi.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Installed, as pip would say, here alone: the user's own files would travel with the data set.
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "only_here.py").write_text("def double(value):\n    return 2 * value\n")
    monkeypatch.syspath_prepend(site)
    double = importlib.import_module("only_here").double

    def make() -> DataLoader[Any]:
        return DataLoader(Applies(double), batch_size=4, num_workers=2)

    loader = onggi.offload(make(), client=client, policy="storage")
    assert epochs(loader) == epochs(make())
    assert loader.stats().site == "local"
    assert "No module named 'only_here'" in repr(loader)
    with pytest.raises(OffloadError, match="No module named 'only_here'"):
        list(onggi.offload(make(), client=client, policy="storage", strict=True))


def test_a_process_at_the_root_directory_offloads_too(
    wrap: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    assert len(list(wrap(DataLoader(Noisy(8), batch_size=4)))) == 2


@pytest.mark.parametrize("workers", [0, 2])
def test_an_absent_daemon_runs_locally_and_says_why(workers: int) -> None:
    def make() -> DataLoader[Any]:
        generator = torch.Generator().manual_seed(3) if workers else None
        return DataLoader(Noisy(8), shuffle=True, num_workers=workers, generator=generator)

    client = onggi.connect("http://127.0.0.1:1", token="none")
    loader = onggi.offload(make(), client=client, policy="storage")
    assert epochs(loader) == epochs(make())
    assert loader.stats().site == "local"
    assert loader.stats().fallbacks


class Applies(Dataset[int]):
    def __init__(self, function: Callable[[int], int]) -> None:
        self.function = function

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return self.function(index)


class Files(Dataset[bytes]):
    def __init__(self, folder: str, names: list[str]) -> None:
        self.folder = folder
        self.names = names

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> bytes:
        import fsspec

        with fsspec.open(f"{self.folder}/{self.names[index]}", "rb") as file:
            return bytes(file.read())


class Found(Dataset[bytes]):
    """Files that a file system has listed, opened by it."""

    def __init__(self, fs: Any, paths: list[str]) -> None:
        self.fs = fs
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> bytes:
        return bytes(self.fs.cat_file(self.paths[index]))


def first(values: list[bytes]) -> bytes:
    return values[0]


@pytest.fixture
def files(vfolder: onggi.VFolder) -> tuple[onggi.VFolder, list[str]]:
    names = [f"d{n % 3}/f{n}.txt" for n in range(9)]
    for name in names:
        vfolder.write_bytes(name, name.encode())
    return vfolder, names


def test_a_url_finds_its_vfolder_in_the_sandbox(
    wrap: Callable[..., Any], files: tuple[onggi.VFolder, list[str]]
) -> None:
    vfolder, names = files
    data = Files(f"onggi://{vfolder.volume}/{vfolder.name}", names)
    loader = wrap(DataLoader(data, batch_size=1, collate_fn=first, num_workers=1), policy="auto")
    assert list(loader) == [name.encode() for name in names]
    assert loader.stats().site.startswith("storage")


def test_the_file_systems_own_paths_find_their_vfolder_in_the_sandbox(
    wrap: Callable[..., Any],
    client: onggi.Client,
    daemon: Daemon,
    files: tuple[onggi.VFolder, list[str]],
) -> None:
    vfolder, names = files
    fs = fsspec.filesystem("onggi", url=client.url, token=daemon.token)
    data = Found(fs, fs.find(f"{vfolder.volume}/{vfolder.name}"))
    loader = wrap(DataLoader(data, batch_size=1, collate_fn=first, num_workers=1), policy="auto")
    assert sorted(loader) == sorted(name.encode() for name in names)
    assert loader.stats().site.startswith("storage")


def test_a_mapped_path_is_the_same_path_in_the_sandbox(
    wrap: Callable[..., Any], files: tuple[onggi.VFolder, list[str]], tmp_path: Path
) -> None:
    vfolder, names = files
    folder = str(tmp_path / "not" / "here")
    mapping = {folder: f"onggi://{vfolder.volume}/{vfolder.name}"}
    loader = DataLoader(Files(folder, names), batch_size=1, collate_fn=first, num_workers=1)
    assert list(wrap(loader, data=mapping)) == [name.encode() for name in names]


def test_it_is_a_data_loader(wrap: Callable[..., Any]) -> None:
    loader = DataLoader(Noisy(), batch_size=8, shuffle=True)
    wrapped = wrap(loader)
    assert isinstance(wrapped, DataLoader)
    assert len(wrapped) == len(loader)
    assert wrapped.sampler is loader.sampler
    assert wrapped.dataset is loader.dataset
    assert onggi.unwrap(wrapped) is loader


def test_an_epoch_left_in_its_midst_leaves_nothing(
    wrap: Callable[..., Any], client: onggi.Client
) -> None:
    loader = wrap(DataLoader(Noisy(5000), batch_size=4, num_workers=2))
    for _ in loader:
        break
    loader.close()
    deadline = 200
    while client.call("GET", "/v1/tasks")["items"] and deadline:
        deadline -= 1
        time.sleep(0.05)
    assert client.call("GET", "/v1/tasks")["items"] == []
