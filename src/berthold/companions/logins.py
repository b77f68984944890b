"""Logging in, and who a token stands for: `neighbours.Identity` on our own tables.

Passwords and secrets are kept as argon2 hashes and checked off the event loop, for an unknown user
in the same time as for a known one. A token is a signed ticket (tokens.py); showing one costs
a signature check and a look that is remembered for a few seconds, so what was taken away
by another process (a role, a user's right to log in) ends within `REMEMBERED_SECONDS`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cache
from typing import Any

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError
from sqlalchemy import Row, select

from berthold.companions import credentials, identity
from berthold.companions.credentials import Credential
from berthold.companions.identity import Called, roles_of, row_called
from berthold.companions.roles import implied
from berthold.companions.schema import identity_project, identity_revoked, identity_user
from berthold.companions.tokens import Seal, Ticket
from berthold.errors import Unauthenticated
from berthold.ledger.store import Store, Tx, clock_of
from berthold.neighbours import Actor

REMEMBERED_SECONDS = 5.0
REMEMBERED_TOKENS = 10_000
HASHER = PasswordHasher()
# The same words for every cause, so that nobody learns which users there are.
REFUSED_LOGIN = "the request you have made requires authentication"


@dataclass(frozen=True)
class Bearer:
    """A checked token: what it says, and the rows behind it as they are now."""

    ticket: Ticket
    user: Row[Any]
    project: Row[Any] | None
    roles: frozenset[str]
    credential: Credential | None = None

    @property
    def actor(self) -> Actor:
        return Actor(
            user_id=self.user.id,
            user_name=self.user.name,
            project_id=self.project.id if self.project is not None else "",
            project_name=self.project.name if self.project is not None else "",
            roles=self.roles,
            token_expires_at=self.ticket.expires_at,
        )


class EmbeddedIdentity:
    """`neighbours.Identity` on our own tables, and logging in."""

    def __init__(self, store: Store, token_key: bytes, *, hasher: PasswordHasher = HASHER) -> None:
        self.store = store
        self._seal = Seal(token_key)
        self._hasher = hasher
        self._remembered: dict[str, tuple[float, Bearer]] = {}

    async def who(self, token: str) -> Actor:
        bearer = await self.bearer(token)
        if bearer.project is None:
            raise Unauthenticated("the token is for no project; log in with one")
        return bearer.actor

    async def project_exists(self, project_id: str) -> bool:
        return await self.store.read(row_called, identity_project, Called(id=project_id)) is not None

    async def bearer(self, token: str) -> Bearer:
        """Everything about a token, scoped or not. Raises `Unauthenticated`."""
        moment = self.store.clock.now()
        until, bearer = self._remembered.get(token, (0.0, None))
        if bearer is not None and moment < min(until, bearer.ticket.expires_at):
            return bearer
        ticket = self._seal.read(token, moment)
        bearer = await self.store.read(standing, ticket)
        if len(self._remembered) >= REMEMBERED_TOKENS:
            self._remembered.clear()
        self._remembered[token] = (moment + REMEMBERED_SECONDS, bearer)
        return bearer

    async def log_in(self, user: Called, password: str, project: Called | None) -> tuple[str, Bearer]:
        """A token for a user who knows the password. Raises `Unauthenticated`, whatever is wrong."""
        row = await self.store.read(row_called, identity_user, user)
        known = row.password_hash if row is not None and row.enabled else None
        right = await asyncio.to_thread(self._matches, known or decoy(self._hasher), password)
        if row is None or known is None or not right:
            raise Unauthenticated(REFUSED_LOGIN)
        return await self._issue(row.id, row.generation, ("password",), await self._scope(project))

    async def log_in_by_credential(
        self, credential_id: str | None, name: str | None, user: Called | None, secret: str
    ) -> tuple[str, Bearer]:
        """A token for who knows the secret of an application credential, which is called by its id or
        by its name and its user. Raises `Unauthenticated`, whatever is wrong."""
        found = await self.store.read(_called_credential, credential_id, name, user)
        known = found[0].row.secret_hash if found else None
        right = await asyncio.to_thread(self._matches, known or decoy(self._hasher), secret)
        if found is None or not right:
            raise Unauthenticated(REFUSED_LOGIN)
        credential, generation = found
        row = credential.row
        methods = ("application_credential",)
        return await self._issue(row.user_id, generation, methods, row.project_id, row.expires_at, row.id)

    async def trade(self, token: str, project: Called | None) -> tuple[str, Bearer]:
        """A token for another project; it ends when the one that it was traded for would have. One that
        was got by an application credential stays on that credential's project."""
        old = (await self.bearer(token)).ticket
        methods = tuple(dict.fromkeys(("token", *old.methods)))
        scope = await self._scope(project)
        if old.credential_id is not None:
            if scope not in (None, old.project_id):
                raise Unauthenticated("an application credential is for one project only")
            scope = old.project_id
        return await self._issue(
            old.user_id, old.generation, methods, scope, old.expires_at, old.credential_id
        )

    async def revoke(self, token: str) -> None:
        """End a token before its time."""
        ticket = (await self.bearer(token)).ticket
        await self.store.write(identity.revoke, ticket)
        self.forget()

    async def hashed(self, password: str) -> str:
        """A password as it is kept."""
        return await asyncio.to_thread(self._hasher.hash, password)

    def forget(self) -> None:
        """Look everything up again; for whoever changes users, projects or roles here."""
        self._remembered.clear()

    def _matches(self, known: str, password: str) -> bool:
        try:
            return self._hasher.verify(known, password)
        except (Argon2Error, InvalidHashError):
            return False

    async def _scope(self, project: Called | None) -> str | None:
        """The id of the project that a login asks for."""
        if project is None:
            return None
        row = await self.store.read(row_called, identity_project, project)
        if row is None:
            raise Unauthenticated(REFUSED_LOGIN)
        project_id: str = row.id
        return project_id

    async def _issue(
        self,
        user_id: str,
        generation: int,
        methods: tuple[str, ...],
        project_id: str | None,
        until: float | None = None,
        credential_id: str | None = None,
    ) -> tuple[str, Bearer]:
        """A token that lasts as long as all do, or until `until` if that is sooner."""
        moment = self.store.clock.now()
        ends = moment + self.store.settings.token_s
        ticket = Ticket(
            id=self.store.clock.new_id(),
            user_id=user_id,
            project_id=project_id,
            generation=generation,
            methods=methods,
            issued_at=moment,
            expires_at=ends if until is None else min(until, ends),
            credential_id=credential_id,
        )
        return self._seal.sign(ticket), await self.store.read(standing, ticket)


