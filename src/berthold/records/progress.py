"""How far live migrations have come: what agents say with their heartbeats, written once a second."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import delete, select

from berthold.ledger import schema
from berthold.ledger.conditions import IS_UNFINISHED
from berthold.ledger.store import Tx, insert, now
from berthold.records.schema import progress

AMOUNTS = tuple(column.name for column in progress.c if column.name.endswith("_bytes"))


def write(tx: Tx, told: Mapping[str, tuple[str, Mapping[str, int]]]) -> None:
    """`told`: ask id → (the host that said it, the amounts). What a host says of another's ask, or of
    one that is over, counts for nothing; what is known of moves that are over is forgotten."""
    ask, move = schema.ask, schema.move
    open_asks = select(ask.c.id, ask.c.host_id, ask.c.move_id).where(
        ask.c.id.in_(sorted(told)), ask.c.state == "open"
    )
    rows = [
        {"move_id": row.move_id, **{name: told[row.id][1][name] for name in AMOUNTS}}
        for row in tx.execute(open_asks.order_by(ask.c.move_id))
        if row.host_id == told[row.id][0]
    ]
    for row in rows:
        statement = insert(tx, progress).values(told_at=now(tx), **row)
        changed = {name: statement.excluded[name] for name in (*AMOUNTS, "told_at")}
        tx.execute(statement.on_conflict_do_update(index_elements=["move_id"], set_=changed))
    going_on = select(move.c.id).where(IS_UNFINISHED)
    tx.execute(delete(progress).where(progress.c.move_id.not_in(going_on)))


def of(tx: Tx, move_ids: Collection[str]) -> dict[str, Mapping[str, Any]]:
    """What is known of these moves, by move: the amounts (`memory_total_bytes` …) and `told_at`."""
    rows = tx.execute(select(progress).where(progress.c.move_id.in_(sorted(move_ids)))).mappings()
    return {row["move_id"]: dict(row) for row in rows}
