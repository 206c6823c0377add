"""One daemon: its volumes, vfolders, tokens and tasks."""

from __future__ import annotations

import contextvars
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from onggi import _api as api
from onggi._errors import InvalidArgument, raise_for_status
from onggi._native import Http, Stream

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from onggi._vfolder import VFolder

SCHEME = "onggi://"
PAGE_ITEMS = 10_000

_secrets_stay = contextvars.ContextVar("onggi_secrets_stay", default=False)


@contextmanager
def without_secrets() -> Iterator[None]:
    """Clients pickled inside carry no token: for pickles that leave the process's own machine."""
    mark = _secrets_stay.set(True)
    try:
        yield
    finally:
        _secrets_stay.reset(mark)


def secrets_stay() -> bool:
    """Whether pickles made now leave tokens out."""
    return _secrets_stay.get()


@dataclass(frozen=True)
class RemotePath:
    """`onggi://volume/vfolder/path`."""

    volume: str
    vfolder: str
    path: str

    @classmethod
    def parse(cls, text: str) -> RemotePath:
        rest = text.removeprefix(SCHEME)
        parts = [part for part in rest.split("/") if part]
        if "://" in rest or len(parts) < 2 or "." in parts or ".." in parts:
            raise InvalidArgument(
                f"'{text}' is not a path in a vfolder: {SCHEME}volume/vfolder/path"
            )
        return cls(parts[0], parts[1], "/".join(parts[2:]))

    def __str__(self) -> str:
        return SCHEME + "/".join(p for p in (self.volume, self.vfolder, self.path) if p)


