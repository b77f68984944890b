"""Duties: what one process of many does for all, in turns.

Whoever finds the last turn over takes the next; a process that dies in its turn is followed by
another when that turn would have ended anyway. A turn has a number, so that one that slept
through it writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select, update

from berthold.ledger.store import Tx, insert, moment, now
from berthold.records.schema import duty


def take(tx: Tx, name: str, owner: str, seconds: float) -> int | None:
    """The number of the turn that begins now and lasts so long, if it is time for one."""
    first = {"name": name, "owner": "", "turn": 0, "until": 0}
    tx.execute(insert(tx, duty).values(first).on_conflict_do_nothing(index_elements=["name"]))
    row = tx.execute(
        update(duty)
        .where(duty.c.name == name, duty.c.until < now(tx))
        .values(owner=owner, turn=duty.c.turn + 1, until=now(tx) + seconds)
        .returning(duty.c.turn)
    ).first()
    return row.turn if row else None


def done(tx: Tx, name: str, turn: int) -> bool:
    """The turn is done to its end; whether it was still the caller's. Holds it until the commit."""
    row = tx.execute(
        update(duty)
        .where(duty.c.name == name, duty.c.turn == turn)
        .values(done_at=moment(tx))
        .returning(duty.c.turn)
    ).first()
    return row is not None


def last(tx: Tx, name: str) -> Mapping[str, Any] | None:
    """Whose turn it is or was, and when one was last `done_at` its end; None before the first."""
    row = tx.execute(select(duty).where(duty.c.name == name)).mappings().first()
    return dict(row) if row else None
