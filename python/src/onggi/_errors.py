"""What can go wrong, one class per error code of the API."""

from __future__ import annotations

import json
from collections.abc import Sequence


class OnggiError(Exception):
    """Base of all errors of Onggi. `code` is stable; the text is for people."""

    code = "internal"

    def __init__(self, message: str, *, request_id: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.request_id = request_id

    def __reduce__(self) -> tuple[type[OnggiError], tuple[str]]:
        return (type(self), (self.message,))


class InvalidArgument(OnggiError, ValueError):
    """The request makes no sense; the text says which part."""

    code = "invalid_argument"


class Unauthenticated(OnggiError):
    """No token, or one that is unknown, expired or malformed."""

    code = "unauthenticated"


class PermissionDenied(OnggiError, PermissionError):
    """Known, but not allowed."""

    code = "permission_denied"


class NotFound(OnggiError, FileNotFoundError):
    """Absent, or not visible to you: the two look the same."""

    code = "not_found"


class AlreadyExists(OnggiError, FileExistsError):
    """Something of that name is there."""

    code = "already_exists"


class Conflict(OnggiError):
    """The state does not allow it now."""

    code = "conflict"


class ConditionFailed(OnggiError):
    """A precondition (an ETag) did not hold."""

    code = "condition_failed"


class TooLarge(OnggiError):
    """Over a limit of the node."""

    code = "too_large"


class Unsupported(OnggiError, NotImplementedError):
    """The volume's storage system cannot do it."""

    code = "unsupported"


class ResourceExhausted(OnggiError):
    """The node is busy; try later."""

    code = "resource_exhausted"


class StorageFull(OnggiError, OSError):
    """No space is left on the volume."""

    code = "storage_full"


class Unavailable(OnggiError, ConnectionError):
    """The daemon cannot be reached or cannot answer now; trying later may succeed."""

    code = "unavailable"


class DeadlineExceeded(OnggiError, TimeoutError):
    """It took too long."""

    code = "deadline_exceeded"


class Cancelled(OnggiError):
    """It was stopped, by you or by the daemon."""

    code = "cancelled"


class Corruption(OnggiError):
    """Bytes failed their checksum."""

    code = "corruption"


class Internal(OnggiError):
    """A fault of the daemon; its log has more under the request's id."""

    code = "internal"


BY_CODE: dict[str, type[OnggiError]] = {
    kind.code: kind
    for kind in (
        InvalidArgument,
        Unauthenticated,
        PermissionDenied,
        NotFound,
        AlreadyExists,
        Conflict,
        ConditionFailed,
        TooLarge,
        Unsupported,
        ResourceExhausted,
        StorageFull,
        Unavailable,
        DeadlineExceeded,
        Cancelled,
        Corruption,
        Internal,
    )
}


def make_error(code: str, message: str, request_id: str | None = None) -> OnggiError:
    """The error that `code` stands for."""
    return BY_CODE.get(code, Internal)(message, request_id=request_id)


def error_from_response(status: int, body: bytes) -> OnggiError:
    """The error that an answer of 400 or more stands for (RFC 9457 problem details)."""
    try:
        problem = json.loads(body)
        detail = str(problem["detail"])
        if problem["code"] == "unauthenticated":
            detail += ". Give a token to connect(), or by ONGGI_TOKEN or a profile"
        return make_error(problem["code"], detail, problem.get("request_id"))
    except (ValueError, KeyError, TypeError):
        code = "not_found" if status == 404 else "internal"
        return make_error(code, f"the daemon answered {status} without problem details")


def raise_for_status(status: int, body: bytes, expected: Sequence[int] = ()) -> None:
    """Raises unless `status` is 2xx (or one of `expected`)."""
    if not 200 <= status < 300 and status not in expected:
        raise error_from_response(status, body)
