"""What can go wrong with work that is done elsewhere, told as if it had happened here."""

from __future__ import annotations

import builtins
import json
from typing import Any

from onggi._errors import OnggiError


class OffloadError(OnggiError):
    """The loader's work cannot be, or could not be, done on the node. The text says why."""

    code = "offload_failed"


class CannotShip(OffloadError):
    """Something of the loader cannot be sent to a node."""


class TaskError(OffloadError):
    """The user's code raised on the node. Holds its traceback there and the sample's index."""

    def __init__(self, message: str, *, traceback: str = "", sample_index: Any = None) -> None:
        super().__init__(message)
        self.traceback = traceback
        self.sample_index = sample_index


class WorkerLost(OffloadError):
    """A worker or the node went away, or a limit was hit, in the midst of an epoch."""


def parse_problem(body: bytes | bytearray | memoryview) -> dict[str, Any]:
    try:
        problem = json.loads(bytes(body))
    except ValueError:
        problem = None
    return problem if isinstance(problem, dict) else {"detail": "an error without an explanation"}


def exception_from(problem: dict[str, Any], where: str) -> Exception:
    """The user's exception, of its own type when that is a builtin, as torch's loader does it.
    What the node could not even load is CannotShip: it can still run here."""
    name = str(problem.get("exception", ""))
    detail = str(problem.get("detail", "the task failed"))
    traceback = str(problem.get("traceback", ""))
    if problem.get("phase") == "load":
        detail = detail.removeprefix("CannotLoad: ")
        remedy = "install there what is installed here, or keep policy='local'"
        return CannotShip(f"the node cannot load the data set: {detail}; {remedy}\n{traceback}")
    index = problem.get("sample_index")
    sample = "" if index is None else f" (sample {index})"
    message = f"Caught {name.removeprefix('builtins.') or 'an error'} {where}{sample}."
    message += f"\nOriginal {traceback}" if traceback else f" {detail}"
    module, _, kind_name = name.rpartition(".")
    kind = getattr(builtins, kind_name, None) if module == "builtins" else None
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            error: Exception = kind(message)
        except TypeError:  # UnicodeDecodeError and others want more than a text
            error = TaskError(message, traceback=traceback, sample_index=index)
        error.__dict__["onggi_sample_index"] = index
        return error
    return TaskError(message, traceback=traceback, sample_index=index)
