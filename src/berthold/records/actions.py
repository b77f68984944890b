"""Instance actions and their events: what was asked of a server, and what was done for it.

Written in the transactions that begin, advance and end moves, so they cannot disagree with
them. What is being done right now is not here but in the move (`moves/status.py`).
"""

from __future__ import annotations

from sqlalchemy import bindparam, update

from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Tx, moment
from berthold.records.schema import action, event

BEGIN = Prepared(action.insert().returning(action.c.number))
TOUCH = Prepared(update(action).where(action.c.number == bindparam("number_of")))
RECORD = Prepared(event.insert())


def begin(
    tx: Tx, *, request_id: str, server_id: str, move_id: str, name: str, user_id: str, project_id: str
) -> int:
    """Somebody asked for `name` (Nova's word: create, live-migration, migrate …); the action's number."""
    present = moment(tx)
    row = {
        "request_id": request_id,
        "server_id": server_id,
        "move_id": move_id,
        "action": name,
        "user_id": user_id,
        "project_id": project_id,
        "started_at": present,
        "updated_at": present,
    }
    begun = BEGIN.row(tx, row)
    assert begun is not None
    number: int = begun[0]
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
    present = moment(tx)
    row = {
        "action": number,
        "event": name,
        "result": "Error" if details else "Success",
        "host": host,
        "details": details,
        "traceback": traceback,
        "started_at": since,
        "finished_at": present,
    }
    RECORD.change(tx, row)
    TOUCH.change(tx, {"number_of": number, "updated_at": present})


def end(tx: Tx, number: int, *, failed: bool) -> None:
    """The action is over."""
    ended = {"message": "Error" if failed else None, "updated_at": moment(tx)}
    TOUCH.change(tx, {"number_of": number, **ended})
