"""Keypairs: public keys that a user gives to new servers. Private keys are never stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, func, select

from berthold.errors import Malformed, NotFound, Refused, WrongState
from berthold.ledger.store import Tx, insert, now
from berthold.records.schema import keypair

Keypair = Mapping[str, Any]
PER_USER_MAX = 100


def create(tx: Tx, *, user_id: str, name: str, type: str, public_key: str, fingerprint: str) -> Keypair:
    """A new keypair. Raises `WrongState` when the user has one of that name, `Refused` Q1 at the limit."""
    count = tx.execute(select(func.count()).where(keypair.c.user_id == user_id)).scalar_one()
    if count >= PER_USER_MAX:
        raise Refused("Q1", f"Quota exceeded, too many key pairs: {PER_USER_MAX} are allowed.")
    statement = insert(tx, keypair).values(
        user_id=user_id,
        name=name,
        type=type,
        public_key=public_key,
        fingerprint=fingerprint,
        created_at=now(tx),
    )
    row = tx.execute(statement.on_conflict_do_nothing().returning(keypair)).mappings().first()
    if row is None:
        raise WrongState(f"Key pair '{name}' already exists.")
    return dict(row)


def get(tx: Tx, user_id: str, name: str) -> Keypair:
    """Raises `NotFound`."""
    statement = select(keypair).where(keypair.c.user_id == user_id, keypair.c.name == name)
    row = tx.execute(statement).mappings().first()
    if row is None:
        raise NotFound(f"Keypair {name} not found for user {user_id}")
    return dict(row)


def page(tx: Tx, user_id: str, *, limit: int, marker: str | None = None) -> list[Keypair]:
    """A user's keypairs by name, after the one named `marker`. Raises `Malformed` for the marker."""
    statement = select(keypair).where(keypair.c.user_id == user_id)
    if marker is not None:
        known = select(keypair.c.number).where(keypair.c.user_id == user_id, keypair.c.name == marker)
        if tx.execute(known).first() is None:
            raise Malformed(f"marker [{marker}] not found")
        statement = statement.where(keypair.c.name > marker)
    rows = tx.execute(statement.order_by(keypair.c.name).limit(limit)).mappings()
    return [dict(row) for row in rows]


def remove(tx: Tx, user_id: str, name: str) -> None:
    """Raises `NotFound`."""
    statement = delete(keypair).where(keypair.c.user_id == user_id, keypair.c.name == name)
    if tx.execute(statement.returning(keypair.c.number)).first() is None:
        raise NotFound(f"Keypair {name} not found for user {user_id}")
