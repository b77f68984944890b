"""Identity v3 over HTTP: application credentials.

A secret is in the answer to who makes the credential, and nowhere else.
"""

from __future__ import annotations

import datetime
import secrets
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.responses import Response

from berthold.companions import credentials, identity
from berthold.companions.credentials import Credential
from berthold.companions.http import Asked, Document, answer, nothing, stamp
from berthold.companions.identity_api import STAMP, Name, Password, Words, listing
from berthold.companions.roles import implied
from berthold.companions.schema import identity_role
from berthold.errors import Malformed, NotAllowed, NotFound
from berthold.ledger.store import Tx

SECRET_BYTES = 64
NEVER = 253402300799.0  # the last second that a date can say


class Role(Struct):
    id: str | None = None
    name: str | None = None


class NewCredential(Struct):
    name: Name
    secret: Password | None = None
    description: Words | None = None
    expires_at: Annotated[str, Meta(max_length=64)] | None = None
    roles: list[Role] | None = None
    unrestricted: bool | None = None
    access_rules: list[Any] | None = None
    project_id: str | None = None


class NewCredentialBody(Struct):
    application_credential: NewCredential


def document_of(asked: Asked, credential: Credential) -> Document:
    """A credential as Keystone shows it, without its secret."""
    row = credential.row
    path = f"/identity/v3/users/{row.user_id}/application_credentials/{row.id}"
    return {
        "id": row.id,
        "name": row.name,
        "description": row.description,
        "user_id": row.user_id,
        "project_id": row.project_id,
        "roles": [{"id": i, "name": name, "domain_id": None} for name, i in credential.roles.items()],
        "expires_at": None if row.expires_at is None else stamp(row.expires_at, STAMP),
        "unrestricted": row.unrestricted,
        "links": {"self": asked.home + path},
    }


def owner(asked: Asked) -> str:
    """The user that the address names: the caller, or anybody for an administrator."""
    user_id = asked.path["id"]
    if user_id != asked.actor.user_id and not asked.actor.is_admin:
        raise NotFound(f"could not find user: {user_id}")
    return user_id


def need_unrestricted(asked: Asked) -> None:
    used = asked.bearer.credential
    if used is not None and not used.row.unrestricted:
        raise NotAllowed("who logged in with a restricted application credential makes and removes none")


async def list_credentials(asked: Asked) -> Response:
    user_id = owner(asked)
    where = {"name": asked.query["name"]} if "name" in asked.query else {}
    rows = await asked.four.store.read(lambda tx: credentials.credentials_of(tx, user_id, **where))
    documents = [document_of(asked, credential) for credential in rows]
    return answer(listing(asked, "application_credentials", documents))


async def show_credential(asked: Asked) -> Response:
    row = await asked.four.store.read(credentials.own, owner(asked), asked.path["credential"])
    return answer({"application_credential": document_of(asked, row)})


async def make_credential(asked: Asked) -> Response:
    """For the caller himself, on the project of his token, with roles that the token has."""
    if owner(asked) != asked.actor.user_id:
        raise NotAllowed("nobody makes an application credential for somebody else")
    need_unrestricted(asked)
    if asked.bearer.project is None:
        raise NotAllowed("the token is for no project; log in with one")
    wish = (await asked.body(NewCredentialBody)).application_credential
    if wish.access_rules:
        raise Malformed("access rules are not kept here; without them the credential would open more")
    if wish.project_id not in (None, asked.actor.project_id):
        raise Malformed("a credential is for the project of the token that makes it")
    secret = wish.secret or secrets.token_urlsafe(SECRET_BYTES)
    fields: Document = {
        "user_id": asked.actor.user_id,
        "project_id": asked.actor.project_id,
        "name": wish.name,
        "description": wish.description,
        "expires_at": moment_of(asked, wish.expires_at),
        "unrestricted": bool(wish.unrestricted),
        "secret_hash": await asked.four.identity.hashed(secret),
    }

    def make(tx: Tx) -> Credential:
        credentials.hold(tx, fields["user_id"])
        return credentials.make(tx, role_ids(tx, asked, wish.roles or []), **fields)

    made = await asked.four.store.write(make)
    return answer({"application_credential": {**document_of(asked, made), "secret": secret}}, 201)


def role_ids(tx: Tx, asked: Asked, wanted: list[Role]) -> list[str]:
    """The roles that the credential is to name: those wished, or all that the caller has."""
    bearer = asked.bearer
    assigned = identity.roles_of(tx, bearer.user.id, bearer.actor.project_id)
    held = implied({row.name for row in assigned}) & bearer.roles
    rows = identity.listed(tx, identity_role)
    mine = {row.name: row.id for row in rows if row.name in held}
    if not wanted:
        return list(mine.values())
    chosen = []
    for role in wanted:
        if role.id is None and role.name is None:
            raise Malformed("say which role: its id or its name")
        role_id = role.id if role.id in mine.values() else mine.get(role.name or "")
        if role_id is None:
            raise Malformed(f"you have no role {role.id or role.name} on this project to give on")
        chosen.append(role_id)
    return sorted(set(chosen))


def moment_of(asked: Asked, text: str | None) -> float | None:
    """When the credential ends, UTC unless the text says otherwise; a moment to come."""
    if text is None:
        return None
    try:
        told = datetime.datetime.fromisoformat(text)
        moment = (told if told.tzinfo else told.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise Malformed("expires_at is a date and time, as in 2030-01-31T12:00:00") from error
    if not asked.four.store.clock.now() < moment <= NEVER:
        raise Malformed(f"expires_at is a moment to come, before the year 10000; {text} is none")
    return moment


async def remove_credential(asked: Asked) -> Response:
    user_id = owner(asked)
    need_unrestricted(asked)
    await asked.four.store.write(credentials.remove, user_id, asked.path["credential"])
    asked.four.identity.forget()
    return nothing()
