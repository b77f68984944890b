"""Identity: domains, projects, users, roles and who has which role where.

What takes a right away takes with it what rests on that right, in one transaction: older tokens of
the user, application credentials that name the role. Logging in is in logins.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, Table, and_, delete, select, update

from berthold.companions import credentials
from berthold.companions.roles import ROLES, implied
from berthold.companions.schema import (
    identity_assignment,
    identity_domain,
    identity_project,
    identity_revoked,
    identity_role,
    identity_user,
)
from berthold.companions.tokens import Ticket
from berthold.errors import NotFound, WrongState
from berthold.ledger.store import Tx, clock_of, insert, now

DEFAULT_DOMAIN = "default"
DEFAULT_DOMAIN_NAME = "Default"


@dataclass(frozen=True)
class Called:
    """A user or a project as a request calls it: by id, or by name within a domain."""

    id: str | None = None
    name: str | None = None
    domain_id: str | None = None
    domain_name: str | None = None


# -- Looking ------------------------------------------------------------------------------


def roles_of(tx: Tx, user_id: str, project_id: str) -> list[Row[Any]]:
    """The roles that were given to the user on the project, without those that they imply."""
    held = and_(
        identity_assignment.c.user_id == user_id,
        identity_assignment.c.project_id == project_id,
        identity_assignment.c.role_id == identity_role.c.id,
    )
    return list(tx.execute(select(identity_role).where(held).order_by(identity_role.c.name)))


def projects_of(tx: Tx, user_id: str) -> list[Row[Any]]:
    """The projects on which the user has a role."""
    held = select(identity_assignment.c.project_id).where(identity_assignment.c.user_id == user_id)
    chosen = select(identity_project).where(identity_project.c.id.in_(held), identity_project.c.enabled)
    return list(tx.execute(chosen.order_by(identity_project.c.name)))


def assignments(tx: Tx, **where: str) -> list[Row[Any]]:
    """Who has which role where."""
    chosen = (identity_assignment.c[key] == value for key, value in where.items())
    return list(tx.execute(select(identity_assignment).where(*chosen)))


def listed(tx: Tx, table: Table, where: dict[str, Any] | None = None) -> list[Row[Any]]:
    """The rows of one of the identity tables that agree with `where`, by name."""
    chosen = (table.c[key] == value for key, value in (where or {}).items())
    return list(tx.execute(select(table).where(*chosen).order_by(table.c.name)))


def found(tx: Tx, table: Table, thing_id: str) -> Row[Any]:
    """A row of one of the identity tables; raises `NotFound`."""
    row = tx.execute(select(table).where(table.c.id == thing_id)).one_or_none()
    if row is None:
        raise NotFound(f"could not find {table.name.removeprefix('identity_')}: {thing_id}")
    return row


def row_called(tx: Tx, table: Table, called: Called) -> Row[Any] | None:
    """The user or project that a request means, or None."""
    if called.id is not None:
        return tx.execute(select(table).where(table.c.id == called.id)).one_or_none()
    domain: ColumnElement[bool] = identity_domain.c.id == (called.domain_id or DEFAULT_DOMAIN)
    if called.domain_id is None and called.domain_name is not None:
        domain = identity_domain.c.name == called.domain_name
    meant = and_(table.c.name == called.name, table.c.domain_id == identity_domain.c.id, domain)
    return tx.execute(select(table).where(meant)).one_or_none()


# -- Changing -----------------------------------------------------------------------------


def add(tx: Tx, table: Table, **fields: Any) -> Row[Any]:
    """A new row of one of the identity tables; `WrongState` when its name is taken."""
    if "domain_id" in table.c:
        found(tx, identity_domain, fields["domain_id"])
    if "created_at" in table.c:
        fields["created_at"] = now(tx)
    made = insert(tx, table).values(**{"id": clock_of(tx).new_id(), **fields})
    row = tx.execute(made.on_conflict_do_nothing().returning(table)).one_or_none()
    if row is None:
        raise WrongState(f"there is a {table.name.removeprefix('identity_')} {fields['name']!r} already")
    return row


def alter(tx: Tx, table: Table, thing_id: str, **fields: Any) -> Row[Any]:
    """Change a row; a new password or the end of a user's right to log in voids older tokens."""
    row = found(tx, table, thing_id)
    if table is identity_user and ("password_hash" in fields or fields.get("enabled") is False):
        fields["generation"] = identity_user.c.generation + 1
    if fields.get("name", row.name) != row.name:
        same = table.c.name == fields["name"]
        if "domain_id" in table.c:
            same = and_(same, table.c.domain_id == row.domain_id)
        if tx.execute(select(table.c.id).where(same)).first():
            raise WrongState(f"the name {fields['name']!r} is taken")
    if fields:
        tx.execute(update(table).where(table.c.id == thing_id).values(**fields))
    return found(tx, table, thing_id)


