"""What HTTP makes of each kind of failure: the only table of error statuses.

Beside the kinds of `berthold.errors` there are three that only HTTP knows. An answer is
`{fault: {"code": status, "message": sentence}}`, as OpenStack clients expect.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from berthold import errors


class WrongMethod(errors.Failure):
    """The path exists, the method does not; `allowed` says which do."""

    def __init__(self, allowed: list[str]) -> None:
        super().__init__(f"The method is not allowed here; allowed: {', '.join(allowed)}.")
        self.allowed = allowed


class NotAcceptable(errors.Failure):
    """A microversion that this API does not have."""


class BadMediaType(errors.Failure):
    """A body that is not JSON by its own word."""


# Kind of failure -> status and name of the fault.
PROBLEMS: dict[type[errors.Failure], tuple[int, str]] = {
    errors.Malformed: (400, "badRequest"),
    errors.Unauthenticated: (401, "unauthorized"),
    errors.NotAllowed: (403, "forbidden"),
    errors.NotFound: (404, "itemNotFound"),
    WrongMethod: (405, "badMethod"),
    NotAcceptable: (406, "computeFault"),
    errors.WrongState: (409, "conflictingRequest"),
    errors.Refused: (409, "conflictingRequest"),
    errors.Stale: (409, "conflictingRequest"),
    errors.NoValidHost: (409, "conflictingRequest"),
    errors.TooLarge: (413, "overLimit"),
    BadMediaType: (415, "badMediaType"),
    errors.Unavailable: (503, "serviceUnavailable"),
}
# A refusal that has a status of its own, by the promise that refused: quota is 403 to clients.
REFUSED: dict[str, tuple[int, str]] = {"Q1": (403, "forbidden")}

UNEXPECTED = (500, "computeFault")


def status_of(failure: errors.Failure) -> tuple[int, str]:
    """Status and fault name of a failure."""
    if isinstance(failure, errors.Refused) and failure.rule in REFUSED:
        return REFUSED[failure.rule]
    return PROBLEMS.get(type(failure), UNEXPECTED)


@contextmanager
def named_in_the_body() -> Iterator[None]:
    """What a body names and is not there makes it a bad body (400), not an unknown path (404)."""
    try:
        yield
    except errors.NotFound as absent:
        raise errors.Malformed(absent.message) from absent
