"""Tokens: signed statements of who logged in, for which project, until when.

A token is a JWT signed with HS256 and needs no table: what it says is believed because
of its signature, and everything that may change later (is the user enabled, which roles
has he) is looked up when it is shown. The key is the caller's to keep.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

from berthold.errors import Unauthenticated

ALGORITHM = "HS256"
KEY_BYTES = 32


@dataclass(frozen=True)
class Ticket:
    """What a token says. `project_id` is None for an unscoped one; `generation` is the user's
    when it was issued, and a later one makes it void; `credential_id` is that of the application
    credential by which he logged in, if it was one."""

    id: str
    user_id: str
    project_id: str | None
    generation: int
    methods: tuple[str, ...]
    issued_at: float
    expires_at: float
    credential_id: str | None = None


class Seal:
    """Signs tickets and reads signed ones."""

    def __init__(self, key: bytes) -> None:
        assert len(key) >= KEY_BYTES, f"a token key has at least {KEY_BYTES} bytes"
        self._key = OctKey.import_key(key)

    def sign(self, ticket: Ticket) -> str:
        """The token that says `ticket`."""
        return jwt.encode({"alg": ALGORITHM}, asdict(ticket), self._key, algorithms=[ALGORITHM])

    def read(self, token: str, now: float) -> Ticket:
        """What the token says; raises `Unauthenticated` unless we signed it and it is still good."""
        try:
            claims: dict[str, Any] = jwt.decode(token, self._key, algorithms=[ALGORITHM]).claims
            ticket = Ticket(**{**claims, "methods": tuple(claims["methods"])})
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise Unauthenticated("the token is not one of ours") from error
        if ticket.expires_at <= now:
            raise Unauthenticated("the token has expired; log in again")
        return ticket