def remove(tx: Tx, table: Table, thing_id: str) -> None:
    """Remove a row and the role assignments that name it."""
    found(tx, table, thing_id)
    tx.execute(delete(table).where(table.c.id == thing_id))


def remove_domain(tx: Tx, domain_id: str) -> None:
    """Raises `NotFound`; `WrongState` for the first domain, and while it has projects or users."""
    if domain_id == DEFAULT_DOMAIN:
        raise WrongState(f"the domain {DEFAULT_DOMAIN} stays: administrators are in it")
    for table in (identity_project, identity_user):
        if tx.execute(select(table.c.id).where(table.c.domain_id == domain_id).limit(1)).first():
            noun = table.name.removeprefix("identity_")
            raise WrongState(f"domain {domain_id} still has a {noun}: remove its projects and users first")
    remove(tx, identity_domain, domain_id)


def assign(tx: Tx, user_id: str, project_id: str, role_id: str) -> None:
    """Give the user the role on the project; nothing to do if he has it."""
    found(tx, identity_user, user_id)
    found(tx, identity_project, project_id)
    found(tx, identity_role, role_id)
    given = insert(tx, identity_assignment).values(user_id=user_id, project_id=project_id, role_id=role_id)
    tx.execute(given.on_conflict_do_nothing())


def unassign(tx: Tx, user_id: str, project_id: str, role_id: str) -> None:
    """Take the role from the user on the project, and with it every application credential that rested
    on it; raises `NotFound` if he has not got it."""
    credentials.hold(tx, user_id)
    given = and_(
        identity_assignment.c.user_id == user_id,
        identity_assignment.c.project_id == project_id,
        identity_assignment.c.role_id == role_id,
    )
    if not tx.execute(delete(identity_assignment).where(given)).rowcount:
        raise NotFound("the user has no such role on the project")
    held = implied({row.name for row in roles_of(tx, user_id, project_id)})
    credentials.end_those_beyond(tx, user_id, project_id, held)


def revoke(tx: Tx, ticket: Ticket) -> None:
    """Write down that the token is void, and forget those that have expired meanwhile."""
    tx.execute(delete(identity_revoked).where(identity_revoked.c.expires_at < now(tx)))
    void = insert(tx, identity_revoked).values(token_id=ticket.id, expires_at=ticket.expires_at)
    tx.execute(void.on_conflict_do_nothing())


def bootstrap(tx: Tx, password_hash: str, *, user: str = "admin", project: str = "admin") -> str:
    """The default domain, the roles, and an admin on a project of his own; the project's id.

    May be repeated: what is there stays as it is, the password too.
    """
    domain = insert(tx, identity_domain).values(id=DEFAULT_DOMAIN, name=DEFAULT_DOMAIN_NAME)
    tx.execute(domain.on_conflict_do_nothing())
    roles = {name: _ensure(tx, identity_role, name=name) for name in ROLES}
    home = _ensure(tx, identity_project, name=project, domain_id=DEFAULT_DOMAIN, created_at=now(tx))
    admin = _ensure(
        tx,
        identity_user,
        name=user,
        domain_id=DEFAULT_DOMAIN,
        password_hash=password_hash,
        default_project_id=home,
        created_at=now(tx),
    )
    assign(tx, admin, home, roles["admin"])
    return home


def _ensure(tx: Tx, table: Table, **fields: Any) -> str:
    """The id of the row of this name (in its domain, if it is in one), made if it is missing."""
    made = insert(tx, table).values(id=clock_of(tx).new_id(), **fields)
    tx.execute(made.on_conflict_do_nothing())
    meant = (table.c[key] == fields[key] for key in ("name", "domain_id") if key in fields)
    row_id: str = tx.execute(select(table.c.id).where(*meant)).scalars().one()
    return row_id
