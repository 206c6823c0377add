"""`onggi://volume/vfolder/path` for everything that opens files through fsspec: pandas, datasets, …

Inside a sandboxed worker there is no network: what the task mounts is read from there, as told by
ONGGI_MOUNTS (JSON, URL prefix to path).
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from onggi._errors import InvalidArgument, NotFound, PermissionDenied, raise_for_status

if TYPE_CHECKING:
    from onggi import _api as api
    from onggi._client import Client
    from onggi._vfolder import VFolder

PROTOCOL = "onggi"
MOUNTS_VARIABLE = "ONGGI_MOUNTS"
BLOCK_BYTES = 4 << 20

Info = dict[str, Any]


def _mounts() -> dict[str, str]:
    """URL prefixes without the scheme, and where they are mounted."""
    text = os.environ.get(MOUNTS_VARIABLE, "")
    prefix = f"{PROTOCOL}://"
    found: dict[str, str] = json.loads(text) if text else {}
    return {url.removeprefix(prefix).strip("/"): path for url, path in found.items()}


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


class OnggiFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Paths are "volume/vfolder/path"; above them are the volumes and their vfolders."""

    protocol = PROTOCOL
    root_marker = ""
    cachable = True

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        profile: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._settings = (url, token, profile)
        self._made: Client | None = None
        self._vfolders: dict[tuple[str, str], VFolder] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        from onggi._client import secrets_stay

        url, token, profile = self._settings
        return (type(self), (url, None if secrets_stay() else token, profile))

    @property
    def client(self) -> Client:
        if self._made is None:
            from onggi._client import connect

            self._made = connect(*self._settings)
        return self._made

    # ------------------------------------------------------------ where a path leads

    def _local(self, path: str) -> Path | None:
        """Where a path is mounted in this sandbox, if it is."""
        for prefix, place in _mounts().items():
            if path == prefix or path.startswith(f"{prefix}/"):
                return Path(place) / path[len(prefix) :].strip("/")
        return None

    def _split(self, path: str) -> tuple[VFolder, str]:
        """The vfolder and the path in it."""
        parts = [part for part in self._strip_protocol(path).split("/") if part]
        if len(parts) < 2:
            raise InvalidArgument(f"'{path}' names no vfolder: onggi://volume/vfolder/path")
        key = (parts[0], parts[1])
        if key not in self._vfolders:
            self._vfolders[key] = self.client.vfolder(f"{key[0]}/{key[1]}")
        return self._vfolders[key], "/".join(parts[2:])

    def _writable(self, path: str) -> tuple[VFolder, str]:
        path = self._strip_protocol(path)
        if self._local(path) is not None:
            raise PermissionDenied(f"onggi://{path} is mounted read-only here")
        vfolder, inner = self._split(path)
        if not inner:
            raise InvalidArgument(f"onggi://{path} is a whole vfolder")
        return vfolder, inner

    # ------------------------------------------------------------ looking

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        infos = list(self._list(path))
        return infos if detail else [info["name"] for info in infos]

    def _list(self, path: str) -> Iterator[Info]:
        local = self._local(path)
        if local is not None:
            yield from _list_local(local, path)
        elif path.count("/") >= 1:
            yield from self._list_vfolder(path)
        elif path:
            for vfolder in self.client.vfolders(path):
                yield _directory(f"{path}/{vfolder.name}")
        else:
            for volume in self.client.volumes():
                yield _directory(volume.name)

    def _list_vfolder(self, path: str) -> Iterator[Info]:
        vfolder, inner = self._split(path)
        if inner and (entry := vfolder.stat(inner)).kind != "directory":
            yield _info(path, entry)
            return
        for entry in vfolder.ls(inner):
            yield _info(f"{path}/{entry.path}", entry)

    def info(self, path: str, **_: Any) -> Info:
        path = self._strip_protocol(path)
        local = self._local(path)
        if local is not None:
            return _info_local(local, path)
        if path.count("/") < 1:
            return _directory(path)
        vfolder, inner = self._split(path)
        return _info(path, vfolder.stat(inner)) if inner else _directory(path)

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **options: Any,
    ) -> Any:
        """All files below, in one paged request instead of one per directory."""
        path = self._strip_protocol(path)
        plain = maxdepth is None and path.count("/") >= 1 and self._local(path) is None
        if not plain or not self.isdir(path):
            return super().find(path, maxdepth, withdirs, detail, **options)
        vfolder, inner = self._split(path)
        infos = [_info(f"{path}/{e.path}", e) for e in vfolder.ls(inner, recursive=True)]
        found = {i["name"]: i for i in infos if withdirs or i["type"] != "directory"}
        if withdirs:
            found = {path: _directory(path), **found}
        return found if detail else sorted(found)

    def created(self, path: str) -> datetime:
        return self.modified(path)

    def modified(self, path: str) -> datetime:
        changed: datetime = self.info(path)["mtime"]
        return changed

    def ukey(self, path: str) -> str:
        """Another value whenever the content may have changed."""
        info = self.info(path)
        return str(info.get("etag") or (info["size"], info.get("mtime")))

    # ------------------------------------------------------------ bytes

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        path = self._strip_protocol(path)
        local = self._local(path)
        if mode == "rb":
            if local is not None:
                return local.open("rb")
            size = block_size if isinstance(block_size, int) else BLOCK_BYTES
            return OnggiFile(self, path, block_size=size, cache_options=cache_options, **options)
        vfolder, inner = self._writable(path)
        match mode:
            case "wb":
                return vfolder.open(inner, "wb")
            case "xb":
                if vfolder.exists(inner):
                    raise FileExistsError(path)
                return vfolder.open(inner, "wb")
        raise InvalidArgument(f"mode '{mode}' is not supported: files are written whole")

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        path = self._strip_protocol(path)
        local = self._local(path)
        if local is not None:
            return local.read_bytes()[start:end]
        vfolder, inner = self._split(path)
        if start is None and end is None:
            return vfolder.read_bytes(inner)
        size = vfolder.stat(inner).size_bytes
        first, last, _step = slice(start, end).indices(size)
        return _read_range(vfolder, inner, first, last)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        vfolder, inner = self._writable(path)
        if mode == "create" and vfolder.exists(inner):
            raise FileExistsError(path)
        vfolder.write_bytes(inner, bytes(value))

    def put_file(self, lpath: str, rpath: str, callback: Any = None, **_: Any) -> None:
        vfolder, inner = self._writable(rpath)
        if Path(lpath).is_dir():
            vfolder.mkdir(inner)
            return
        vfolder.upload(lpath, inner, progress=False)
        _report(callback, lpath)

    def get_file(self, rpath: str, lpath: str, callback: Any = None, **options: Any) -> None:
        path = self._strip_protocol(rpath)
        if self._local(path) is not None:
            super().get_file(rpath, lpath, callback=callback, **options)
            return
        if self.isdir(path):
            Path(lpath).mkdir(parents=True, exist_ok=True)
            return
        vfolder, inner = self._split(path)
        vfolder.download(inner, lpath, progress=False)
        _report(callback, lpath)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        if self.isdir(path1):
            self.makedirs(path2, exist_ok=True)
            return
        self.pipe_file(path2, self.cat_file(path1))

    # ------------------------------------------------------------ names

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        vfolder, inner = self._writable(path)
        vfolder.mkdir(inner, parents=create_parents)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        if path.count("/") == 1 and self.exists(path):
            return
        vfolder, inner = self._writable(path)
        if not exist_ok and vfolder.exists(inner):
            raise FileExistsError(path)
        vfolder.mkdir(inner)

    def rmdir(self, path: str) -> None:
        vfolder, inner = self._writable(path)
        vfolder.remove(inner)

    def rm_file(self, path: str) -> None:
        vfolder, inner = self._writable(path)
        vfolder.remove(inner)

    def rm(
        self, path: str | list[str], recursive: bool = False, maxdepth: int | None = None
    ) -> None:
        if not isinstance(path, str) or maxdepth is not None or "*" in path:
            super().rm(path, recursive=recursive, maxdepth=maxdepth)
            return
        vfolder, inner = self._writable(path)
        vfolder.remove(inner, recursive=recursive)

    def mv(self, path1: str, path2: str, recursive: bool = False, **options: Any) -> None:
        source, inner1 = self._writable(path1)
        destination, inner2 = self._writable(path2)
        if source.id == destination.id:
            parent = _parent(inner2)
            if parent:
                source.mkdir(parent)
            source.move(inner1, inner2, replace=True)
            return
        self.copy(path1, path2, recursive=recursive, **options)
        self.rm(path1, recursive=recursive)


