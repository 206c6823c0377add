#!/usr/bin/env python3
"""Small requests against Backend.AI's storage proxy, and what an idle daemon takes.

The peer is the real one: bench/peers/backendai.sh starts it where Python 3.13, etcd and Redis are
installed. Without it (PEER=off) its columns stay empty.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Mapping
from typing import Any

from node import TOOLS, Node
from report import ROOT, WORK, Row, interleaved, publish, seconds_of

RUNS = 3
CONNECTIONS = 16
PEER = ROOT / "bench" / "peers" / "backendai.sh"
PEER_FOLDER = WORK / "peer"
MANAGER, CLIENT = 16022, 16021
SECRET = "mgr-secret"
MIB = 1 << 20


class BackendAi:
    """The peer, driven as its manager and its clients do."""

    def __init__(self) -> None:
        subprocess.run([str(PEER), "up", str(PEER_FOLDER)], check=True)
        self.folder = f"user:{uuid.uuid4()}/{uuid.uuid4()}"
        self.call("POST", "/folder/create", {"volume": "volume1", "vfid": self.folder})
        scope, folder = self.folder.removeprefix("user:").split("/")
        digits = folder.replace("-", "")
        self.path = PEER_FOLDER / "volume1" / scope.replace("-", "")
        self.path = self.path / digits[:2] / digits[2:4] / digits[4:]

    def call(self, method: str, path: str, body: Mapping[str, object]) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{MANAGER}{path}",
            json.dumps(body).encode(),
            {"X-BackendAI-Storage-Auth-Token": SECRET, "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def request(self, method: str, path: str, body: Mapping[str, object] | None) -> bytes:
        # A route without parameters refuses a body, be it {}.
        text = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: bench\r\n"
            f"X-BackendAI-Storage-Auth-Token: {SECRET}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
        )
        return head.encode() + text

    def stop(self) -> None:
        subprocess.run([str(PEER), "down", str(PEER_FOLDER)], check=True)


def ours(node: Node, method: str, path: str, body: bytes = b"") -> bytes:
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {node.token}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def head_upload(target: str) -> bytes:
    """TUS's question how far an upload is; the signed token in it is checked by both alike."""
    return f"HEAD {target} HTTP/1.1\r\nHost: bench\r\nTus-Resumable: 1.0.0\r\n\r\n".encode()


def load(connections: int, rounds: int, *steps: tuple[int, bytes]) -> float:
    """Rounds a second."""
    command = [str(TOOLS / "http_load"), str(connections), str(rounds)]
    for number, (port, request) in enumerate(steps):
        file = WORK / f"request-{port}-{number}"
        file.write_bytes(request)
        command += [str(port), str(file)]
    return seconds_of(*command)


