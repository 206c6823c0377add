"""How onggid starts, stops and survives."""

from __future__ import annotations

import http.client
import io
import json
import os
import signal
import socket
import ssl
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from node_under_test import Daemon, StartDaemon

MIB = 1 << 20
TUS = {"Tus_Resumable": "1.0.0"}
BYTES_TYPE = "application/offset+octet-stream"
WAIT_SECONDS = 30.0


def run(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )


def begin_tus(daemon: Daemon, vfolder: str, length: int) -> str:
    answer = daemon.send(
        "POST",
        f"/v1/vfolders/{vfolder}/uploads",
        **TUS,
        Upload_Length=str(length),
        Upload_Metadata="path YQ==",
    )
    assert answer.status == 201
    return str(answer.headers["Location"])


def offset_of(daemon: Daemon, upload: str) -> int:
    return int(daemon.send("HEAD", upload, **TUS).headers["Upload-Offset"])


def wait_until(met: object, what: str) -> None:
    """Waits for a state that comes by itself; fails, rather than hangs, when it does not."""
    assert callable(met)
    deadline = time.monotonic() + WAIT_SECONDS
    while not met():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def half_a_put(daemon: Daemon, path: str, size: int) -> http.client.HTTPConnection:
    connection = daemon.connect()
    connection.putrequest("PUT", path)
    for name, value in daemon.headers(Content_Length=str(size)).items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(b"n" * (size // 2))
    return connection


# ---------------------------------------------------------------- starting


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[server]\nprot = 1\n", ["onggid.toml:2", "server.prot", "server.port"]),
        ("[server]\nport = 'x'\n", ["onggid.toml:2", "server.port", "65535"]),
        ("[log]\nlevel = 'loud'\n", ["log.level", "debug, info, warning, error"]),
        ("port = = 1\n", ["onggid.toml:1", "not TOML"]),
        ("[[volumes]]\nname = 'a'\n", ["onggid.toml:1", "backend"]),
    ],
)
def test_config_errors_name_file_key_and_remedy(
    program: str, tmp_path: Path, text: str, parts: list[str]
) -> None:
    (tmp_path / "onggid.toml").write_text(text)
    result = run(program, "--config", str(tmp_path / "onggid.toml"), "--check-config")
    assert result.returncode == 2
    for part in parts:
        assert part in result.stderr


def test_environment_errors_name_the_variable(program: str) -> None:
    result = run(program, "--check-config", ONGGI_SERVER_PORT="many")
    assert result.returncode == 2
    assert "ONGGI_SERVER_PORT" in result.stderr


def test_unknown_backend_is_told(program: str, tmp_path: Path) -> None:
    (tmp_path / "onggid.toml").write_text("[[volumes]]\nname = 'a'\nbackend = 'floppy'\n")
    result = run(
        program, "--config", str(tmp_path / "onggid.toml"), "--data", str(tmp_path / "data")
    )
    assert result.returncode != 0
    assert "floppy" in result.stderr
    assert "posix" in result.stderr


def test_check_config_knows_backends_and_profiles(program: str, tmp_path: Path) -> None:
    (tmp_path / "onggid.toml").write_text("[[volumes]]\nname = 'a'\nbackend = 'floppy'\n")
    result = run(program, "--config", str(tmp_path / "onggid.toml"), "--check-config")
    assert (result.returncode, "floppy" in result.stderr) == (2, True)
    result = run(program, "--set", "active.profiles=jax", "--check-config")
    assert (result.returncode, "jax" in result.stderr) == (2, True)


def test_socket_path_that_is_too_long_is_told(program: str, tmp_path: Path) -> None:
    data = tmp_path / ("a" * 120)
    result = run(program, "--data", str(data), "--port", "0", "--set", "active.enabled=false")
    assert result.returncode == 2
    assert "server.unix_socket" in result.stderr


def test_sample_is_a_valid_config(program: str, tmp_path: Path) -> None:
    (tmp_path / "onggid.toml").write_text(run(program, "--print-config").stdout)
    result = run(program, "--config", str(tmp_path / "onggid.toml"), "--check-config")
    assert (result.returncode, result.stdout) == (0, "the settings are fine\n")


def test_two_daemons_never_share_data(daemon: Daemon) -> None:
    result = run(daemon.program, "--data", str(daemon.data), "--port", "0")
    assert result.returncode == 1
    assert str(daemon.node.process.pid) in result.stderr
    assert "--data" in result.stderr


def test_port_in_use_is_told_with_the_remedy(daemon: Daemon, tmp_path: Path) -> None:
    result = run(daemon.program, "--data", str(tmp_path / "other"), "--port", str(daemon.node.port))
    assert result.returncode == 1
    assert str(daemon.node.port) in result.stderr
    assert "--port" in result.stderr


