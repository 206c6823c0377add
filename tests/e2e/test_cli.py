"""The command line against a real daemon: what it prints, how it ends, what it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from node_under_test import Daemon, find_program

MIB = 1 << 20
WAIT_SECONDS = 120.0
SHELLS = ("bash", "zsh", "fish")


class Onggi:
    """The program with surroundings of its own."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self.program = find_program("onggi")
        self.cache = folder / "cache"
        self.environment = {
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "XDG_CACHE_HOME": str(self.cache),
            "ONGGI_URL": f"http://127.0.0.1:{daemon.node.port}",
            "ONGGI_TOKEN": daemon.token,
        }

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.program, *words],
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *words: str, code: int = 0, **environment: str) -> tuple[str, str]:
        process = self.start(*words, **environment)
        out, err = process.communicate(timeout=WAIT_SECONDS)
        assert process.returncode == code, (words, out, err)
        return out, err

    def json(self, *words: str) -> Any:
        out, _ = self(*words, "--json")
        return json.loads(out)

    def error(self, *words: str, code: int) -> str:
        _, err = self(*words, "--json", code=code)
        error = json.loads(err)["error"]
        assert error["exit_code"] == code
        return str(error["message"])


@pytest.fixture
def onggi(daemon: Daemon, tmp_path: Path) -> Onggi:
    return Onggi(daemon, tmp_path)


def make_tree(root: Path) -> dict[str, bytes]:
    files = {f"class-{i % 3}/{i:03}.bin": os.urandom(i * 37) for i in range(120)}
    files["deep/er/one.txt"] = b"text"
    files["옹기 ?#%.txt"] = "옹기".encode()
    files["medium.bin"] = os.urandom(70_000)
    files["large.bin"] = os.urandom(9 * MIB + 5)
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (root / "nothing/in/here").mkdir(parents=True)
    return files


def read_tree(root: Path) -> dict[str, bytes]:
    found = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}


