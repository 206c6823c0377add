"""A vfolder: a folder that a tenant owns on a volume."""

from __future__ import annotations

import difflib
import io
import os
import shutil
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, cast, overload
from urllib.parse import quote

from onggi import _api as api
from onggi._client import SCHEME, Client
from onggi._errors import InvalidArgument, NotFound, OnggiError, make_error, raise_for_status
from onggi._native import xxh3

if TYPE_CHECKING:
    from onggi._native import Progress, Summary

READ_BUFFER_BYTES = 1 << 20
SPOOL_BYTES = 8 << 20
JOBS = 4


def no_such_vfolder(client: Client, volume: str | None, name: str) -> NotFound:
    """The error for a name that isn't there, with what may have been meant."""
    where = f" on volume '{volume}'" if volume else ""
    close = difflib.get_close_matches(name, [f.name for f in client.vfolders(volume)], n=1)
    hint = (
        f"did you mean '{close[0]}'?"
        if close
        else "create_vfolder() makes one, vfolders() lists those there are"
    )
    return NotFound(f"no vfolder '{name}'{where}; {hint}")


@dataclass(frozen=True)
class TransferResult:
    """What a transfer did. Truthy when every file went through."""

    files: int
    size_bytes: int
    files_skipped: int
    bytes_resumed: int
    warnings: list[str]
    failures: list[tuple[str, OnggiError]]

    def __bool__(self) -> bool:
        return not self.failures

    @classmethod
    def from_summary(cls, summary: Summary) -> TransferResult:
        failures = [(path, make_error(code, text)) for path, code, text in summary["failures"]]
        return cls(
            summary["files"],
            summary["size_bytes"],
            summary["files_skipped"],
            summary["bytes_resumed"],
            summary["warnings"],
            failures,
        )


class _Bar:
    """A tqdm bar in bytes that also counts files; silent where nobody looks."""

    def __init__(self, what: str, wanted: bool | None) -> None:
        from tqdm.auto import tqdm

        # disable=None: only on a terminal (or in a notebook).
        self._bar = tqdm(
            desc=what, unit="B", unit_scale=True, unit_divisor=1024, disable=_disable(wanted)
        )

    def __enter__(self) -> Progress:
        return self._update

    def __exit__(self, *exception: object) -> None:
        self._bar.close()

    def _update(self, done: int, total: int, files: int, files_total: int, current: str) -> None:
        self._bar.total = total
        if files_total > 1:
            self._bar.set_postfix_str(f"{files}/{files_total} files", refresh=False)
        self._bar.update(done - self._bar.n)


def _disable(wanted: bool | None) -> bool | None:
    return None if wanted is None else not wanted


class RemoteFile(io.RawIOBase):
    """A file in a vfolder, read by ranges. Fails if the file changes meanwhile."""

    def __init__(self, vfolder: VFolder, path: str) -> None:
        super().__init__()
        entry = vfolder.stat(path)
        if entry.kind != "file":
            raise InvalidArgument(f"{vfolder.url}/{path} is a {entry.kind}, not a file")
        self._client = vfolder.client
        self._target = vfolder.target("files", path)
        self._etag = f'"{entry.etag}"'
        self._size = entry.size_bytes
        self._at = 0
        self.name = f"{vfolder.url}/{path}"

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise InvalidArgument("before the start of the file")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        count = min(len(view), self._size - self._at)
        if count <= 0:
            return 0
        headers = {"Range": f"bytes={self._at}-{self._at + count - 1}", "If-Match": self._etag}
        status, answer, body, got = self._client._http.request_into(
            self._target, view[:count], headers
        )
        raise_for_status(status, body)
        if answer.get("etag") != self._etag:
            raise make_error("conflict", f"{self.name} changed while it was read")
        self._at += got
        return got

    def readall(self) -> bytes:
        buffer = bytearray(max(0, self._size - self._at))
        filled = 0
        while filled < len(buffer) and (got := self.readinto(memoryview(buffer)[filled:])):
            filled += got
        return bytes(buffer[:filled])


