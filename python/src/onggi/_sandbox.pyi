"""The walls around a worker, from C++. Only a zygote that the broker started uses this."""

from typing import Any, TypedDict

class Order(TypedDict):
    """What a forked worker finds behind its walls."""

    socket_fd: int
    arena_fd: int

def xxh3(data: Any) -> int:
    """XXH3-64 of a bytes-like object."""

def serve(control_fd: int, information: str, binds: list[str]) -> Order:
    """Forks workers for the broker. Returns only in a worker, behind its walls."""