def test_damaged_catalog_is_told(daemon: Daemon) -> None:
    daemon.node.stop()
    (catalog,) = daemon.data.glob("catalog.sqlite")
    catalog.write_bytes(b"this is no database" * 1000)
    result = run(daemon.program, "--data", str(daemon.data), "--port", "0")
    assert result.returncode == 1
    assert "catalog.sqlite" in result.stderr


def test_idle_daemon_is_small(daemon: Daemon) -> None:
    daemon.send("GET", "/v1/volumes")
    status = Path(f"/proc/{daemon.node.process.pid}/status").read_text()
    resident_kib = int(next(line for line in status.splitlines() if "VmRSS" in line).split()[1])
    assert resident_kib <= 40 * 1024


def test_token_file_is_for_its_owner_alone(daemon: Daemon) -> None:
    assert (daemon.data / "admin.token").stat().st_mode & 0o777 == 0o600
    assert daemon.data.stat().st_mode & 0o777 == 0o700


def test_unix_socket_needs_no_token_from_the_daemons_user(daemon: Daemon) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(daemon.data / "onggid.sock"))
        connection.sendall(b"GET /v1/tenants HTTP/1.1\r\nHost: x\r\n\r\n")
        response = http.client.HTTPResponse(connection)
        response.begin()
        assert response.status == 200
        assert json.load(response)["items"][0]["name"] == "default"


