"""The walls around a worker, from C++. Only a zygote that the broker started uses this."""

from collections.abc import Callable
from typing import Any, TypedDict

class Order(TypedDict):
    """Where a forked worker finds its descriptors, once behind its walls."""

    socket_fd: int
    arena_fd: int

def xxh3(data: Any) -> int:
    """XXH3-64 of a bytes-like object."""

def serve(
    control_fd: int, information: str, binds: list[str], rehearse: Callable[[], object]
) -> Order:
    """Fork workers for the broker. Returns only in a worker, behind its walls.

    Calls `rehearse` in each worker that has waited a while for its order.

    Raises StopIteration once the broker has gone.
    """

def report_failure(control_fd: int, text: str) -> None:
    """Tell the broker why this zygote cannot serve."""