def wait_until(true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not true():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_a_tree_goes_there_and_back(onggi: Onggi, tmp_path: Path) -> None:
    files = make_tree(tmp_path / "source")
    (tmp_path / "source/link").symlink_to("/etc/passwd")
    onggi("vfolder", "create", "local/fashion")
    sent = onggi.json("cp", "-r", str(tmp_path / "source"), "onggi://local/fashion/x", "--verify")
    assert (sent["files"], sent["failures"]) == (len(files), [])
    assert sent["size_bytes"] == sum(map(len, files.values()))
    assert "link" in sent["warnings"][0]
    usage = onggi.json("vfolder", "usage", "local/fashion")
    assert (usage["files"], usage["symlinks"]) == (len(files), 0)
    back = onggi.json("cp", "-r", "onggi://local/fashion/x", str(tmp_path / "back"), "--verify")
    assert back["files"] == len(files)
    assert read_tree(tmp_path / "back") == files
    assert (tmp_path / "back/nothing/in/here").is_dir()
    assert list((tmp_path / "back").rglob("*.onggi-part")) == []


def test_what_is_there_is_not_sent_again(onggi: Onggi, tmp_path: Path) -> None:
    files = make_tree(tmp_path / "source")
    copy = ("cp", "-r", str(tmp_path / "source"), "onggi://local/fashion", "--create")
    onggi(*copy)
    (tmp_path / "source/class-0/000.bin").write_bytes(b"now it has something")
    again = onggi.json(*copy)
    assert (again["files"], again["files_skipped"]) == (1, len(files) - 1)
    assert onggi.json(*copy, "--force")["files"] == len(files)


def test_single_files_land_as_with_cp(onggi: Onggi, tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("text")
    onggi("vfolder", "create", "local/v")
    onggi("mkdir", "-p", "onggi://local/v/some/dir")
    for destination, place in {
        "onggi://local/v": "f.txt",
        "onggi://local/v/some/dir": "some/dir/f.txt",
        "onggi://local/v/new/": "new/f.txt",
        "onggi://local/v/g.txt": "g.txt",
    }.items():
        sent = onggi.json("cp", str(tmp_path / "f.txt"), destination)
        assert sent["to"] == f"onggi://local/v/{place}"
    onggi("cp", "onggi://local/v/some/dir/f.txt", str(tmp_path / "out/"))
    assert (tmp_path / "out").read_text() == "text" or (tmp_path / "out/f.txt").exists()
    (tmp_path / "d").mkdir()
    onggi("cp", "onggi://local/v/g.txt", str(tmp_path / "d"))
    assert (tmp_path / "d/g.txt").read_text() == "text"


def test_an_upload_goes_on_after_ctrl_c(onggi: Onggi, daemon: Daemon, tmp_path: Path) -> None:
    data = os.urandom(MIB) * 256
    (tmp_path / "big").write_bytes(data)
    onggi("vfolder", "create", "local/v")
    copy = ("cp", str(tmp_path / "big"), "onggi://local/v/big")
    process = onggi.start(*copy)
    wait_until(lambda: any(part.stat().st_size > 40 * MIB for part in daemon.staging()), process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 130, err
    assert "goes on from here" in err
    assert onggi.json("ls", "onggi://local/v")["items"] == []
    again = onggi.json(*copy, "--verify")
    assert again["bytes_resumed"] >= 16 * MIB
    assert list((onggi.cache / "onggi/transfers").iterdir()) == []
    onggi("cp", "onggi://local/v/big", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == data


def test_a_download_goes_on_after_ctrl_c(onggi: Onggi, tmp_path: Path) -> None:
    data = os.urandom(MIB) * 512
    (tmp_path / "big").write_bytes(data)
    onggi("cp", str(tmp_path / "big"), "onggi://local/v/big", "--create")
    states = onggi.cache / "onggi/transfers"
    process = onggi.start("cp", "-j", "1", "onggi://local/v/big", str(tmp_path / "back"))
    wait_until(lambda: any(states.glob("*.json")), process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 130, err
    assert not (tmp_path / "back").exists()
    assert (tmp_path / ".back.onggi-part").exists()
    again = onggi.json("cp", "onggi://local/v/big", str(tmp_path / "back"), "--verify")
    assert again["bytes_resumed"] >= 32 * MIB
    assert (tmp_path / "back").read_bytes() == data
    assert not (tmp_path / ".back.onggi-part").exists()
    assert list(states.iterdir()) == []


def test_a_part_that_was_damaged_is_fetched_again(onggi: Onggi, tmp_path: Path) -> None:
    data = os.urandom(MIB) * 512
    (tmp_path / "big").write_bytes(data)
    onggi("cp", str(tmp_path / "big"), "onggi://local/v/big", "--create")
    states = onggi.cache / "onggi/transfers"
    process = onggi.start("cp", "-j", "1", "onggi://local/v/big", str(tmp_path / "back"))
    wait_until(lambda: any(states.glob("*.json")), process)
    process.kill()
    process.communicate(timeout=WAIT_SECONDS)
    with (tmp_path / ".back.onggi-part").open("r+b") as part:
        part.seek(5 * MIB)
        part.write(b"damage")
    onggi("cp", "onggi://local/v/big", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == data


def test_a_transfer_that_lost_some_files_ends_with_6(onggi: Onggi, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "good.bin").write_bytes(b"x" * 100_000)
    (source / "blocked.bin").write_bytes(b"x" * 100_000)
    onggi("vfolder", "create", "local/v")
    onggi("mkdir", "-p", "onggi://local/v/blocked.bin/in-the-way")
    out, _ = onggi("cp", "-r", str(source), "onggi://local/v", "--json", code=6)
    summary = json.loads(out)
    assert summary["files"] == 1
    assert [failure["path"] for failure in summary["failures"]] == ["blocked.bin"]
    _, err = onggi("cp", "-r", str(source), "onggi://local/v", code=6)
    assert "blocked.bin" in err


def test_exit_codes(onggi: Onggi, tmp_path: Path) -> None:
    onggi("vfolder", "create", "local/fashion")
    assert "is not a command; did you mean 'vfolder'?" in onggi.error("vfoldr", code=2)
    assert "did you mean 'list'?" in onggi.error("volume", "lst", code=2)
    assert "neither end is remote" in onggi.error("cp", "a", "b", code=2)
    assert "use -r" in onggi.error("cp", str(tmp_path), "onggi://local/fashion", code=2)
    missing = onggi.error("ls", "onggi://local/fashoin", code=3)
    assert "did you mean 'fashion'?" in missing
    assert "did you mean 'local'?" in onggi.error("ls", "onggi://locl/fashion", code=3)
    onggi.error("ls", "onggi://local/fashion/none", code=3)
    onggi.error("cp", str(tmp_path / "none"), "onggi://local/fashion", code=3)
    assert "ONGGI_TOKEN" in onggi.error("--token", "onggi_x", "ls", code=4)
    assert "onggi serve" in onggi.error("--url", "http://127.0.0.1:1", "ls", code=5)
    onggi.error("--url", "ftp://x", "ls", code=2)
    _, err = onggi("ls", "onggi://local/none", code=3)
    assert err.startswith("onggi: no vfolder 'none'")


def test_vfolders_are_made_shown_renamed_shared_and_deleted(onggi: Onggi, daemon: Daemon) -> None:
    made = onggi.json("vfolder", "create", "only-a-name")
    assert made["volume"] == "local"
    assert onggi.json("vfolder", "list")["items"][0]["id"] == made["id"]
    onggi("vfolder", "rename", "local/only-a-name", "renamed")
    onggi("tenant", "create", "friends")
    onggi("vfolder", "share", "onggi://local/renamed", "friends", "--write")
    shown = onggi.json("vfolder", "show", "local/renamed")
    assert shown["shares"][0]["permission"] == "read_write"
    token, _ = onggi("token", "create", "ci", "--tenant", "friends", "--expires", "12h")
    theirs = onggi("vfolder", "list", ONGGI_TOKEN=token.strip())[0]
    assert "onggi://local/renamed" in theirs
    onggi("vfolder", "unshare", "local/renamed", "friends")
    assert "No vfolders" in onggi("vfolder", "list", ONGGI_TOKEN=token.strip())[0]
    assert "--yes" in onggi.error("vfolder", "delete", "local/renamed", code=2)
    onggi("vfolder", "delete", "local/renamed", "--yes")
    assert onggi.json("vfolder", "list")["items"] == []
    listed = onggi.json("token", "list")["items"]
    ours = next(item["id"] for item in listed if item["name"] == "ci")
    onggi("token", "revoke", ours)
    onggi("ls", code=4, ONGGI_TOKEN=token.strip())


def test_files_are_listed_moved_and_removed(onggi: Onggi, tmp_path: Path) -> None:
    make_tree(tmp_path / "source")
    onggi("cp", "-r", str(tmp_path / "source"), "onggi://local/v", "--create", "-q")
    out, _ = onggi("ls", "-l", "onggi://local/v")
    assert "9.00 MiB" in out
    assert "9,437,189" in out
    assert len(onggi.json("ls", "-R", "onggi://local/v/class-0")["items"]) == 40
    onggi("mv", "onggi://local/v/deep/er", "onggi://local/v/shallow")
    assert onggi.json("ls", "onggi://local/v/shallow")["items"][0]["path"] == "one.txt"
    assert "-r" in onggi.error("rm", "onggi://local/v/class-0", code=1)
    onggi("rm", "-r", "onggi://local/v/class-0", "onggi://local/v/shallow/one.txt")
    names = [item["path"] for item in onggi.json("ls", "onggi://local/v")["items"]]
    assert "class-0" not in names


def test_volumes_are_added_and_removed(onggi: Onggi, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    added = onggi.json("volume", "add", "more", str(tmp_path / "more"))
    assert added["name"] == "more"
    names = [volume["name"] for volume in onggi.json("volume", "list")["items"]]
    assert names == ["local", "more"]
    assert "say" in onggi.error("vfolder", "create", "x", code=2)
    onggi("volume", "remove", "more")
    onggi.error("volume", "show", "more", code=3)


def test_the_local_daemon_is_found_without_being_named(onggi: Onggi, daemon: Daemon) -> None:
    for name in ("ONGGI_URL", "ONGGI_TOKEN"):
        del onggi.environment[name]
    onggi("ls", XDG_DATA_HOME="/nowhere", ONGGI_DATA_PATH=str(daemon.data))
    shown = onggi("version", XDG_DATA_HOME="/nowhere", ONGGI_DATA_PATH=str(daemon.data))[0]
    assert "onggid.sock" in shown


def test_a_profile_is_used(onggi: Onggi, tmp_path: Path) -> None:
    config = tmp_path / "config/onggi/config.toml"
    config.parent.mkdir(parents=True)
    url, token = onggi.environment.pop("ONGGI_URL"), onggi.environment.pop("ONGGI_TOKEN")
    config.write_text(f'[profiles.lab]\nurl = "{url}"\ntoken = "{token}"\n')
    onggi.environment["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    onggi("--profile", "lab", "node", "list")
    assert "has no profile 'lap'" in onggi.error("--profile", "lap", "node", "list", code=3)
    config.write_text("not toml")
    assert f"{config}:1" in onggi.error("--profile", "lab", "node", "list", code=2)


def test_the_machine_and_the_node_are_described(onggi: Onggi) -> None:
    assert onggi.json("node", "show")["cpus"] >= 1
    process = onggi.start("doctor", "--json")
    out, _ = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode in (0, 1)
    names = {item["name"] for item in json.loads(out)["items"]}
    assert {"io_uring", "namespaces", "Landlock", "O_DIRECT", "GPU", "daemon"} <= names
    assert onggi.json("version")["daemon"]["api"]


def test_the_bench_cleans_up(onggi: Onggi) -> None:
    bench = onggi.json("bench", "io", "--size", "1M", "--files", "10", "--rounds", "1")
    assert all(item["per_second"] > 0 for item in bench["items"])
    assert onggi.json("vfolder", "list")["items"] == []


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_knows_the_whole_tree(onggi: Onggi, shell: str) -> None:
    script, _ = onggi("completion", shell)
    for word in ("vfolder", "rename", "quota-scope", "completion", "recursive"):
        assert word in script
    assert onggi.json("completion", shell)["script"] == script


def test_bash_completes(onggi: Onggi) -> None:
    onggi("vfolder", "create", "local/fashion")

    def complete(line: str, *words: str) -> list[str]:
        array = " ".join(f"'{word}'" for word in words)
        probe = (
            f'eval "$({onggi.program} completion bash)"; compopt() {{ :; }}\n'
            f'onggi() {{ {onggi.program} "$@"; }}\n'
            f"COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}\n"
            f"COMP_LINE='{line}'; COMP_POINT={len(line)}\n"
            "_onggi; printf '%s\\n' \"${COMPREPLY[@]}\""
        )
        answer = subprocess.run(
            ["bash", "-c", probe],
            env=onggi.environment,
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            check=True,
        )
        assert answer.stderr == ""
        return answer.stdout.split()

    assert complete("onggi vf", "onggi", "vf") == ["vfolder"]
    assert complete("onggi vfolder re", "onggi", "vfolder", "re") == ["rename"]
    assert "--verify" in complete("onggi cp --", "onggi", "cp", "--")
    assert complete("onggi ls onggi://lo", "onggi", "ls", "onggi", ":", "//lo") == [
        "//local/fashion/"
    ]


def test_no_color_and_pipes_get_plain_text(onggi: Onggi) -> None:
    for words in (("volume", "list"), ("doctor",), ("vfolder", "list")):
        process = onggi.start(*words)
        out, err = process.communicate(timeout=WAIT_SECONDS)
        assert "\033" not in out + err


def test_serve_becomes_the_daemon(tmp_path: Path) -> None:
    find_program("onggid")
    process = subprocess.run(
        [find_program("onggi"), "serve", "--data", str(tmp_path / "data"), "--check-config"],
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_SECONDS,
    )
    if "cannot start" in process.stderr:
        pytest.skip("onggid is not beside onggi in this build")
    assert process.returncode == 0, process.stderr
