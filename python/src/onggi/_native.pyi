from collections.abc import Callable, Sequence
from typing import TypedDict

from typing_extensions import Buffer

Headers = Sequence[tuple[str, str]]
Progress = Callable[[int, int, int, int, str], object]

class Summary(TypedDict):
    files: int
    size_bytes: int
    files_skipped: int
    bytes_resumed: int
    warnings: list[str]
    failures: list[tuple[str, str, str]]

def xxh3(buffer: Buffer) -> int: ...

class Stream:
    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> list[tuple[str, str]]: ...
    @property
    def body(self) -> bytes: ...
    def readinto(self, buffer: Buffer) -> int: ...
    def close(self) -> None: ...

class Http:
    def __init__(self, url: str = "", token: str = "", profile: str = "") -> None: ...
    @property
    def base_url(self) -> str: ...
    @property
    def unix_socket(self) -> str: ...
    @property
    def origin(self) -> str: ...
    @property
    def display(self) -> str: ...
    def request(
        self, method: str, target: str, body: Buffer | None = None, headers: Headers = ...
    ) -> tuple[int, list[tuple[str, str]], bytes]: ...
    def request_into(
        self, target: str, headers: Headers, buffer: Buffer
    ) -> tuple[int, list[tuple[str, str]], bytes, int]: ...
    def open_stream(
        self, method: str, target: str, body: Buffer | None = None, headers: Headers = ...
    ) -> Stream: ...
    def upload(
        self,
        local: str,
        vfolder: str,
        path: str,
        *,
        tree: bool,
        jobs: int,
        verify: bool,
        force: bool,
        durable: bool,
        progress: Progress | None,
    ) -> Summary: ...
    def download(
        self,
        vfolder: str,
        path: str,
        local: str,
        *,
        tree: bool,
        jobs: int,
        verify: bool,
        force: bool,
        durable: bool,
        progress: Progress | None,
    ) -> Summary: ...
