"""Who waits for a place, and who came first (M7).

A move that waits stands in the queue for every host that may come free for it. It holds nothing
there: what is free is free. But of those who want the same, whoever came later is refused while
an earlier one waits. *The same* is, on one host: a seat or place of one group, whoever asks; and
room, among those who would rather wait than fail. Tickets are the moves' own numbers. A row is
good until `until` and while its move looks for a place, so nobody waits for the dead.

Nobody waits in a circle: moves begin to wait one after another (`alone`), and each only for
moves that do not wait themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import and_, bindparam, delete, exists, or_, select, text

from berthold.errors import Refused
from berthold.ledger import schema
from berthold.ledger.store import Tx, announce, moment

queue = schema.queue
move = schema.move

# What `alone` holds on PostgreSQL; SQLite has one writer in any case.
ALONE = text("SELECT pg_advisory_xact_lock(hashtext('berthold queue'))")
LAST = 2**63 - 1

GOOD = and_(queue.c.until > bindparam("present"), text("move.state = 'running'"))
BEFORE = (
    select(queue.c.host_id)
    .join(move, move.c.id == queue.c.move_id)
    .where(GOOD, queue.c.ticket < bindparam("ticket"))
)
SAME_GROUP = queue.c.group_id == bindparam("group")
# For the asker that would fail at once, and for the one that would wait.
IN_THE_WAY = {False: BEFORE.where(SAME_GROUP), True: BEFORE.where(or_(SAME_GROUP, queue.c.room))}
# Whether a move stands in the queue; it needs the moment as `present`.
STANDS = exists().where(queue.c.move_id == move.c.id, GOOD)
LEAVE = delete(queue).where(queue.c.move_id == bindparam("move")).returning(queue.c.host_id)
AT = queue.c.host_id == bindparam("host")
IN_THE_WAY_AT = {patient: before.where(AT) for patient, before in IN_THE_WAY.items()}


def ahead(tx: Tx, ticket: int | None, group_id: str | None, *, patient: bool) -> frozenset[str]:
    """The hosts for which somebody waits who came before `ticket` (None: after all others) and wants
    the same: a place of that group, or room if the asker is `patient`, so would wait for it."""
    return frozenset(tx.execute(IN_THE_WAY[patient], _asker(moment(tx), None, ticket, group_id)).scalars())


def let_go_first(
    tx: Tx, host_id: str, host_name: str, ticket: int | None, group_id: str | None, *, patient: bool
) -> None:
    """Raises `Refused` M7 if somebody who came earlier waits for that host. The caller holds it."""
    if tx.execute(IN_THE_WAY_AT[patient], _asker(moment(tx), host_id, ticket, group_id)).first():
        raise Refused("M7", f"another server came first and waits for a place on host {host_name}", wait=True)


def _asker(present: float, host_id: str | None, ticket: int | None, group_id: str | None) -> dict[str, Any]:
    """Who wants the same, as `IN_THE_WAY` and `IN_THE_WAY_AT` ask for it."""
    return {
        "host": host_id,
        "present": present,
        "ticket": LAST if ticket is None else ticket,
        "group": group_id,
    }


def alone(tx: Tx) -> None:
    """Nobody else begins to wait until this transaction ends. Take it last: its holder locks nothing."""
    if tx.dialect.name == "postgresql":
        tx.execute(ALONE)


def waiting(tx: Tx, move_ids: Collection[str]) -> set[str]:
    """Those of these moves that wait."""
    rows = select(queue.c.move_id).join(move, move.c.id == queue.c.move_id)
    mine = queue.c.move_id.in_(list(move_ids))
    return set(tx.execute(rows.where(mine, GOOD), {"present": moment(tx)}).scalars())


def stand(
    tx: Tx, move_id: str, ticket: int, group_id: str | None, hosts: Mapping[str, bool], seconds: float
) -> None:
    """The move waits for a place on one of `hosts`, for so long (host id → whether it is room that it
    waits for there), and for no other. The caller holds the move and is `alone`."""
    standing = dict(tx.execute(select(queue.c.host_id, queue.c.room).where(queue.c.move_id == move_id)).all())
    if standing == dict(hosts):
        return
    tx.execute(delete(queue).where(queue.c.move_id == move_id))
    _tell(tx, standing.keys() - hosts.keys())
    for host_id, room in sorted(hosts.items()):
        row = {"move_id": move_id, "host_id": host_id, "ticket": ticket, "group_id": group_id, "room": room}
        tx.execute(queue.insert().values(**row, until=moment(tx) + seconds))


def leave(tx: Tx, move_id: str) -> None:
    """The move waits no longer, and those behind it may look again. The caller holds the move."""
    _tell(tx, tx.execute(LEAVE, {"move": move_id}).scalars().all())


def _tell(tx: Tx, hosts: Collection[str]) -> None:
    for host_id in sorted(hosts):
        announce(tx, f"host:{host_id}")
