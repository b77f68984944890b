"""Aborting a live migration: while the guest has not moved, the move is walked back.

An abort is a mark on the move, written under its row's lock; the runner reads it before it
goes on. While memory is being sent the agents decide: they end the sending and say where the
guest is, and if it runs on its new host already the abort comes too late and the move ends
as it was meant to.
"""

from __future__ import annotations

from berthold.errors import Malformed, NotFound, WrongState
from berthold.ledger import moves
from berthold.ledger.store import Tx, announce, clock_of
from berthold.moves.begin import By, cannot, hold
from berthold.moves.status import line_of, migration_status
from berthold.records import actions

# The migration statuses in which there is something to abort and a way back; before
# microversion 2.65 Nova knew the last one only.
ABORTABLE = frozenset({"queued", "preparing", "running"})


def abort(tx: Tx, server_id: str, number: int, by: By, *, only: frozenset[str] = ABORTABLE) -> None:
    """Let the server's live migration of that number be undone. Repeated it does nothing.

    Raises `WrongState` when the server is not being live-migrated, `NotFound` when that migration
    is not the one, `Malformed` (as Nova does) when its status is not one of `only`.
    """
    server = hold(tx, server_id, by)
    move = moves.unfinished(tx, server_id)
    live = move is not None and move["kind"] == "live-migration" and move["state"] in moves.WORKED_ON
    if move is None or not live or line_of(move).task != "migrating":
        raise WrongState(cannot("abort live migration", server, move))
    if move["number"] != number:
        raise NotFound(f"Migration {number} not found for instance {server_id}")
    if move["facts"].get("abort"):
        return
    status = migration_status(move)
    if move["state"] != "running" or status not in only:
        raise Malformed(
            f"Migration {number} state of instance {server_id} is {status}. Cannot abort live migration"
            " while the migration is in this state."
        )
    action = actions.begin(
        tx,
        request_id=by.request_id,
        server_id=server_id,
        move_id=move["id"],
        name="live_migration_cancel",
        user_id=by.user_id,
        project_id=by.project_id,
    )
    mark = {"action": action, "since": clock_of(tx).now()}
    moves.remember(tx, move["id"], {**move["facts"], "abort": mark})
    announce(tx, f"move:{move['id']}")
