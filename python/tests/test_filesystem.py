"""The fsspec file system, as pandas, torch and friends use it."""

from __future__ import annotations

import io
import json
import os
import pickle
from pathlib import Path

import fsspec
import onggi
import pandas as pd
import pytest
import torch
from sdk_daemon import Daemon

MIB = 1 << 20


@pytest.fixture
def fs(daemon: Daemon) -> onggi.OnggiFileSystem:
    return onggi.OnggiFileSystem(daemon.url, daemon.token, skip_instance_cache=True)


@pytest.fixture
def root(vfolder: onggi.VFolder) -> str:
    return vfolder.url.removeprefix("onggi://")


def test_the_tree_above_a_vfolder_can_be_walked(
    fs: onggi.OnggiFileSystem, vfolder: onggi.VFolder
) -> None:
    assert "local" in fs.ls("", detail=False)
    assert f"local/{vfolder.name}" in fs.ls("onggi://local", detail=False)
    assert fs.info("local")["type"] == "directory"
    assert fs.isdir(vfolder.url)


def test_files_are_listed_found_globbed_and_walked(fs: onggi.OnggiFileSystem, root: str) -> None:
    fs.pipe({f"{root}/a/{i}.txt": b"x" * i for i in range(3)})
    fs.pipe_file(f"{root}/b.bin", b"bin")
    assert fs.ls(root, detail=False) == [f"{root}/a", f"{root}/b.bin"]
    assert fs.find(root) == [f"{root}/a/{i}.txt" for i in range(3)] + [f"{root}/b.bin"]
    assert fs.glob(f"onggi://{root}/a/*.txt") == [f"{root}/a/{i}.txt" for i in range(3)]
    assert [names for _, _, names in fs.walk(root)] == [["b.bin"], ["0.txt", "1.txt", "2.txt"]]
    assert fs.info(f"{root}/a/2.txt")["size"] == 2
    assert fs.exists(f"{root}/a/2.txt")
    assert not fs.exists(f"{root}/a/3.txt")
    assert fs.du(root) == 6


def test_ranges_come_through_a_cache(fs: onggi.OnggiFileSystem, root: str) -> None:
    data = os.urandom(5 * MIB)
    fs.pipe_file(f"{root}/f", data)
    assert fs.cat_file(f"{root}/f", 10, 20) == data[10:20]
    assert fs.cat_file(f"{root}/f", -5) == data[-5:]
    with fs.open(f"{root}/f", block_size=MIB) as file:
        assert file.read(3) == data[:3]
        file.seek(-4, os.SEEK_END)
        assert file.read() == data[-4:]
        file.seek(2 * MIB - 2)
        assert file.read(4) == data[2 * MIB - 2 : 2 * MIB + 2]


def test_files_are_put_got_moved_and_removed(
    fs: onggi.OnggiFileSystem, root: str, tmp_path: Path
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/one").write_bytes(b"1")
    (tmp_path / "d/two").write_bytes(b"22")
    fs.put(f"{tmp_path}/d", f"{root}/d", recursive=True)
    assert fs.cat(fs.find(f"{root}/d")) == {f"{root}/d/one": b"1", f"{root}/d/two": b"22"}
    fs.get(f"{root}/d", f"{tmp_path}/back", recursive=True)
    assert (tmp_path / "back/two").read_bytes() == b"22"
    fs.mv(f"{root}/d/one", f"{root}/e/uno")
    fs.cp_file(f"{root}/e/uno", f"{root}/e/due")
    assert fs.find(root) == [f"{root}/d/two", f"{root}/e/due", f"{root}/e/uno"]
    fs.rm(f"{root}/e", recursive=True)
    fs.rm_file(f"{root}/d/two")
    assert fs.find(root) == []
    fs.makedirs(f"{root}/x/y", exist_ok=True)
    assert fs.isdir(f"{root}/x/y")
    with pytest.raises(FileNotFoundError):
        fs.info(f"{root}/nothing")


def test_pandas_and_torch_read_and_write(daemon: Daemon, vfolder: onggi.VFolder) -> None:
    options = {"url": daemon.url, "token": daemon.token}
    frame = pd.DataFrame({"a": [1, 2], "b": ["옹", "기"]})
    frame.to_csv(f"{vfolder.url}/frame.csv", index=False, storage_options=options)
    back = pd.read_csv(f"{vfolder.url}/frame.csv", storage_options=options)
    pd.testing.assert_frame_equal(frame, back)
    tensor = torch.arange(1000)
    with fsspec.open(f"{vfolder.url}/t.pt", "wb", **options) as file:
        torch.save(tensor, file)
    with fsspec.open(f"{vfolder.url}/t.pt", "rb", **options) as file:
        assert torch.equal(torch.load(file), tensor)


def test_the_environment_says_where_to_go(
    daemon: Daemon, vfolder: onggi.VFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONGGI_URL", daemon.url)
    monkeypatch.setenv("ONGGI_TOKEN", daemon.token)
    vfolder.write_bytes("f.txt", b"text")
    fsspec.filesystem("onggi").clear_instance_cache()
    with fsspec.open(f"{vfolder.url}/f.txt", "rt") as file:
        assert file.read() == "text"


def test_a_mount_is_read_without_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount = tmp_path / "mount"
    (mount / "train").mkdir(parents=True)
    (mount / "train/a.bin").write_bytes(b"0123456789")
    monkeypatch.setenv("ONGGI_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("ONGGI_MOUNTS", json.dumps({"onggi://local/fashion": str(mount)}))
    fs = onggi.OnggiFileSystem(skip_instance_cache=True)
    assert fs.ls("onggi://local/fashion", detail=False) == ["local/fashion/train"]
    assert fs.find("local/fashion") == ["local/fashion/train/a.bin"]
    assert fs.cat_file("local/fashion/train/a.bin", 2, 4) == b"23"
    assert fs.glob("onggi://local/fashion/*/*.bin") == ["local/fashion/train/a.bin"]
    with fs.open("onggi://local/fashion/train/a.bin") as file:
        assert file.read() == b"0123456789"
    with pytest.raises(FileNotFoundError):
        fs.info("local/fashion/none")
    with pytest.raises(PermissionError):
        fs.pipe_file("local/fashion/new", b"")
    with pytest.raises(OSError, match="cannot reach"):
        fs.ls("onggi://local/fashions")


def test_it_survives_pickling(fs: onggi.OnggiFileSystem, root: str) -> None:
    fs.pipe_file(f"{root}/f", b"data")
    again = pickle.loads(pickle.dumps(fs))
    assert again.cat_file(f"{root}/f") == b"data"
    assert isinstance(again.open(f"{root}/f").read(), bytes)
    with io.TextIOWrapper(again.open(f"{root}/f")) as text:
        assert text.read() == "data"