def compare(node: Node, peer: BackendAi | None) -> list[Row]:
    vfolder = node.new_vfolder("bench")
    base = f"/v1/vfolders/{vfolder}"
    small = os.urandom(4096)
    run = iter(range(1_000_000))

    def our_uploads() -> float:
        path = f"{base}/files/up-{next(run)}/f{{n}}"
        return load(CONNECTIONS, 3000, (node.port, ours(node, "PUT", path, small)))

    def peer_uploads() -> float:
        assert peer is not None
        path = f"up-{next(run)}-{{n}}"
        body = {"volume": "volume1", "vfid": peer.folder, "relpath": path, "size": "4096"}
        token = peer.request("POST", "/folder/file/upload", body)
        # {n} has eight digits: the request is longer than the template by five.
        length = int(token.split(b"Content-Length: ")[1].split(b"\r\n")[0]) + 5
        token = token.replace(
            f"Content-Length: {length - 5}".encode(), f"Content-Length: {length}".encode()
        )
        patch = (
            b"PATCH /upload?token={token} HTTP/1.1\r\nHost: bench\r\nTus-Resumable: 1.0.0\r\n"
            b"Upload-Offset: 0\r\nContent-Type: application/offset+octet-stream\r\n"
            b"Content-Length: 4096\r\n\r\n" + small
        )
        return load(CONNECTIONS, 400, (MANAGER, token), (CLIENT, patch))

    load(CONNECTIONS, 1000, (node.port, ours(node, "PUT", f"{base}/files/many/f{{n}}", b"x")))
    listing = (node.port, ours(node, "GET", f"{base}/entries/many?limit=1000"))
    grant = node.call(
        "POST",
        f"{base}/transfer-tokens",
        {"operation": "upload", "path": "checked", "size_bytes": 4096},
    )
    check = (node.port, head_upload(f"/v1/transfers/upload?token={grant['token']}"))
    volumes = (node.port, ours(node, "GET", "/v1/volumes"))
    measures = {
        "uploads": our_uploads,
        "listing": lambda: load(4, 400, listing),
        "checks": lambda: load(CONNECTIONS, 20000, check),
        "volumes": lambda: load(CONNECTIONS, 20000, volumes),
    }
    if peer is not None:
        (peer.path / "many").mkdir(parents=True)
        for number in range(1000):
            (peer.path / "many" / f"f{number:08}").write_bytes(b"x")
        body = {"volume": "volume1", "vfid": peer.folder, "relpath": "many"}
        peer_listing = (MANAGER, peer.request("POST", "/folder/file/list", body))
        body = {"volume": "volume1", "vfid": peer.folder, "relpath": "checked", "size": "4096"}
        token = peer.call("POST", "/folder/file/upload", body)["token"]
        peer_check = (CLIENT, head_upload(f"/upload?token={token}"))
        peer_volumes = (MANAGER, peer.request("GET", "/volumes", None))
        measures |= {
            "peer_uploads": peer_uploads,
            "peer_listing": lambda: load(4, 60, peer_listing),
            "peer_checks": lambda: load(CONNECTIONS, 2000, peer_check),
            "peer_volumes": lambda: load(CONNECTIONS, 4000, peer_volumes),
        }
    found = interleaved(RUNS, **measures)
    works = {
        "uploads": ("4 KiB uploads, 16 connections, ours durable", 10),
        "listing": ("listings of 1,000 entries", 10),
        "checks": ("token checks: offset of an upload by its signed token", 10),
        "volumes": ("the cheapest request there is: GET volumes", None),
    }
    rows = []
    for name, (work, at_least) in works.items():
        other = found.get(f"peer_{name}")
        ratio = found[name] / other if other else None
        rows.append(Row(work, found[name], other, None, "per second", ratio, at_least))
    return rows


def idle(node: Node) -> list[Row]:
    """Resident memory at rest, then with 10,000 connections that say nothing."""
    time.sleep(1)
    at_rest = node.resident_bytes() / MIB
    resource.setrlimit(resource.RLIMIT_NOFILE, (15_000, 15_000))
    request = ours(node, "GET", "/v1/version")
    sockets = []
    for _ in range(10_000):
        connection = socket.create_connection(("127.0.0.1", node.port))
        connection.sendall(request)
        connection.recv(4096)
        sockets.append(connection)
    time.sleep(1)
    with_connections = node.resident_bytes() / MIB
    for connection in sockets:
        connection.close()
    return [
        Row("daemon at rest, resident", at_rest, None, 40, "MiB", 40 / at_rest, 1),
        Row(
            "with 10,000 idle connections",
            with_connections,
            None,
            200,
            "MiB",
            200 / with_connections,
            1,
        ),
    ]


def main() -> None:
    WORK.mkdir(parents=True, exist_ok=True)
    peer = None if os.environ.get("PEER") == "off" else BackendAi()
    node = Node("active.enabled=false")
    try:
        rows = compare(node, peer)
    finally:
        node.stop()
        if peer is not None:
            peer.stop()
    node = Node()
    try:
        rows += idle(node)
    finally:
        node.stop()
    publish("daemon", rows)


if __name__ == "__main__":
    main()