class OnggiFile(AbstractBufferedFile):  # type: ignore[misc]  # fsspec has no types
    """A file read by ranges through a cache of blocks. Fails if it changes meanwhile."""

    def __init__(self, fs: OnggiFileSystem, path: str, **options: Any) -> None:
        self._vfolder, self._inner = fs._split(path)
        entry = self._vfolder.stat(self._inner)
        if entry.kind != "file":
            raise IsADirectoryError(path)
        self._etag = entry.etag
        super().__init__(fs, path, mode="rb", size=entry.size_bytes, **options)
        self.details = _info(path, entry)

    def _fetch_range(self, start: int, end: int) -> bytes:
        return _read_range(self._vfolder, self._inner, start, end, self._etag)


def _read_range(vfolder: VFolder, path: str, start: int, end: int, etag: str = "") -> bytes:
    if end <= start:
        return b""
    headers = {"Range": f"bytes={start}-{end - 1}"}
    if etag:
        headers["If-Match"] = f'"{etag}"'
    status, answer, body = vfolder.client._http.request(
        "GET", vfolder.target("files", path), None, headers
    )
    if status == 416:
        return b""
    raise_for_status(status, body)
    if etag and answer.get("etag") != f'"{etag}"':
        raise OSError(f"{vfolder.url}/{path} changed while it was read")
    return body if status == 206 else body[start:end]