def test_serves_tls(start_daemon: StartDaemon, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subject = "/CN=localhost"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", subject]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, "-addext", "subjectAltName=DNS:localhost"], check=True, stderr=-3)
    tls = (f"server.tls_certificate_file={certificate}", f"server.tls_key_file={key}")
    daemon = start_daemon("--set", tls[0], "--set", tls[1], "--set", "active.enabled=false")
    context = ssl.create_default_context(cafile=str(certificate))
    connection = http.client.HTTPSConnection("localhost", daemon.node.port, context=context)
    connection.request("GET", "/v1/volumes", headers=daemon.headers())
    assert connection.getresponse().status == 200
    connection.close()


# ---------------------------------------------------------------- stopping


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_stop_signals_end_it_well(daemon: Daemon, name: str) -> None:
    daemon.node.process.send_signal(getattr(signal, name))
    assert daemon.node.process.wait(WAIT_SECONDS) == 0
    assert not (daemon.data / "onggid.sock").exists()


def test_hangup_is_ignored(daemon: Daemon) -> None:
    daemon.node.process.send_signal(signal.SIGHUP)
    assert daemon.send("GET", "/healthz").status == 200


def test_stop_finishes_downloads_and_uploads(daemon: Daemon) -> None:
    vfolder = daemon.make_vfolder()
    files = f"/v1/vfolders/{vfolder}/files"
    content = os.urandom(64 * MIB)
    assert daemon.send("PUT", f"{files}/big?durable=false", content).status == 201

    download = daemon.connect()
    download.request("GET", f"{files}/big", headers=daemon.headers())
    response = download.getresponse()
    received = response.read(1000)
    upload = half_a_put(daemon, f"{files}/new", 2 * MIB)
    wait_until(lambda: len(daemon.staging()) == 1, "the upload has begun")

    daemon.node.process.send_signal(signal.SIGTERM)
    wait_until(lambda: refuses(daemon), "newcomers are refused")
    received += response.read()
    upload.send(b"n" * MIB)
    assert upload.getresponse().status == 201
    assert received == content
    upload.close()
    download.close()
    assert daemon.node.process.wait(WAIT_SECONDS) == 0


def refuses(daemon: Daemon) -> bool:
    try:
        return daemon.send("GET", "/healthz").status == 503
    except OSError:
        return True


# ---------------------------------------------------------------- crashing


def test_kill_during_a_put_leaves_the_old_file(daemon: Daemon) -> None:
    vfolder = daemon.make_vfolder()
    path = f"/v1/vfolders/{vfolder}/files/a"
    assert daemon.send("PUT", path, b"old").status == 201
    connection = half_a_put(daemon, path, 32 * MIB)
    wait_until(lambda: len(daemon.staging()) == 1, "the upload has begun")
    daemon.kill()
    connection.close()
    daemon.start()
    assert daemon.send("GET", path).body == b"old"
    assert daemon.staging() == []


def test_kill_during_a_resumable_upload_keeps_what_came(daemon: Daemon) -> None:
    vfolder = daemon.make_vfolder()
    content = os.urandom(8 * MIB)
    upload = begin_tus(daemon, vfolder, len(content))
    headers = {**TUS, "Content_Type": BYTES_TYPE}
    first = daemon.send("PATCH", upload, content[:MIB], **headers, Upload_Offset="0")
    assert first.status == 204
    connection = daemon.connect()
    connection.putrequest("PATCH", upload)
    all_headers = daemon.headers(
        **headers, Upload_Offset=str(MIB), Content_Length=str(len(content) - MIB)
    )
    for name, value in all_headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(content[MIB : 4 * MIB])
    daemon.kill()
    connection.close()

    daemon.start()
    offset = offset_of(daemon, upload)
    assert MIB <= offset <= 4 * MIB
    rest = daemon.send("PATCH", upload, content[offset:], **headers, Upload_Offset=str(offset))
    assert rest.status == 204
    assert daemon.send("GET", f"/v1/vfolders/{vfolder}/files/a").body == content
    assert daemon.staging() == []


def test_kill_between_many_commits_leaves_whole_files(daemon: Daemon) -> None:
    vfolder = daemon.make_vfolder()
    path = f"/v1/vfolders/{vfolder}/files/a"
    versions = {bytes([n]) * 100_000 for n in range(4)}
    daemon.send("PUT", path, next(iter(versions)))

    def write_on() -> None:
        try:
            while True:
                for version in versions:
                    daemon.send("PUT", path, version)
        except (OSError, http.client.HTTPException):
            return

    writers = [threading.Thread(target=write_on) for _ in range(3)]
    for writer in writers:
        writer.start()
    for _ in range(20):
        assert daemon.send("GET", path).body in versions
    daemon.kill()
    for writer in writers:
        writer.join()
    daemon.start()
    assert daemon.send("GET", path).body in versions
    assert daemon.staging() == []


def test_kill_during_a_delete_leaves_all_or_nothing(daemon: Daemon) -> None:
    vfolder = daemon.make_vfolder()
    for number in range(50):
        daemon.send("PUT", f"/v1/vfolders/{vfolder}/files/d/{number}?durable=false", b"x")

    def delete() -> None:
        try:
            daemon.send("DELETE", f"/v1/vfolders/{vfolder}")
        except (OSError, http.client.HTTPException):
            return

    thread = threading.Thread(target=delete)
    thread.start()
    daemon.kill()
    thread.join()
    daemon.start()
    status = daemon.send("GET", f"/v1/vfolders/{vfolder}").status
    files = list((daemon.data / "volumes/local").rglob("d/*"))
    assert (status, len(files)) in ((200, 50), (404, 0))


# ---------------------------------------------------------------- a full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, stderr=-3).returncode != 0:
        pytest.skip("needs the right to mount a tmpfs")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_full_disk_is_507_and_leaves_no_staging(daemon: Daemon, small_disk: Path) -> None:
    volume = {"name": "small", "backend": "posix", "options": {"path": str(small_disk)}}
    assert daemon.send("POST", "/v1/volumes", volume).status == 201
    vfolder = daemon.make_vfolder(volume="small")
    files = f"/v1/vfolders/{vfolder}/files"
    assert daemon.send("PUT", f"{files}/fits", b"x" * MIB).status == 201

    answer = daemon.send("PUT", f"{files}/big", os.urandom(8 * MIB))
    assert (answer.status, answer.field("code")) == (507, "storage_full")
    assert list(small_disk.glob("**/.upload/*")) == []
    assert daemon.send("GET", f"{files}/big").status == 404

    chunked = daemon.send("PUT", f"{files}/big", iter([os.urandom(MIB)] * 8))
    assert chunked.status == 507
    assert list(small_disk.glob("**/.upload/*")) == []

    # A resumable upload is told before its first byte.
    begin = daemon.send(
        "POST",
        f"/v1/vfolders/{vfolder}/uploads",
        **TUS,
        Upload_Length=str(8 * MIB),
        Upload_Metadata="path YQ==",
    )
    assert begin.status == 507
    assert list(small_disk.glob("**/.upload/*")) == []

    assert daemon.send("GET", f"{files}/fits").body == b"x" * MIB
    assert daemon.send("PUT", f"{files}/fits", b"y").status == 200


# ---------------------------------------------------------------- archives


def test_archives_go_in_and_out(daemon: Daemon) -> None:
    vfolder = daemon.make_vfolder()
    members = {f"d{n % 3}/{n}.bin": os.urandom(n * 100) for n in range(40)}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    path = f"/v1/vfolders/{vfolder}/archive/below"
    answer = daemon.send("PUT", path, packed.getvalue(), Content_Type="application/x-tar")
    assert answer.status == 200, answer.body
    assert answer.field("files") == 40
    assert answer.field("size_bytes") == sum(map(len, members.values()))

    answer = daemon.send("GET", path)
    assert answer.headers["Content-Type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(answer.body)) as archive:
        got = {m.name: archive.extractfile(m) for m in archive.getmembers() if m.isfile()}
        assert {name: file.read() for name, file in got.items() if file} == members


@pytest.mark.parametrize("name", ["../out", "/etc/out", "a/../../out"])
def test_archives_cannot_reach_out(daemon: Daemon, name: str) -> None:
    vfolder = daemon.make_vfolder()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.size = 1
        archive.addfile(info, io.BytesIO(b"x"))
    path = f"/v1/vfolders/{vfolder}/archive/"
    answer = daemon.send("PUT", path, packed.getvalue(), Content_Type="application/x-tar")
    assert answer.status == 400
    assert answer.field("code") == "invalid_argument"
