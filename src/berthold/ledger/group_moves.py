"""Whole-group moves as rows: where an affinity group goes, and how far it is (G2).

What a row means, and what is done about it, is in `berthold.moves.together`. A group is on one
such move at a time, which its row names from the transaction in which all places are claimed
to the one in which the last claim on the host it leaves is given up; until then nobody joins.

Locks: the group before its group move, that before the moves of its members.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import case, exists, select, text, update

from berthold.errors import NotFound, Refused
from berthold.ledger import schema, seats
from berthold.ledger.store import Tx, announce, clock_of, moment

group_move = schema.group_move
move = schema.move

# Whoever sees to group moves (`moves.together.tend`) is woken by this.
TOPIC = "group-moves"
UNDER_WAY = ("moving", "settling")


def begin(
    tx: Tx,
    *,
    group_id: str,
    source_id: str,
    target_id: str,
    request_id: str,
    user_id: str,
    project_id: str,
) -> str:
    """The whole group is on its way from the one host to the other; the group move's id. Holds the group.

    The caller claims a place on the target for every member in the same transaction. Raises
    `Refused` G2 while the group moves already.
    """
    new, present = clock_of(tx).new_id(), moment(tx)
    seats.begin_moving(tx, group_id, new)
    mine = (group_move.c.group_id == group_id) & group_move.c.state.in_(UNDER_WAY)
    if tx.execute(select(exists().where(mine))).scalar():
        # Its members have settled, and nobody has yet seen that it is done.
        raise Refused("G2", "the group has just arrived; try again in a moment", wait=True)
    row = {
        "id": new,
        "group_id": group_id,
        "source_id": source_id,
        "target_id": target_id,
        "goal_id": target_id,
        "state": "moving",
        "request_id": request_id,
        "user_id": user_id,
        "project_id": project_id,
        "created_at": present,
        "updated_at": present,
    }
    tx.execute(group_move.insert(), row)
    announce(tx, TOPIC)
    return new


def hold(tx: Tx, group_move_id: str) -> Mapping[str, Any]:
    """The row, held until the transaction ends. Raises `NotFound`."""
    row = tx.execute(select(group_move).where(group_move.c.id == group_move_id).with_for_update())
    found = row.mappings().first()
    if found is None:
        raise NotFound(f"There is no group move {group_move_id}.")
    return dict(found)


def find(tx: Tx, group_move_id: str) -> Mapping[str, Any]:
    """The row as it is, of a group move that there is."""
    return dict(tx.execute(select(group_move).where(group_move.c.id == group_move_id)).mappings().one())


def latest(tx: Tx, group_id: str) -> Mapping[str, Any] | None:
    """The group's move that is under way, or else the last one."""
    mine = select(group_move).where(group_move.c.group_id == group_id)
    # Clocks of several machines may not agree on which is the last; what is under way is.
    over = case((group_move.c.state == "done", 1), else_=0)
    newest = mine.order_by(over, group_move.c.created_at.desc(), group_move.c.id.desc()).limit(1)
    row = tx.execute(newest).mappings().first()
    return dict(row) if row else None


def unfinished(tx: Tx) -> list[str]:
    """Every group move that is not done, oldest first."""
    standing = select(group_move.c.id).where(text("state <> 'done'"))
    return list(tx.execute(standing.order_by(group_move.c.created_at, group_move.c.id)).scalars())


def members(tx: Tx, group_move_id: str, *, ended: bool = False) -> list[Mapping[str, Any]]:
    """The moves of its members that are not over; with `ended` those too."""
    mine = select(move).where(move.c.group_move_id == group_move_id)
    if not ended:
        mine = mine.where(move.c.state.in_(schema.UNFINISHED))
    return [dict(row) for row in tx.execute(mine.order_by(move.c.number)).mappings()]


def change(tx: Tx, group_move_id: str, **columns: Any) -> None:
    """Write columns of a row that the caller holds."""
    mine = update(group_move).where(group_move.c.id == group_move_id)
    tx.execute(mine.values(updated_at=moment(tx), **columns))
    announce(tx, TOPIC)


def scatter(tx: Tx, group_id: str) -> None:
    """G4: the group, whose row is held, is deleted; its members' moves end one by one."""
    mine = update(group_move).where(group_move.c.group_id == group_id, group_move.c.state.in_(UNDER_WAY))
    if tx.execute(mine.values(state="scattered", updated_at=moment(tx)).returning(group_move.c.id)).first():
        announce(tx, TOPIC)


def stands(tx: Tx, group_move_id: str) -> bool:
    """Whether a group still says that it is on this move."""
    named = select(schema.server_group.c.id).where(schema.server_group.c.moving == group_move_id)
    return tx.execute(named).first() is not None
