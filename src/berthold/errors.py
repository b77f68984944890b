"""The kinds of failure.

Every failure that a user, an operator or a move can meet is one of these. Each says what
was refused and, where there is something to do about it, what to do. `api/problems.py` is
the only place that knows which HTTP status a kind becomes. A bug is an assertion, never
one of these.
"""

from __future__ import annotations


class Failure(Exception):
    """What all kinds share: a sentence for people."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Malformed(Failure):
    """The request cannot be understood: unknown field, wrong type, impossible value."""


class Unauthenticated(Failure):
    """Nobody vouches for the caller: no token, a wrong password, an expired token."""


class NotAllowed(Failure):
    """The caller is known and may not do this."""


class NotFound(Failure):
    """There is no such thing, or it belongs to somebody else (T1: the two look alike)."""


class WrongState(Failure):
    """The thing exists and cannot do that now ("cannot live-migrate while shelved").

    `wait` is true when it can as soon as what it does now has ended, so whoever asks may wait.
    """

    def __init__(self, message: str, *, wait: bool = False) -> None:
        super().__init__(message)
        self.wait = wait


class TooLarge(Failure):
    """The body is larger than this cloud accepts."""


class Unavailable(Failure):
    """A part that is needed does not answer now: the database, a neighbour, an agent."""


class Refused(Failure):
    """A promise would be broken. `rule` is its id (C1, G1, G2, M5, Q1 …).

    `wait` is true when nothing but time is needed, since somebody else is on the move;
    the caller may try the same again.
    """

    def __init__(self, rule: str, why: str, *, wait: bool = False) -> None:
        super().__init__(why)
        self.rule = rule
        self.why = why
        self.wait = wait


class Stale(Failure):
    """M5: somebody else works on this move now; whoever meets this stops and writes nothing."""


class NoValidHost(Failure):
    """No host may take the server. `reasons` says why, host by host (for operators only).

    The message names the classes of cause and no host, so it may be shown to a tenant.
    """

    def __init__(self, message: str, reasons: dict[str, str]) -> None:
        super().__init__(message)
        self.reasons = reasons
