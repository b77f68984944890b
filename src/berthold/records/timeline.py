"""Reading instance actions and their events: what was asked of a server, and what was done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from berthold.errors import Malformed
from berthold.ledger.store import Tx
from berthold.records.schema import action, event

Action = Mapping[str, Any]


def actions(
    tx: Tx,
    server_id: str,
    *,
    limit: int,
    marker: str | None = None,
    changed_since: float | None = None,
    changed_before: float | None = None,
) -> list[Action]:
    """A server's actions, newest first, older than the one with request id `marker`. Raises `Malformed`."""
    statement = select(action).where(action.c.server_id == server_id)
    if changed_since is not None:
        statement = statement.where(action.c.updated_at >= changed_since)
    if changed_before is not None:
        statement = statement.where(action.c.updated_at <= changed_before)
    if marker is not None:
        last = by_request(tx, server_id, marker)
        if last is None:
            raise Malformed(f"Marker {marker} could not be found.")
        statement = statement.where(action.c.number < last["number"])
    rows = tx.execute(statement.order_by(action.c.number.desc()).limit(limit)).mappings()
    return [dict(row) for row in rows]


def by_request(tx: Tx, server_id: str, request_id: str) -> Action | None:
    """The action that a request began on this server."""
    statement = select(action).where(action.c.server_id == server_id, action.c.request_id == request_id)
    row = tx.execute(statement.order_by(action.c.number.desc())).mappings().first()
    return dict(row) if row else None


def events(tx: Tx, number: int) -> list[Action]:
    """What was done for an action, latest first."""
    statement = select(event).where(event.c.action == number).order_by(event.c.number.desc())
    return [dict(row) for row in tx.execute(statement).mappings()]
