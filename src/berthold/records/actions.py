"""Instance actions and their events: what was asked of a server, and what was done for it.

Written in the transactions that begin, advance and end moves, so they cannot disagree with
them. What is being done right now is not here but in the move (`moves/status.py`).
"""

from __future__ import annotations

from sqlalchemy import update

from berthold.ledger.store import Tx, now
from berthold.records.schema import action, event


def begin(
    tx: Tx, *, request_id: str, server_id: str, move_id: str, name: str, user_id: str, project_id: str
) -> int:
    """Somebody asked for `name` (Nova's word: create, live-migration, migrate …); the action's number."""
    number: int = tx.execute(
        action.insert()
        .values(
            request_id=request_id,
            server_id=server_id,
            move_id=move_id,
            action=name,
            user_id=user_id,
            project_id=project_id,
            started_at=now(tx),
            updated_at=now(tx),
        )
        .returning(action.c.number)
    ).scalar_one()
    return number


def record(
    tx: Tx,
    number: int,
    name: str,
    *,
    since: float,
    host: str | None,
    details: str | None = None,
    traceback: str | None = None,
) -> None:
    """A line came to its end; with `details`, to a bad one."""
    tx.execute(
        event.insert().values(
            action=number,
            event=name,
            result="Error" if details else "Success",
            host=host,
            details=details,
            traceback=traceback,
            started_at=since,
            finished_at=now(tx),
        )
    )
    tx.execute(update(action).where(action.c.number == number).values(updated_at=now(tx)))


def end(tx: Tx, number: int, *, failed: bool) -> None:
    """The action is over."""
    tx.execute(
        update(action)
        .where(action.c.number == number)
        .values(message="Error" if failed else None, updated_at=now(tx))
    )