@cache
def decoy(hasher: PasswordHasher) -> str:
    """A hash that costs as much to check as a real one; nobody has its password."""
    return hasher.hash("nobody's password")


def standing(tx: Tx, ticket: Ticket) -> Bearer:
    """Who the ticket's bearer is now; `Unauthenticated` if what it says no longer holds."""
    revoked = select(identity_revoked).where(identity_revoked.c.token_id == ticket.id)
    user = tx.execute(select(identity_user).where(identity_user.c.id == ticket.user_id)).one_or_none()
    if user is None or not user.enabled or user.generation != ticket.generation:
        raise Unauthenticated(REFUSED_LOGIN)
    if tx.execute(revoked).first():
        raise Unauthenticated("the token was revoked")
    if ticket.project_id is None:
        return Bearer(ticket, user, None, frozenset())
    chosen = select(identity_project).where(identity_project.c.id == ticket.project_id)
    project = tx.execute(chosen).one_or_none()
    roles = implied({row.name for row in roles_of(tx, user.id, ticket.project_id)})
    credential = None
    if ticket.credential_id is not None:
        credential = credentials.found(tx, ticket.credential_id)
        if credential is None or not credential.is_good(roles, clock_of(tx).now()):
            raise Unauthenticated(REFUSED_LOGIN)
        roles = implied(set(credential.roles))
    if project is None or not project.enabled or not roles:
        raise Unauthenticated(REFUSED_LOGIN)
    return Bearer(ticket, user, project, roles, credential)


def _called_credential(
    tx: Tx, credential_id: str | None, name: str | None, user: Called | None
) -> tuple[Credential, int] | None:
    """The application credential that a login means, and its user's generation; or None."""
    credential = credentials.found(tx, credential_id) if credential_id is not None else None
    if credential_id is None and name is not None and user is not None:
        named = row_called(tx, identity_user, user)
        credential = credentials.named(tx, named.id, name) if named is not None else None
    if credential is None:
        return None
    generation = select(identity_user.c.generation).where(identity_user.c.id == credential.row.user_id)
    return credential, tx.execute(generation).scalar_one()