def _directory(path: str) -> Info:
    return {"name": path, "size": 0, "type": "directory"}


def _info(path: str, entry: api.Entry) -> Info:
    return {
        "name": path,
        "size": entry.size_bytes if entry.kind == "file" else 0,
        "type": "file"
        if entry.kind == "file"
        else "directory"
        if entry.kind == "directory"
        else "other",
        "mtime": entry.modified,
        "mode": entry.mode,
        "etag": entry.etag,
        "islink": entry.kind == "symlink",
    }


def _info_local(local: Path, path: str) -> Info:
    try:
        status = local.lstat()
    except FileNotFoundError:
        raise NotFound(f"onggi://{path} is not there") from None
    is_directory = stat.S_ISDIR(status.st_mode)
    is_file = stat.S_ISREG(status.st_mode)
    return {
        "name": path,
        "size": status.st_size if is_file else 0,
        "type": "directory" if is_directory else "file" if is_file else "other",
        "mtime": datetime.fromtimestamp(status.st_mtime, UTC),
        "mode": stat.S_IMODE(status.st_mode),
        "islink": stat.S_ISLNK(status.st_mode),
    }


def _list_local(local: Path, path: str) -> Iterator[Info]:
    if not local.is_dir():
        yield _info_local(local, path)
        return
    for name in sorted(os.listdir(local)):
        yield _info_local(local / name, f"{path}/{name}")


def _report(callback: Any, local: str) -> None:
    if callback is not None:
        size = Path(local).stat().st_size
        callback.set_size(size)
        callback.absolute_update(size)


def register() -> None:
    """Makes fsspec know the protocol where the package's entry point is not installed."""
    fsspec.register_implementation(PROTOCOL, OnggiFileSystem, clobber=True)


register()
