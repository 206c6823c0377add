"""What is sent to a node: the pickled work, and which vfolders it will find at which paths."""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import cloudpickle

from onggi._client import SCHEME, Client, RemotePath, without_secrets
from onggi._errors import OnggiError
from onggi._filesystem import OnggiFileSystem
from onggi._vfolder import VFolder
from onggi.offload.failures import CannotShip

# Where a vfolder that is named by its URL lies inside the sandbox.
URL_ROOT = "/onggi"

_URL = re.compile(rb"onggi://[^\x00-\x20\x7f-\xff\"'<>|\\]+")


@dataclass(frozen=True)
class Mount:
    url: str  # onggi://volume/vfolder
    vfolder: VFolder
    path: str


@dataclass
class Shipment:
    payload: bytes
    mounts: list[Mount] = field(default_factory=list)
    data_is_local: bool = True

    def epoch_bytes(self) -> int:
        """What an epoch reads: the vfolders' size, or that of what is pickled."""
        return len(self.payload) + sum(m.vfolder.usage().size_bytes for m in self.mounts)

    def spec(self) -> dict[str, Any]:
        return {
            "mounts": [{"vfolder": str(m.vfolder.id), "path": m.path} for m in self.mounts],
            "cwd": os.getcwd(),
            "env": {"ONGGI_MOUNTS": json.dumps({m.url: m.path for m in self.mounts})},
        }


def pack(work: Mapping[str, Any], data: Mapping[str, str], client: Client) -> Shipment:
    """Pickles `work` and finds its data: vfolders that it names, local paths by `data`."""
    payload = _pickle(work)
    mounts = [_mapped(path, url, client) for path, url in data.items()]
    named = {mount.url for mount in mounts}
    urls = _urls_in(payload) | _bare_paths_in(payload, client)
    for url in sorted(urls - named):
        remote = RemotePath.parse(url)
        path = f"{URL_ROOT}/{remote.volume}/{remote.vfolder}"
        mounts.append(Mount(url, _find(client, url), path))
    local = not urls and all(os.path.exists(path) for path in data)
    return Shipment(payload, mounts, local)


def _mapped(path: str, url: str, client: Client) -> Mount:
    remote = RemotePath.parse(url)
    if remote.path:
        raise CannotShip(f"data[{path!r}] must name a whole vfolder, not '{remote.path}' in it")
    return Mount(str(remote), _find(client, url), os.path.abspath(path))


def _find(client: Client, url: str) -> VFolder:
    try:
        return client.vfolder(url)
    except OnggiError as error:
        raise CannotShip(f"{url}: {error}") from error


def _urls_in(payload: bytes) -> set[str]:
    """The vfolders that texts in a pickle name, as onggi://volume/vfolder."""
    if SCHEME.encode() not in payload:
        return set()
    found = set()
    for match in set(_URL.findall(payload)):
        parts = match.decode("ascii").removeprefix(SCHEME).split("/")
        if len(parts) >= 2 and all(parts[:2]):
            found.add(f"{SCHEME}{parts[0]}/{parts[1]}")
    return found


def _bare_paths_in(payload: bytes, client: Client) -> set[str]:
    """The caller's vfolders that texts name as volume/vfolder, as paths from the file system's own
    find() and glob() do, in a pickle that holds such a file system."""
    if OnggiFileSystem.__name__.encode() not in payload:
        return set()
    names = (f"{vfolder.volume}/{vfolder.name}" for vfolder in client.vfolders())
    return {
        SCHEME + name
        for name in names
        if re.search(re.escape(name.encode()) + rb"(?![A-Za-z0-9._-])", payload)
    }


def _pickle(work: Mapping[str, Any]) -> bytes:
    with _user_modules_by_value(), without_secrets():
        try:
            pickled: bytes = cloudpickle.dumps(dict(work), protocol=5)
            return pickled
        except Exception as error:
            part = _culprit(work) or "the loader"
            raise CannotShip(f"{part} cannot be pickled: {error}") from error


def _culprit(work: Mapping[str, Any]) -> str | None:
    for name, value in work.items():
        try:
            cloudpickle.dumps(value, protocol=5)
        except Exception:
            kind = type(value)
            return f"{name} (a {kind.__module__}.{kind.__qualname__})"
    return None


@contextmanager
def _user_modules_by_value() -> Iterator[None]:
    """The node has installed packages but not the user's own files: those travel whole."""
    registered = []
    for module in list(sys.modules.values()):
        if (
            _is_users_own(module)
            and module.__name__ not in cloudpickle.list_registry_pickle_by_value()
        ):
            cloudpickle.register_pickle_by_value(module)
            registered.append(module)
    try:
        yield
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)


def _is_users_own(module: object) -> bool:
    if not isinstance(module, ModuleType):
        return False
    file = module.__dict__.get("__file__")
    return isinstance(file, str) and _is_users_own_file(module.__name__, file)


@functools.cache  # some thousand modules are asked for at every epoch
def _is_users_own_file(name: str, file: str) -> bool:
    if name in ("__main__", "__mp_main__") or not file.endswith(".py"):
        return False
    if name.partition(".")[0] == "onggi" or "site-packages" in file:
        return False
    return not file.startswith(_INSTALLED)


_INSTALLED = tuple(
    {sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    | {os.path.dirname(os.__file__) + os.sep}
)
