"""Servers: the record, what their project pays for them, and what they are at rest.

What users see of a server that is on the move is derived (`moves/status.py`), never stored.
A deleted server keeps its row so that its history can be told; it is in no group, pays for
nothing and holds no live claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Select, bindparam, select, update

from berthold.errors import NotFound
from berthold.ledger import claims, groups, quotas, schema
from berthold.ledger.conditions import IS_UNFINISHED
from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Tx, clock_of, moment, now

server = schema.server

INSERT = Prepared(server.insert())
FIND = Prepared(select(server).where(server.c.id == bindparam("server")))
HOLD_MOVE = Prepared(
    select(schema.move.c.number)
    .where(schema.move.c.server_id == bindparam("server"), IS_UNFINISHED)
    .with_for_update()
)
HOLD = Prepared(
    select(server)
    .where(server.c.id == bindparam("server"), server.c.deleted_at.is_(None))
    .with_for_update(key_share=True)
)
# A server with its claims: one row for each, one for a server without any.
WITH_CLAIMS = Prepared(
    select(*server.c, *claims.OF_SERVER.selected_columns)
    .select_from(
        server.outerjoin(schema.claim, schema.claim.c.server_id == server.c.id).outerjoin(
            schema.host, schema.host.c.id == schema.claim.c.host_id
        )
    )
    .where(server.c.id == bindparam("server"))
    .order_by(schema.claim.c.host_id, schema.claim.c.id)
)
CHANGE = Prepared(update(server).where(server.c.id == bindparam("of_server")))


def create(
    tx: Tx,
    *,
    project_id: str,
    group_id: str | None,
    flavor: Mapping[str, Any],
    may_wait: bool = False,
    **columns: Any,
) -> str:
    """A server that has no place yet; its id. It joins its group and is charged to its project.

    Raises `Refused` Q1, or G2 while its group moves, unless it may wait for a place; `NotFound` for the
    group.
    """
    rule = groups.join(tx, group_id, may_wait=may_wait) if group_id else "none"
    quotas.charge(tx, project_id, instances=1, cores=flavor["vcpus"], ram=flavor["ram"])
    new, present = clock_of(tx).new_id(), moment(tx)
    row = {
        "id": new,
        "project_id": project_id,
        "group_id": group_id,
        "rule": rule,
        "condition": "building",
        "flavor": dict(flavor),
        "cores": flavor["vcpus"],
        "ram": flavor["ram"],
        "created_at": present,
        "updated_at": present,
        **columns,
    }
    INSERT.change(tx, row)
    return new


def hold(tx: Tx, server_id: str) -> Mapping[str, Any]:
    """Hold the server's row (M3: every begin and every delete does this first); the row.

    Raises `NotFound` for a server that is deleted or never was.
    """
    # A conductor holds its move and then changes the server: the move first, here too. And a
    # lock that lets foreign keys look, since the claim in its hands refers to the server.
    HOLD_MOVE.row(tx, {"server": server_id})
    row = HOLD.mapping(tx, {"server": server_id})
    if row is None:
        raise NotFound(f"Instance {server_id} could not be found.")
    return row


def of_group(tx: Tx, group_id: str) -> list[Mapping[str, Any]]:
    """The rows of all members of the group."""
    return [dict(row) for row in tx.execute(_members(group_id)).mappings()]


def hold_members(tx: Tx, group_id: str) -> list[Mapping[str, Any]]:
    """Hold the rows of all members of the group, in one order: until the transaction ends nothing is
    begun for any of them. The caller holds the group's row."""
    rows = tx.execute(_members(group_id).with_for_update(key_share=True)).mappings()
    return [dict(row) for row in rows]


def _members(group_id: str) -> Select[Any]:
    members = select(server).where(server.c.group_id == group_id, server.c.deleted_at.is_(None))
    return members.order_by(server.c.id)


def find(tx: Tx, server_id: str) -> Mapping[str, Any] | None:
    """The row, deleted or not."""
    return FIND.mapping(tx, {"server": server_id})


def with_claims(tx: Tx, server_id: str) -> tuple[Mapping[str, Any], tuple[claims.Claim, ...]] | None:
    """`find`, and every claim of the server, as `claims.of_server` gives them, in one look."""
    rows = WITH_CLAIMS.rows(tx, {"server": server_id})
    if not rows:
        return None
    names = server.c.keys()
    standing = (row[len(names) :] for row in rows)
    found = tuple(claims.Claim(*each) for each in standing if each[0] is not None)
    return dict(zip(names, rows[0], strict=False)), found


def change(tx: Tx, server_id: str, **columns: Any) -> None:
    """Write columns that no promise rests on (name, metadata, condition, ports, fault …)."""
    assert not columns.keys() & {"group_id", "rule", "cores", "ram", "project_id"}, columns.keys()
    CHANGE.change(tx, {"of_server": server_id, "updated_at": moment(tx), **columns})


def recharge(tx: Tx, server_id: str, cores: int, ram: int) -> None:
    """The project pays for `cores` and `ram` (MiB) from now on. Raises `Refused` Q1 if it may not."""
    row = tx.execute(
        select(server.c.project_id, server.c.cores, server.c.ram)
        .where(server.c.id == server_id)
        .with_for_update()
    ).one()
    more = {"cores": cores - row.cores, "ram": ram - row.ram}
    quotas.charge(tx, row.project_id, **{what: n for what, n in more.items() if n > 0})
    if less := {what: -n for what, n in more.items() if n < 0}:
        quotas.give_back(tx, row.project_id, **less)
    tx.execute(update(server).where(server.c.id == server_id).values(cores=cores, ram=ram))


def hold_bill(tx: Tx, server_id: str) -> None:
    """Hold what `bury` will change (group, server, project) before any host is locked."""
    bill = select(server.c.project_id, server.c.group_id).where(server.c.id == server_id)
    group, project = schema.server_group, schema.project
    tx.execute(select(group.c.id).where(group.c.id == tx.execute(bill).one().group_id).with_for_update())
    row = tx.execute(bill.with_for_update()).one()  # its group may have been deleted; it gets no other
    tx.execute(select(project.c.id).where(project.c.id == row.project_id).with_for_update())


def bury(tx: Tx, server_id: str) -> None:
    """The server is deleted: out of its group, off its project's bill. Repeated it does nothing.

    What it left behind on a fenced host keeps its capacity and follows no rule any more.
    """
    row = (
        tx.execute(
            select(server.c.project_id, server.c.group_id, server.c.cores, server.c.ram)
            .where(server.c.id == server_id, server.c.deleted_at.is_(None))
            .with_for_update()
        )
    ).first()
    if row is None:
        return
    if row.group_id:
        groups.part(tx, row.group_id)
        groups.defer_membership(tx)
    quotas.give_back(tx, row.project_id, instances=1, cores=row.cores, ram=row.ram)
    tx.execute(
        update(server)
        .where(server.c.id == server_id)
        .values(
            condition="deleted",
            group_id=None,
            rule="none",
            cores=0,
            ram=0,
            deleted_at=now(tx),
            updated_at=now(tx),
        )
    )
    if row.group_id:
        claims.end_rule(tx, row.group_id, [server_id])