class Transport:
    """HTTP to the daemon, made when first used, and anew in a forked child."""

    def __init__(self, url: str, token: str, profile: str) -> None:
        self._settings = (url, token, profile)
        self._made: dict[int, Http] = {}

    @property
    def native(self) -> Http:
        process = os.getpid()
        http = self._made.get(process)
        if http is None:
            # A parent's entry stays in the table: closing its sockets here would end them there.
            http = self._made[process] = Http(*self._settings)
        return http

    def request(
        self,
        method: str,
        target: str,
        body: Buffer | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """One exchange, whatever its status. Header names come in lower case."""
        status, answer_headers, answer = self.native.request(
            method, target, body, list((headers or {}).items())
        )
        return status, dict(answer_headers), answer

    def request_into(
        self, target: str, buffer: Buffer, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes, int]:
        """GET whose 2xx body goes into `buffer`; its size is the last item."""
        status, answer_headers, answer, size = self.native.request_into(
            target, list((headers or {}).items()), buffer
        )
        return status, dict(answer_headers), answer, size

    def open_stream(
        self,
        method: str,
        target: str,
        body: Buffer | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Stream:
        """An answer to be read while it comes; raises for any status but 2xx."""
        stream = self.native.open_stream(method, target, body, list((headers or {}).items()))
        raise_for_status(stream.status, stream.body)
        return stream


class Client:
    """A daemon's API. Thread-safe; survives a fork; nothing is sent before the first call."""

    def __init__(
        self, url: str | None = None, token: str | None = None, profile: str | None = None
    ) -> None:
        self._settings = (url or "", token or "", profile or "")
        self._http = Transport(*self._settings)

    def __reduce__(self) -> tuple[type[Client], tuple[str, str, str]]:
        url, token, profile = self._settings
        return (Client, (url, "" if _secrets_stay.get() else token, profile))

    def __repr__(self) -> str:
        return f"<onggi.Client of {self.url}>"

    @property
    def url(self) -> str:
        """Where the daemon is: a URL, or the path of its Unix socket."""
        return self._http.native.display

    def call(self, method: str, target: str, body: Mapping[str, Any] | None = None) -> Any:
        """JSON in, JSON out; raises the daemon's error."""
        data = None if body is None else json.dumps(body).encode()
        headers = {} if data is None else {"Content-Type": "application/json"}
        status, _, answer = self._http.request(method, target, data, headers)
        raise_for_status(status, answer)
        return json.loads(answer) if answer else None

    def call_all(self, target: str, **query: str) -> Iterator[dict[str, Any]]:
        """The items of a paged list."""
        query["limit"] = str(PAGE_ITEMS)
        while True:
            page = self.call("GET", f"{target}?{urlencode(query)}")
            yield from page["items"]
            if not page.get("next_cursor"):
                return
            query["cursor"] = page["next_cursor"]

    # ------------------------------------------------------------ node

    def version(self) -> api.Version:
        return api.Version.from_json(self.call("GET", "/v1/version"))

    def node(self) -> api.Node:
        """What the node is, what it has and which code it can run."""
        return api.Node.from_json(self.call("GET", "/v1/node"))

    # ------------------------------------------------------------ volumes and vfolders

    def volumes(self) -> list[api.Volume]:
        return [api.Volume.from_json(v) for v in self.call("GET", "/v1/volumes")["items"]]

    def create_volume(
        self, name: str, backend: str = "posix", options: Mapping[str, str] | None = None
    ) -> api.Volume:
        body = {"name": name, "backend": backend, "options": dict(options or {})}
        return api.Volume.from_json(self.call("POST", "/v1/volumes", body))

    def delete_volume(self, name: str) -> None:
        self.call("DELETE", f"/v1/volumes/{quote(name, safe='')}")

    def vfolders(self, volume: str | None = None, name: str | None = None) -> list[VFolder]:
        """Those you own or were given."""
        from onggi._vfolder import VFolder

        query = {k: v for k, v in (("volume", volume), ("name", name)) if v is not None}
        found = self.call_all("/v1/vfolders", **query)
        return [VFolder(self, api.VFolder.from_json(item)) for item in found]

    def vfolder(self, name: str, volume: str | None = None, *, create: bool = False) -> VFolder:
        """The vfolder of this name, URL (`onggi://volume/vfolder`) or "volume/vfolder".

        A bare name is looked for on `volume`, or on all volumes when that is not given.
        """
        from onggi._vfolder import no_such_vfolder

        if "/" in name:
            path = RemotePath.parse(name)
            volume, name = path.volume, path.vfolder
        found = self.vfolders(volume, name)
        own = [folder for folder in found if folder.permission == "owner"]
        match own or found:
            case [one]:
                return one
            case [] if create:
                return self.create_vfolder(name, volume)
            case []:
                raise no_such_vfolder(self, volume, name)
            case several:
                urls = ", ".join(folder.url for folder in several)
                raise InvalidArgument(f"several vfolders are called '{name}': {urls}; say which")

    def create_vfolder(
        self, name: str, volume: str | None = None, *, quota_scope: str | None = None
    ) -> VFolder:
        """A new, empty vfolder; on the only volume when none is named."""
        from onggi._vfolder import VFolder

        if "/" in name:
            path = RemotePath.parse(name)
            volume, name = path.volume, path.vfolder
        if volume is None:
            names = [v.name for v in self.volumes()]
            if len(names) != 1:
                raise InvalidArgument(f"say on which volume: {', '.join(names) or 'there is none'}")
            volume = names[0]
        body = {"volume": volume, "name": name}
        if quota_scope is not None:
            body["quota_scope"] = quota_scope
        return VFolder(self, api.VFolder.from_json(self.call("POST", "/v1/vfolders", body)))

    # ------------------------------------------------------------ tokens and tenants

    def tokens(self) -> list[api.Token]:
        return [api.Token.from_json(t) for t in self.call("GET", "/v1/tokens")["items"]]

    def create_token(
        self,
        name: str,
        *,
        tenant: str | None = None,
        scope: api.Scope = "tenant",
        expires_in_seconds: int | None = None,
    ) -> api.CreatedToken:
        """A new token; its secret is in the answer and nowhere else."""
        body: dict[str, Any] = {"name": name, "scope": scope}
        if tenant is not None:
            body["tenant"] = tenant
        if expires_in_seconds is not None:
            body["expires_in_seconds"] = expires_in_seconds
        return api.CreatedToken.from_json(self.call("POST", "/v1/tokens", body))

    def revoke_token(self, token_id: str) -> None:
        self.call("DELETE", f"/v1/tokens/{quote(token_id, safe='')}")

    def tenants(self) -> list[api.Tenant]:
        return [api.Tenant.from_json(t) for t in self.call("GET", "/v1/tenants")["items"]]

    def create_tenant(self, name: str) -> api.Tenant:
        return api.Tenant.from_json(self.call("POST", "/v1/tenants", {"name": name}))

    def delete_tenant(self, tenant: str) -> None:
        self.call("DELETE", f"/v1/tenants/{quote(tenant, safe='')}")

    def tasks(self) -> list[api.TaskSummary]:
        """What runs now."""
        return [api.TaskSummary.from_json(t) for t in self.call("GET", "/v1/tasks")["items"]]


def connect(url: str | None = None, token: str | None = None, profile: str | None = None) -> Client:
    """A client of the daemon that is named by, first hit wins: the arguments; ONGGI_URL and
    ONGGI_TOKEN; `profile`, ONGGI_PROFILE or the default one of ~/.config/onggi/config.toml; this
    machine's own daemon.

    Nothing is sent before the first call.
    """
    return Client(url, token, profile)
