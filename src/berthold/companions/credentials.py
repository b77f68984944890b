"""Application credentials: a secret that stands for some of a user's roles on one project.

The secret is shown once and kept as a hash. A credential is good as long as its user has every
role that it names: losing one ends it for good. It goes with its user and its project.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, delete, select

from berthold.companions.schema import (
    identity_credential,
    identity_credential_role,
    identity_role,
    identity_user,
)
from berthold.errors import NotFound, WrongState
from berthold.ledger.store import Tx, clock_of, insert, now


@dataclass(frozen=True)
class Credential:
    """A credential's row and the roles that it names, by name."""

    row: Row[Any]
    roles: dict[str, str]  # name -> id

    def is_good(self, held: Set[str], moment: float) -> bool:
        """Whether it opens anything at this moment for a user who has these roles."""
        alive = self.row.expires_at is None or moment < self.row.expires_at
        return alive and bool(self.roles) and self.roles.keys() <= held


# -- Looking ------------------------------------------------------------------------------


def found(tx: Tx, credential_id: str) -> Credential | None:
    """A credential by its id."""
    wanted = select(identity_credential).where(identity_credential.c.id == credential_id)
    row = tx.execute(wanted).one_or_none()
    return _whole(tx, row) if row is not None else None


def named(tx: Tx, user_id: str, name: str) -> Credential | None:
    """The credential that a user calls by this name."""
    rows = credentials_of(tx, user_id, name=name)
    return rows[0] if rows else None


def own(tx: Tx, user_id: str, credential_id: str) -> Credential:
    """A credential of this user; raises `NotFound`."""
    credential = found(tx, credential_id)
    if credential is None or credential.row.user_id != user_id:
        raise NotFound(f"could not find application credential: {credential_id}")
    return credential


def credentials_of(tx: Tx, user_id: str, **where: str) -> list[Credential]:
    """A user's credentials that agree with `where`, by name."""
    chosen = (identity_credential.c[key] == value for key, value in where.items())
    wanted = select(identity_credential).where(identity_credential.c.user_id == user_id, *chosen)
    return [_whole(tx, row) for row in tx.execute(wanted.order_by(identity_credential.c.name)).all()]


def _whole(tx: Tx, row: Row[Any]) -> Credential:
    roles = select(identity_role.c.name, identity_role.c.id).where(
        identity_credential_role.c.credential_id == row.id,
        identity_credential_role.c.role_id == identity_role.c.id,
    )
    kept = tx.execute(roles.order_by(identity_role.c.name))
    return Credential(row, {role.name: role.id for role in kept})


# -- Changing -----------------------------------------------------------------------------


def hold(tx: Tx, user_id: str) -> None:
    """Lock a user: what roles he has and what credentials rest on them change one after another."""
    tx.execute(select(identity_user.c.id).where(identity_user.c.id == user_id).with_for_update()).first()


def make(tx: Tx, role_ids: Iterable[str], **fields: Any) -> Credential:
    """A new credential with these roles; `WrongState` when its user has one of its name."""
    made = insert(tx, identity_credential).values(id=clock_of(tx).new_id(), created_at=now(tx), **fields)
    made = made.on_conflict_do_nothing(index_elements=["user_id", "name"]).returning(identity_credential)
    row = tx.execute(made).one_or_none()
    if row is None:
        raise WrongState(f"there is an application credential {fields['name']!r} of this user already")
    for role_id in sorted(role_ids):
        tx.execute(insert(tx, identity_credential_role).values(credential_id=row.id, role_id=role_id))
    return _whole(tx, row)


def remove(tx: Tx, user_id: str, credential_id: str) -> None:
    """Remove a credential of this user; raises `NotFound`."""
    own(tx, user_id, credential_id)
    tx.execute(delete(identity_credential).where(identity_credential.c.id == credential_id))


def end_those_beyond(tx: Tx, user_id: str, project_id: str, held: Set[str]) -> None:
    """Remove the credentials that name a role which the user has no more on the project."""
    for credential in credentials_of(tx, user_id, project_id=project_id):
        if not credential.roles.keys() <= held:
            gone = identity_credential.c.id == credential.row.id
            tx.execute(delete(identity_credential).where(gone))
