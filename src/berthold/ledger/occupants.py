"""Who holds places on hosts, and what each has under way: for whoever is to be told what blocks a place, or
may wait until it blocks it no longer.

Reads only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from sqlalchemy import and_, bindparam, select

from berthold.ledger import claims, queue, schema
from berthold.ledger.conditions import IS_UNFINISHED
from berthold.ledger.store import Tx, moment

claim, server, host, move = schema.claim, schema.server, schema.host, schema.move

Row = Mapping[str, Any]

COLUMNS = (
    claim.c.host_id,
    host.c.name.label("host"),
    claim.c.role,
    server.c.id,
    server.c.name,
    server.c.project_id,
    move.c.id.label("move_id"),
    move.c.kind,
    move.c.playbook,
    move.c.state,
)


def of_group(tx: Tx, group_id: str) -> list[Row]:
    """Every claim of the group's members, by host: server, role, and the server's unfinished move."""
    rows = (
        select(*COLUMNS)
        .select_from(
            claim.join(server, server.c.id == claim.c.server_id)
            .join(host, host.c.id == claim.c.host_id)
            .outerjoin(move, and_(move.c.server_id == server.c.id, IS_UNFINISHED))
        )
        .where(server.c.group_id == group_id)
        .order_by(host.c.name, server.c.name, server.c.id, claim.c.id)
    )
    return [dict(row) for row in tx.execute(rows).mappings()]


def others(tx: Tx, group_id: str, but: str) -> dict[str, list[dict[str, Any]]]:
    """The group's members (`but` one) by the name of each host that they hold a place on, to be kept."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in of_group(tx, group_id):
        if row["id"] != but:
            kept = ("id", "name", "role", "move_id", "kind", "playbook", "state")
            found[row["host"]].append({name: row[name] for name in kept})
    return dict(found)


# The text of the states lets the partial index be used.
ON_THE_MOVE = (
    select(
        *COLUMNS,
        claim.c.id.label("claim_id"),
        claim.c.group_id,
        move.c.source_id,
        move.c.target_id,
        queue.STANDS.label("waits"),
        *(claim.c[column] for column in claims.AMOUNTS.values()),
    )
    .select_from(
        move.join(claim, claim.c.server_id == move.c.server_id)
        .join(server, server.c.id == move.c.server_id)
        .join(host, host.c.id == claim.c.host_id)
    )
    .where(IS_UNFINISHED, claim.c.server_id != bindparam("but"))
    .order_by(host.c.name, server.c.name, server.c.id, claim.c.id)
)


def on_the_move(tx: Tx, but: str = "") -> list[Row]:
    """Every claim of servers with an unfinished move (`but` one server's), with its `resources`, the
    move's source and target, and whether that `waits` for a place."""
    rows = tx.execute(ON_THE_MOVE, {"but": but, "present": moment(tx)}).mappings()
    return [{**row, "resources": claims.resources_of(dict(row))} for row in rows]
