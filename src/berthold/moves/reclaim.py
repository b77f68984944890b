"""Servers whose time is set: the deleted that may still be restored, the shelved that still have a host.

Where an operator keeps deleted servers for a while, a delete is first a soft delete. When the
while is over a conductor deletes the server for good; of it and a restore the first to hold the
server's row wins, and the other finds that out there. What cannot be kept (never built, on no
host) is deleted at once. What cannot be kept as it is now (on the move, rescued, shelved) is not
deleted by that: nothing is lost that its owner did not mean to lose.

A shelved server's host is given back in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select

from berthold.errors import NotFound, WrongState
from berthold.ledger import claims, moves, schema, servers
from berthold.ledger.conditions import IS_ON_TIME, IS_UNFINISHED
from berthold.ledger.store import Store, Tx, clock_of, moment
from berthold.moves import begin, shelf
from berthold.moves.shelve import SHELVED_SINCE
from berthold.moves.soft_delete import SINCE
from berthold.settings import Settings

AT_ONCE = 100  # servers that one look finds


def soft_delete(tx: Tx, server_id: str, by: begin.By) -> None:
    """Begin to delete the server in a way that can be taken back; asked twice it is one.

    Raises `NotFound`, `WrongState`.
    """
    server = begin.hold(tx, server_id, by)
    move = moves.unfinished(tx, server_id)
    at_home = claims.home_of(tx, server_id) is not None
    if not at_home or server["condition"] == "building" or (move and move["kind"] == "delete"):
        begin.begin(tx, "delete", server_id, by, {})
    elif move and move["state"] == "waiting":
        begin.carry_on(tx, server_id, by, "confirm-and-soft-delete", "delete")
    elif not _already(server, move):
        try:
            begin.begin(tx, "soft-delete", server_id, by, {})
        except WrongState as refused:
            raise WrongState(f"{refused.message}; forceDelete does it, for good") from refused


def _already(server: Mapping[str, Any], move: Mapping[str, Any] | None) -> bool:
    if move is None:
        return bool(server["condition"] == "soft-deleted")
    return move["playbook"] in ("soft-delete", "confirm-and-soft-delete")


# -- When the time is over ----------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    """A server that is `condition` since `since` (in its details) is so for `seconds`."""

    condition: str
    since: str
    seconds: float


def terms(settings: Settings) -> list[Term]:
    """What this cloud ends by itself."""
    both = [
        Term("soft-deleted", SINCE, settings.reclaim_s),
        Term("shelved", SHELVED_SINCE, settings.shelved_offload_s),
    ]
    return [term for term in both if term.seconds > 0]


def overdue(tx: Tx, term: Term, only: str | None = None) -> list[str]:
    """Servers whose term is over (or `only` this one, if its is), as many as one look finds, the longest
    overdue first."""
    server, move = schema.server.c, schema.move.c
    under_way = select(move.id).where(move.server_id == server.id, IS_UNFINISHED)
    due_at = func.coalesce(server.details[term.since].as_float(), 0.0) + term.seconds
    due = (
        select(server.id)
        .where(
            IS_ON_TIME, server.condition == term.condition, server.deleted_at.is_(None), ~under_way.exists()
        )
        .where(due_at <= moment(tx))
        .order_by(due_at, server.id)
        .limit(AT_ONCE)
    )
    if only is not None:
        due = due.where(server.id == only)
    return list(tx.execute(due).scalars())


def end(tx: Tx, term: Term, server_id: str) -> str | None:
    """Delete a soft-deleted server for good, or give a shelved one's host back, if its term is still over
    now that its row is held; the move's id."""
    try:
        server = servers.hold(tx, server_id)
    except NotFound:
        return None
    if not overdue(tx, term, only=server_id):
        return None
    request = f"req-{clock_of(tx).new_id()}"
    by = begin.By(server["user_id"], server["project_id"], request, is_admin=True)
    if term.condition == "shelved":
        return shelf.offload(tx, server_id, by)
    return begin.begin(tx, "delete", server_id, by, {})


async def end_overdue(store: Store, settings: Settings) -> list[str]:
    """One look: begin what is due; the moves."""
    begun = []
    for term in terms(settings):
        for server_id in await store.read(overdue, term):
            if move := await store.write(end, term, server_id):
                begun.append(move)
    return begun
