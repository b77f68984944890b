"""What an operator asks of the whole cloud: its unfinished moves, its hosts' troubles, its database.

Reads only, for the command line. Nothing here locks, so it may be asked of a cloud in trouble.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select, text

from berthold.ledger import schema
from berthold.ledger.conditions import IS_UNFINISHED
from berthold.ledger.store import IDLE_IN_TRANSACTION_MS, Tx, clock_of, now

Row = Mapping[str, Any]

# What the database must run with: setting → what it may be. Each connection asks for the first
# three (and, on PostgreSQL, the time-out) itself; the others are the server's own.
SQLITE_SETTINGS = {"foreign_keys": ("1",), "journal_mode": ("wal",), "synchronous": ("2", "3")}
POSTGRESQL_SETTINGS = {
    "idle_in_transaction_session_timeout": (str(IDLE_IN_TRANSACTION_MS),),
    "fsync": ("on",),
    "full_page_writes": ("on",),
    "synchronous_commit": ("on", "remote_write", "remote_apply"),
}


def unfinished_moves(tx: Tx) -> Sequence[Row]:
    """Every unfinished move, oldest first, with `server_name`, `source_name`, `target_name`, and
    `trouble`: what an agent or the move itself said last when something failed ("" if nothing did)."""
    move = schema.move
    rows = tx.execute(
        select(move, schema.server.c.name.label("server_name"))
        .join(schema.server, schema.server.c.id == move.c.server_id)
        .where(IS_UNFINISHED)
        .order_by(move.c.number)
    ).mappings()
    found: list[dict[str, Any]] = [dict(row) for row in rows]
    refusals = _refusals(tx, [row["id"] for row in found])
    names = {row.id: row.name for row in tx.execute(select(schema.host.c.id, schema.host.c.name))}
    for row in found:
        row["source_name"] = names.get(row["source_id"])
        row["target_name"] = names.get(row["target_id"])
        why = row["failure"].get("said") or row["failure"].get("message")
        row["trouble"] = why or refusals.get(row["id"], "")
    return found


def _refusals(tx: Tx, moves: list[str]) -> dict[str, str]:
    """What agents have answered last that was no success, by move."""
    ask = schema.ask.c
    answers = select(ask.move_id, ask.verb, ask.answer).where(ask.move_id.in_(moves), ask.state == "done")
    return {
        row.move_id: f"could not {row.verb}: {row.answer.get('reason') or 'it did not say why'}"
        for row in tx.execute(answers.order_by(ask.answered_at))
        if not row.answer.get("ok")
    }


def moves_by_state(tx: Tx) -> dict[str, int]:
    """How many unfinished moves are in each state."""
    state = schema.move.c.state
    rows = select(state, func.count()).where(IS_UNFINISHED).group_by(state)
    counted = {row[0]: row[1] for row in tx.execute(rows)}
    return {each: counted.get(each, 0) for each in schema.UNFINISHED}


def open_asks(tx: Tx, move_id: str) -> Sequence[Row]:
    """What agents were asked for the move and have not answered: `verb`, `asked_at`, the host's `name`
    and `status`, and when it was `heard_at` last."""
    ask, host, beat = schema.ask, schema.host, schema.heartbeat
    rows = (
        select(ask.c.verb, ask.c.asked_at, host.c.name, host.c.status, beat.c.heard_at)
        .select_from(
            ask.join(host, host.c.id == ask.c.host_id).outerjoin(beat, beat.c.host_id == ask.c.host_id)
        )
        .where(ask.c.move_id == move_id, ask.c.state == "open")
        .order_by(host.c.name, ask.c.seq)
    )
    return [dict(row) for row in tx.execute(rows).mappings()]


def homes_on(tx: Tx, host_id: str) -> int:
    """How many servers have their home there."""
    claim = schema.claim.c
    homes = select(claim.id).where(claim.host_id == host_id, claim.role == "home")
    return len(tx.execute(homes).all())


def present(tx: Tx) -> float:
    """The present by which leases are judged: the database's, or this machine's with SQLite."""
    return float(tx.execute(select(now(tx))).scalar_one())


def machine_time(tx: Tx) -> float:
    """The present by which hosts are silent: this machine's."""
    return clock_of(tx).now()


def skew(tx: Tx) -> float:
    """By how many seconds the database's clock is ahead of this machine's (half a round trip unsure)."""
    if tx.dialect.name == "sqlite":
        return 0.0
    before = clock_of(tx).now()
    theirs = present(tx)
    return theirs - (before + clock_of(tx).now()) / 2


def settings(tx: Tx) -> dict[str, tuple[str, Sequence[str]]]:
    """Each setting that promises rest on: what it is, and what it may be."""
    if tx.dialect.name == "sqlite":
        wanted: Mapping[str, Sequence[str]] = SQLITE_SETTINGS
        found = {name: str(tx.execute(text(f"PRAGMA {name}")).scalar_one()) for name in wanted}
    else:
        wanted = POSTGRESQL_SETTINGS
        rows = tx.execute(
            text("SELECT name, setting FROM pg_settings WHERE name = ANY(:names)"), {"names": list(wanted)}
        )
        found = {row.name: row.setting for row in rows}
    return {name: (value, wanted[name]) for name, value in sorted(found.items())}