class _SpooledWriter(io.BufferedIOBase):
    """Collects what is written (in memory, then in a file) and uploads it when closed."""

    def __init__(self, vfolder: VFolder, path: str) -> None:
        super().__init__()
        self._vfolder = vfolder
        self._path = path
        self._spool: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES)
        self.name = f"{vfolder.url}/{path}"

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._spool.write(data)

    def tell(self) -> int:
        return self._spool.tell()

    def discard(self) -> None:
        """Closes without uploading."""
        self._spool.close()
        super().close()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        # A block that failed must not leave half a file under the name.
        if kind is not None:
            self.discard()
        else:
            self.close()

    def close(self) -> None:
        if self.closed:
            return
        try:
            self._spool.seek(0)
            self._send()
        finally:
            self._spool.close()
            super().close()

    def _send(self) -> None:
        data = self._spool.read(SPOOL_BYTES + 1)
        if len(data) <= SPOOL_BYTES:
            self._vfolder.write_bytes(self._path, data)
            return
        with tempfile.NamedTemporaryFile(prefix="onggi-") as whole:
            whole.write(data)
            shutil.copyfileobj(self._spool, whole, READ_BUFFER_BYTES)
            whole.flush()
            self._vfolder.upload(whole.name, self._path, progress=False)


class VFolder:
    """A vfolder and what is in it. Paths are relative to it, with slashes."""

    def __init__(self, client: Client, record: api.VFolder) -> None:
        self.client = client
        self._record = record

    def __repr__(self) -> str:
        return f"<onggi.VFolder {self.url} ({self.permission})>"

    @property
    def id(self) -> str:
        return self._record.id

    @property
    def name(self) -> str:
        return self._record.name

    @property
    def volume(self) -> str:
        return self._record.volume

    @property
    def permission(self) -> api.Permission:
        return self._record.permission

    @property
    def created(self) -> datetime:
        return self._record.created

    @property
    def url(self) -> str:
        """`onggi://volume/name`."""
        return f"{SCHEME}{self.volume}/{self.name}"

    def target(self, what: str, path: str = "") -> str:
        """The API's path for `what` ("files", "entries", …) of a path in this vfolder."""
        return f"/v1/vfolders/{self.id}/{what}/{quote(path.strip('/'))}"

    # ------------------------------------------------------------ looking

    def ls(self, path: str = "", *, recursive: bool = False) -> list[api.Entry]:
        """What a directory holds; paths are relative to it."""
        query = {"recursive": "true"} if recursive else {}
        items = self.client.call_all(self.target("entries", path), **query)
        return [api.Entry.from_json(item) for item in items]

    def stat(self, path: str) -> api.Entry:
        return api.Entry.from_json(self.client.call("GET", self.target("stat", path)))

    def exists(self, path: str) -> bool:
        try:
            self.stat(path)
        except NotFound:
            return False
        return True

    def usage(self) -> api.Usage:
        """Exact bytes and counts, by walking."""
        return api.Usage.from_json(self.client.call("GET", f"/v1/vfolders/{self.id}/usage"))

    # ------------------------------------------------------------ bytes

    @overload
    def open(self, path: str, mode: Literal["rb"] = "rb") -> io.BufferedReader: ...
    @overload
    def open(self, path: str, mode: Literal["wb"]) -> io.BufferedIOBase: ...
    @overload
    def open(self, path: str, mode: Literal["r", "w"]) -> io.TextIOWrapper: ...
    def open(
        self, path: str, mode: str = "rb"
    ) -> io.BufferedReader | io.BufferedIOBase | io.TextIOWrapper:
        """A file object. What is written becomes visible, whole, when the file is closed."""
        match mode:
            case "rb":
                return io.BufferedReader(RemoteFile(self, path), READ_BUFFER_BYTES)
            case "r":
                return io.TextIOWrapper(self.open(path, "rb"), encoding="utf-8")
            case "wb":
                return _SpooledWriter(self, path)
            case "w":
                return io.TextIOWrapper(cast(IO[bytes], self.open(path, "wb")), encoding="utf-8")
        raise InvalidArgument(f"mode '{mode}' is not one of rb, wb, r, w")

    def read_bytes(self, path: str) -> bytes:
        status, _, body = self.client._http.request("GET", self.target("files", path))
        raise_for_status(status, body)
        return body

    def write_bytes(self, path: str, data: bytes, *, durable: bool = True) -> api.Entry:
        """Replaces a file, whole or not at all; the daemon verifies a checksum before."""
        headers = {
            "Content-Type": "application/octet-stream",
            "Onggi-Checksum": f"xxh3={xxh3(data):016x}",
        }
        target = self.target("files", path) + ("" if durable else "?durable=false")
        status, _, body = self.client._http.request("PUT", target, data, headers)
        raise_for_status(status, body)
        return api.Entry.from_json(_json(body))

    def upload(
        self,
        local: str | os.PathLike[str],
        remote: str = "",
        *,
        jobs: int = JOBS,
        verify: bool = False,
        force: bool = False,
        progress: bool | None = None,
    ) -> TransferResult:
        """Sends a file, or what is in a folder, to the path `remote`.

        Goes on where an earlier attempt stopped; files that are there already are skipped unless
        `force`. `verify` reads everything back at the end and compares checksums.
        `progress`: a bar always (True), never (False) or where somebody looks (None).
        """
        source = Path(local)
        tree = source.is_dir()
        if not tree and (not remote or remote.endswith("/")):
            remote = remote + source.name
        with _Bar(f"{source.name or source} → {self.name}", progress) as report:
            summary = self.client._http.native.upload(
                str(source),
                self.id,
                remote.strip("/"),
                tree=tree,
                jobs=jobs,
                verify=verify,
                force=force,
                durable=True,
                progress=report,
            )
        return TransferResult.from_summary(summary)

    def download(
        self,
        remote: str = "",
        local: str | os.PathLike[str] = ".",
        *,
        jobs: int = JOBS,
        verify: bool = False,
        force: bool = False,
        progress: bool | None = None,
    ) -> TransferResult:
        """Fetches a file, or what is in a directory, to the path `local`. As `upload`."""
        tree = not remote.strip("/") or self.stat(remote).kind == "directory"
        place = Path(local)
        if not tree and place.is_dir():
            place = place / remote.rstrip("/").rsplit("/", 1)[-1]
        with _Bar(f"{self.name} → {place.name or place}", progress) as report:
            summary = self.client._http.native.download(
                self.id,
                remote.strip("/"),
                str(place),
                tree=tree,
                jobs=jobs,
                verify=verify,
                force=force,
                durable=True,
                progress=report,
            )
        return TransferResult.from_summary(summary)

    # ------------------------------------------------------------ names

    def mkdir(self, path: str, *, parents: bool = True) -> api.Entry:
        query = "?parents=true" if parents else ""
        made = self.client.call("POST", self.target("directories", path) + query)
        return api.Entry.from_json(made)

    def move(self, source: str, destination: str, *, replace: bool = False) -> api.Entry:
        """Renames or moves within the vfolder, in one step."""
        body = {"from": source, "to": destination, "replace": replace}
        return api.Entry.from_json(self.client.call("POST", f"/v1/vfolders/{self.id}/moves", body))

    def remove(self, path: str, *, recursive: bool = False) -> None:
        query = "?recursive=true" if recursive else ""
        self.client.call("DELETE", self.target("files", path) + query)

    def rename(self, name: str) -> None:
        """Gives the vfolder another name; nothing moves on the disk."""
        answer = self.client.call("PATCH", f"/v1/vfolders/{self.id}", {"name": name})
        self._record = api.VFolder.from_json(answer)

    def delete(self) -> None:
        """Removes the vfolder and everything in it."""
        self.client.call("DELETE", f"/v1/vfolders/{self.id}")

    # ------------------------------------------------------------ sharing

    def shares(self) -> list[api.Share]:
        answer = self.client.call("GET", f"/v1/vfolders/{self.id}/shares")
        return [api.Share.from_json(share) for share in answer["items"]]

    def share(
        self, tenant: str, permission: Literal["read_only", "read_write"] = "read_only"
    ) -> api.Share:
        """Lets another tenant (id or name) use it."""
        target = f"/v1/vfolders/{self.id}/shares/{quote(tenant, safe='')}"
        return api.Share.from_json(self.client.call("PUT", target, {"permission": permission}))

    def unshare(self, tenant: str) -> None:
        self.client.call("DELETE", f"/v1/vfolders/{self.id}/shares/{quote(tenant, safe='')}")


def _json(body: bytes) -> dict[str, Any]:
    import json

    return cast(dict[str, Any], json.loads(body))
