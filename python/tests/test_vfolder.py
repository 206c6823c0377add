"""vfolders, files and transfers through the SDK."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import threading
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.context import ForkContext, SpawnContext
from multiprocessing.queues import Queue
from pathlib import Path

import onggi
import pytest
from onggi._client import without_secrets
from onggi._native import Stream
from sdk_daemon import Daemon

MIB = 1 << 20


def make_tree(root: Path) -> dict[str, bytes]:
    """Small and large files, odd names, an empty file."""
    files = {f"class-{i % 3}/{i:03}.bin": os.urandom(i * 37) for i in range(120)}
    files["deep/er/than/one.txt"] = b"text"
    files["옹기 ?#%.txt"] = "옹기".encode()
    files["large.bin"] = os.urandom(9 * MIB + 5)
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return files


def read_tree(root: Path) -> dict[str, bytes]:
    found = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}


def test_a_vfolder_is_found_by_name_url_and_volume(client: onggi.Client) -> None:
    made = client.create_vfolder("found", "local")
    try:
        for name in ("found", "local/found", "onggi://local/found"):
            assert client.vfolder(name).id == made.id
        made.rename("renamed")
        assert client.vfolder("renamed").id == made.id
        assert made.url == "onggi://local/renamed"
    finally:
        made.delete()


def test_a_misspelt_name_is_answered_with_what_was_meant(
    client: onggi.Client, vfolder: onggi.VFolder
) -> None:
    with pytest.raises(onggi.errors.NotFound, match=f"did you mean '{vfolder.name}'"):
        client.vfolder(vfolder.name[:-1], "local")


def test_bytes_come_back(vfolder: onggi.VFolder) -> None:
    entry = vfolder.write_bytes("a/b.bin", b"0123456789")
    assert entry.size_bytes == 10
    assert vfolder.read_bytes("a/b.bin") == b"0123456789"
    assert [e.path for e in vfolder.ls()] == ["a"]
    assert [e.path for e in vfolder.ls(recursive=True)] == ["a", "a/b.bin"]
    assert vfolder.usage().files == 1
    vfolder.move("a/b.bin", "a/c.bin")
    assert vfolder.exists("a/c.bin")
    assert not vfolder.exists("a/b.bin")
    vfolder.remove("a", recursive=True)
    assert vfolder.ls() == []


def test_files_are_read_by_ranges(vfolder: onggi.VFolder) -> None:
    data = os.urandom(3 * MIB)
    vfolder.write_bytes("f", data)
    with vfolder.open("f") as file:
        assert file.read(10) == data[:10]
        file.seek(-7, os.SEEK_END)
        assert file.read() == data[-7:]
        file.seek(MIB)
        assert file.read(MIB) == data[MIB : 2 * MIB]


def test_a_file_that_changes_while_it_is_read_is_an_error(vfolder: onggi.VFolder) -> None:
    vfolder.write_bytes("f", b"a" * (2 * MIB))
    with vfolder.open("f") as file:
        file.read(1)
        vfolder.write_bytes("f", b"b" * (2 * MIB))
        file.seek(MIB + 1)
        with pytest.raises((onggi.errors.ConditionFailed, onggi.errors.Conflict)):
            file.read()


def test_what_is_written_appears_when_it_is_closed(vfolder: onggi.VFolder) -> None:
    data = os.urandom(9 * MIB)
    with vfolder.open("w.bin", "wb") as file:
        file.write(data)
        assert not vfolder.exists("w.bin")
    assert vfolder.read_bytes("w.bin") == data
    with vfolder.open("t.txt", "w") as text:
        text.write("옹기\n")
    with vfolder.open("t.txt", "r") as text:
        assert text.read() == "옹기\n"


def _write_half(vfolder: onggi.VFolder, path: str) -> None:
    with vfolder.open(path, "wb") as file:
        file.write(b"half")
        raise RuntimeError


def test_a_failed_block_leaves_nothing(vfolder: onggi.VFolder) -> None:
    with pytest.raises(RuntimeError):
        _write_half(vfolder, "w.bin")
    assert not vfolder.exists("w.bin")


def test_a_tree_goes_there_and_back(vfolder: onggi.VFolder, tmp_path: Path) -> None:
    source = tmp_path / "source"
    files = make_tree(source)
    sent = vfolder.upload(source, verify=True, progress=False)
    assert sent
    assert sent.files == len(files)
    back = vfolder.download("", tmp_path / "back", verify=True, progress=False)
    assert back.files == len(files)
    assert read_tree(tmp_path / "back") == files


def test_what_is_there_is_skipped(vfolder: onggi.VFolder, tmp_path: Path) -> None:
    source = tmp_path / "source"
    files = make_tree(source)
    vfolder.upload(source, progress=False)
    (source / "new.txt").write_bytes(b"new")
    again = vfolder.upload(source, progress=False)
    assert (again.files, again.files_skipped) == (1, len(files))
    assert vfolder.upload(source, force=True, progress=False).files == len(files) + 1
    vfolder.download("", tmp_path / "back", progress=False)
    assert vfolder.download("", tmp_path / "back", progress=False).files == 0


def test_links_are_left_out_with_a_warning(vfolder: onggi.VFolder, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "link").symlink_to("/etc/passwd")
    sent = vfolder.upload(source, progress=False)
    assert sent.files == 0
    assert "link" in sent.warnings[0]


def test_progress_ends_at_the_whole(
    vfolder: onggi.VFolder, client: onggi.Client, tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(os.urandom(9 * MIB))
    seen: list[tuple[int, int, int, int, str]] = []
    client._http.native.upload(
        str(tmp_path / "f"),
        vfolder.id,
        "f",
        tree=False,
        jobs=1,
        verify=False,
        force=False,
        durable=True,
        progress=lambda *counts: seen.append(counts),
    )
    assert seen[-1][:4] == (9 * MIB, 9 * MIB, 1, 1)


def test_an_error_in_the_progress_callback_ends_the_transfer(
    vfolder: onggi.VFolder, client: onggi.Client, tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(b"x")

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        client._http.native.upload(
            str(tmp_path / "f"),
            vfolder.id,
            "f",
            tree=False,
            jobs=1,
            verify=False,
            force=False,
            durable=True,
            progress=fail,
        )


def test_a_foreign_vfolder_looks_missing(client: onggi.Client, daemon: Daemon) -> None:
    client.create_tenant("stranger")
    token = client.create_token("stranger", tenant="stranger").token
    stranger = onggi.connect(daemon.url, token)
    mine = client.create_vfolder("mine-alone")
    try:
        assert stranger.vfolders() == []
        with pytest.raises(onggi.errors.NotFound):
            stranger.vfolder("mine-alone", "local")
        mine.share("stranger")
        theirs = stranger.vfolder("mine-alone")
        assert theirs.permission == "read_only"
        with pytest.raises(onggi.errors.PermissionDenied):
            theirs.write_bytes("x", b"")
        mine.unshare("stranger")
        assert stranger.vfolders() == []
    finally:
        mine.delete()
        client.delete_tenant("stranger")


def test_no_daemon_is_an_error_with_a_remedy() -> None:
    with pytest.raises(onggi.errors.Unavailable, match="onggi serve"):
        onggi.connect("http://127.0.0.1:1").version()


def test_a_bad_token_is_refused(daemon: Daemon) -> None:
    with pytest.raises(onggi.errors.Unauthenticated):
        onggi.connect(daemon.url, "onggi_0123456789abcdef_" + "A" * 43).node()


def test_a_profile_is_read(daemon: Daemon, tmp_path: Path) -> None:
    config = tmp_path / "config/onggi/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        f'default = "lab"\n[profiles.lab]\nurl = "{daemon.url}"\ntoken = "{daemon.token}"\n'
    )
    assert onggi.connect().url == daemon.url
    assert onggi.connect(profile="lab").node().version
    with pytest.raises(onggi.errors.NotFound, match="lab"):
        onggi.connect(profile="home").version()


def test_the_unix_socket_needs_no_token(daemon: Daemon) -> None:
    assert onggi.connect(f"unix://{daemon.data}/onggid.sock").node().version


def _read_in_child(client: onggi.Client, vfolder: str, queue: Queue[bytes]) -> None:
    queue.put(client.vfolder(vfolder).read_bytes("f"))


@pytest.mark.parametrize("context", [get_context("fork"), get_context("spawn")])
def test_a_client_works_in_a_child(
    client: onggi.Client, vfolder: onggi.VFolder, context: ForkContext | SpawnContext
) -> None:
    vfolder.write_bytes("f", b"data")
    queue: Queue[bytes] = context.Queue()
    child = context.Process(target=_read_in_child, args=(client, vfolder.url, queue))
    child.start()
    assert queue.get(timeout=60) == b"data"
    child.join()
    assert vfolder.read_bytes("f") == b"data"


def test_pickles_that_leave_carry_no_token(daemon: Daemon) -> None:
    client = onggi.connect(daemon.url, daemon.token)
    assert daemon.token.encode() in pickle.dumps(client)
    with without_secrets():
        assert daemon.token.encode() not in pickle.dumps(client)


def test_a_stream_is_closed_from_another_thread(
    client: onggi.Client, vfolder: onggi.VFolder
) -> None:
    vfolder.write_bytes("f", b"x" * MIB)
    stream = client._http.open_stream("GET", vfolder.target("files", "f"))
    buffer = bytearray(MIB)
    assert stream.readinto(buffer) == MIB
    assert stream.readinto(buffer) == 0
    closed = client._http.open_stream("GET", vfolder.target("files", "f"))
    threading.Thread(target=closed.close).start()
    with pytest.raises(onggi.errors.Cancelled):
        _read_byte_by_byte(closed)


def _read_byte_by_byte(stream: Stream) -> None:
    while stream.readinto(bytearray(1)):
        pass


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """A shell starts what runs in the background with ctrl-C ignored, and Python leaves it so."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_a_call_that_waits() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]

        def interrupt() -> None:
            connection, _ = silent.accept()  # the call is under way and will never be answered
            os.kill(os.getpid(), signal.SIGINT)
            thread_done.wait()
            connection.close()

        thread_done = threading.Event()
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            onggi.connect(f"http://127.0.0.1:{port}").version()
        thread_done.set()
        thread.join()
