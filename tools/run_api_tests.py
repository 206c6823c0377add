#!/usr/bin/env python3
"""Runs tests/api/*.test against a real onggid on a free port with data of its own.

    tools/run_api_tests.py PATH_OF_ONGGID [SCRIPT...]

A script is pairs of lines, a request and what is expected of its answer:

    put  /v1/vfolders/$vfolder/files/a  body=fill(4KiB,seed=1)
    ---- 201  etag=$first  .size_bytes=4096

Request:  method, path, then name=value each: body, json, as (a token, or none) or else a header.
Answer:   status, then name=value each: .field.of.json, body, or else a header. A value may be
          $name (set when it is not yet known), * (present), - (absent), ~regular expression.
Values:   "quoted", $name, fill(4KiB,seed=1), b64(text), sha1(value), hex(00ff).
`raw "bytes"` instead of a request sends just these bytes. `let name=value` sets a variable.
Known at the start of each script: $admin, $alice and $bob (tokens of three tenants), $bob_tenant,
$vfolder (alice's, on the volume local), $stranger (a vfolder of bob's).
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20}
TIMEOUT_SECONDS = 30


class Failure(Exception):
    """What a script expected and did not get."""


def fill(text: str) -> bytes:
    """`4KiB,seed=1` as that many bytes, the same ones every time."""
    found = re.fullmatch(r"(\d+)(\w*)(?:,seed=(\d+))?", text)
    if not found or found[2] not in UNITS:
        raise Failure(f"fill({text}) is not understood")
    return random.Random(int(found[3] or 0)).randbytes(int(found[1]) * UNITS[found[2]])


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def field(self, path: str) -> Any:
        """The value at .a.b.0 of the JSON body, or None."""
        try:
            value = json.loads(self.body)
            for part in path.strip(".").split("."):
                value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
        return value


@dataclass
class Script:
    """One script being run."""

    port: int
    variables: dict[str, str] = field(default_factory=dict)
    answer: Answer | None = None

    def value(self, text: str) -> bytes:
        """A value with its variables and functions replaced."""
        if call := re.fullmatch(r"(fill|b64|sha1|hex)\((.*)\)", text, re.DOTALL):
            name, inner = call[1], call[2]
            if name == "fill":
                return fill(inner)
            if name == "hex":
                return bytes.fromhex(inner)
            data = self.value(inner)
            return base64.b64encode(data if name == "b64" else hashlib.sha1(data).digest())
        return self.text(text).encode()

    def text(self, text: str) -> str:
        def known(found: re.Match[str]) -> str:
            if found[1] not in self.variables:
                raise Failure(f"${found[1]} is not set")
            return self.variables[found[1]]

        # A value inside a header may be a call too: Upload-Metadata: path b64(a.bin).
        text = re.sub(r"\$(\w+)", known, text)
        return re.sub(
            r"(?:b64|sha1)\((?:[^()]|\([^()]*\))*\)", lambda m: self.value(m[0]).decode(), text
        )

    def run(self, path: Path) -> int:
        steps = 0
        for number, line in enumerate(path.read_text().splitlines(), 1):
            words = shlex.split(line, comments=True)
            if not words:
                continue
            try:
                self.step(words)
            except (Failure, OSError, http.client.HTTPException) as error:
                raise Failure(f"{path.relative_to(ROOT)}:{number}: {error}") from error
            steps += words[0] == "----"
        return steps

    def step(self, words: list[str]) -> None:
        if words[0] == "----":
            self.expect(int(words[1]), words[2:])
        elif words[0] == "let":
            for word in words[1:]:
                name, _, value = word.partition("=")
                self.variables[name] = self.value(value).decode()
        elif words[0] == "raw":
            self.answer = self.send_raw(
                words[1].encode().decode("unicode_escape").encode("latin-1")
            )
        else:
            self.answer = self.send(words[0].upper(), self.text(words[1]), words[2:])

    def send(self, method: str, path: str, words: list[str]) -> Answer:
        headers: dict[str, str] = {}
        body: bytes | None = None
        token = self.variables["alice"]
        for word in words:
            name, _, value = word.partition("=")
            if name == "body":
                body = self.value(value)
            elif name == "json":
                body = self.text(value).encode()
                headers.setdefault("Content-Type", "application/json")
            elif name == "as":
                token = "" if value == "none" else self.text(value)
            else:
                headers[name] = self.text(value)
        if token:
            headers.setdefault("Authorization", f"Bearer {token}")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_SECONDS)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def send_raw(self, data: bytes) -> Answer:
        with socket.create_connection(("127.0.0.1", self.port), TIMEOUT_SECONDS) as connection:
            connection.sendall(data)
            response = http.client.HTTPResponse(connection)
            response.begin()
            return Answer(response.status, response.headers, response.read())

    def expect(self, status: int, words: list[str]) -> None:
        answer = self.answer
        if answer is None:
            raise Failure("there is no answer yet")
        if answer.status != status:
            raise Failure(f"status {answer.status}, expected {status}: {answer.body[:500]!r}")
        for word in words:
            name, _, wanted = word.partition("=")
            self.compare(name, wanted, answer)

    def compare(self, name: str, wanted: str, answer: Answer) -> None:
        if name == "body":
            if answer.body != self.value(wanted):
                raise Failure(f"body is {answer.body[:200]!r}, expected {wanted}")
            return
        got = answer.field(name) if name.startswith(".") else answer.headers.get(name)
        shown = got if isinstance(got, str) or got is None else json.dumps(got)
        if wanted in ("*", "-"):
            if (shown is None) != (wanted == "-"):
                raise Failure(f"{name} is {shown!r}, expected {wanted}")
        elif wanted.startswith("~"):
            if shown is None or not re.search(wanted[1:], shown):
                raise Failure(f"{name} is {shown!r}, expected to match {wanted[1:]}")
        elif wanted.startswith("$") and wanted[1:] not in self.variables:
            if shown is None:
                raise Failure(f"{name} is absent")
            self.variables[wanted[1:]] = shown
        elif shown != self.text(wanted):
            raise Failure(f"{name} is {shown!r}, expected {self.text(wanted)!r}")


@dataclass
class Node:
    """A running onggid."""

    process: subprocess.Popen[str]
    data: Path
    port: int = 0

    @classmethod
    def start(cls, program: str, data: Path, *arguments: str) -> Node:
        log = (data.parent / "onggid.log").open("w")
        command = [program, "--data", str(data), "--port", "0", "--set", "log.level=debug"]
        process = subprocess.Popen(
            [*command, *arguments], stdout=subprocess.PIPE, stderr=log, text=True
        )
        node = cls(process, data)
        assert process.stdout is not None
        greeting = process.stdout.readline()
        found = re.search(r"://[^ ]*:(\d+)", greeting)
        if not found:
            process.wait(TIMEOUT_SECONDS)
            raise Failure(f"onggid did not start: {(data.parent / 'onggid.log').read_text()}")
        node.port = int(found[1])
        return node

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(TIMEOUT_SECONDS) != 0:
            raise Failure(f"onggid ended with {self.process.returncode}")

    def fresh_script(self, number: int) -> Script:
        script = Script(self.port, {"admin": (self.data / "admin.token").read_text().strip()})
        script.variables["alice"] = script.variables["admin"]
        for name in ("alice", "bob"):
            tenant = f"{name}-{number}"
            for line in (
                f'post /v1/tenants as=$admin json=\'{{"name":"{tenant}"}}\'',
                f"---- 201 .id=${name}_tenant",
                f'post /v1/tokens as=$admin json=\'{{"name":"test","tenant":"{tenant}"}}\'',
                f"---- 201 .token=${name}_token",
            ):
                script.step(shlex.split(line))
        script.variables["alice"] = script.variables["alice_token"]
        script.variables["bob"] = script.variables["bob_token"]
        for line in (
            'post /v1/vfolders json=\'{"volume":"local","name":"given"}\'',
            "---- 201 .id=$vfolder",
            'post /v1/vfolders as=$bob json=\'{"volume":"local","name":"given"}\'',
            "---- 201 .id=$stranger",
        ):
            script.step(shlex.split(line))
        return script


def secrets_in(log: str, scripts: list[Script]) -> list[str]:
    """Tokens that the daemon's log shows, whole or by their secret part; there must be none."""
    seen = [value for script in scripts for value in script.variables.values()]
    secrets = [v.split("_", 2)[2] for v in seen if re.fullmatch(r"onggi_[0-9a-f]{16}_.{43}", v)]
    secrets += [v.rsplit(".", 1)[1] for v in seen if re.fullmatch(r"eyJ[^.]+\.[^.]+\.[^.]+", v)]
    return sorted({secret for secret in secrets if secret in log})


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    paths = [Path(p).resolve() for p in sys.argv[2:]] or sorted((ROOT / "tests/api").glob("*.test"))
    failures = steps = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="onggi-api-") as folder:
        node = Node.start(sys.argv[1], Path(folder) / "data")
        scripts: list[Script] = []
        try:
            for number, path in enumerate(paths):
                try:
                    scripts.append(node.fresh_script(number))
                    steps += scripts[-1].run(path)
                except Failure as failure:
                    failures += 1
                    print(f"FAILED {failure}")
        finally:
            node.stop()
        for secret in secrets_in((Path(folder) / "onggid.log").read_text(), scripts):
            failures += 1
            print(f"FAILED the log shows the secret {secret}")
    seconds = time.monotonic() - began
    print(f"{len(paths)} scripts, {steps} answers, {failures} failures, {seconds:.1f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
