"""Whole-group moves as rows: where an affinity group goes, and how far it is (G2).

What a row means, and what is done about it, is in `berthold.moves.together`. A group is on one
such move at a time, which its row names from the transaction in which all places are claimed
to the one in which the last claim on the host it leaves is given up; until then nobody new gets a
place in it. A row that waits (M7) is named by nobody: its group is at rest, and open to all.

Locks: the group before its group move, that before the moves of its members.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import case, select, text, update

from berthold.errors import NotFound, Refused
from berthold.ledger import schema, seats
from berthold.ledger.conditions import IS_UNFINISHED
from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Tx, announce, clock_of, moment

group_move = schema.group_move
move = schema.move

# Whoever sees to group moves (`moves.together.tend`) is woken by this.
TOPIC = "group-moves"
UNDER_WAY = ("waiting", "moving", "settling")
TO_DO = Prepared(
    select(group_move.c.id).where(text("state <> 'done'")).order_by(group_move.c.created_at, group_move.c.id)
)


def begin(
    tx: Tx, *, group_id: str, source_id: str, target_id: str, waited: str | None = None, **who: str
) -> str:
    """The whole group is on its way from the one host to the other; the group move's id. Holds the group.

    The caller claims a place on the target for every member in the same transaction. `waited`: the
    group move that has waited for this; else `who` (request_id, user_id, project_id) asks for a new one.
    Raises `Refused` G2 while the group is on another.
    """
    whole = waited or clock_of(tx).new_id()
    seats.begin_moving(tx, group_id, whole)
    _must_be_the_only_one(tx, group_id, but=waited)
    ends = {"source_id": source_id, "target_id": target_id, "goal_id": target_id}
    if waited is None:
        _insert(tx, id=whole, group_id=group_id, state="moving", **ends, **who)
    elif hold(tx, waited)["state"] == "waiting":
        change(tx, waited, state="moving", **ends)
    else:
        raise Refused("G2", "the group does not wait any more")
    return whole


def wait(tx: Tx, *, group_id: str, source_id: str, wish: Mapping[str, Any], **who: str) -> str:
    """The whole group waits for a host (M7), as its `wish` says; the group move's id. Nothing is claimed,
    and the group stays open. Holds the group. Raises `Refused` G2 while the group is on another."""
    seats.hold(tx, group_id)
    seats.must_stand(tx, group_id)
    _must_be_the_only_one(tx, group_id)
    new = clock_of(tx).new_id()
    ends = {"source_id": source_id, "target_id": None, "goal_id": source_id}
    _insert(tx, id=new, group_id=group_id, state="waiting", wish=dict(wish), **ends, **who)
    return new


def _must_be_the_only_one(tx: Tx, group_id: str, but: str | None = None) -> None:
    """The caller holds the group."""
    mine = select(group_move.c.state).where(
        group_move.c.group_id == group_id,
        group_move.c.state.in_(UNDER_WAY),
        group_move.c.id != (but or ""),
    )
    state = tx.execute(mine).scalar()
    if state == "waiting":
        raise Refused("G2", "the group waits for a host already")
    if state is not None:
        # Its members have settled, and nobody has yet seen that it is done.
        raise Refused("G2", "the group has just arrived; try again in a moment", wait=True)


def _insert(tx: Tx, **columns: Any) -> None:
    present = moment(tx)
    tx.execute(group_move.insert(), {**columns, "created_at": present, "updated_at": present})
    announce(tx, TOPIC)


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
    return [row[0] for row in TO_DO.rows(tx, {})]


def members(tx: Tx, group_move_id: str, *, ended: bool = False) -> list[Mapping[str, Any]]:
    """The moves of its members that are not over; with `ended` those too."""
    mine = select(move).where(move.c.group_move_id == group_move_id)
    if not ended:
        mine = mine.where(IS_UNFINISHED)
    return [dict(row) for row in tx.execute(mine.order_by(move.c.number)).mappings()]


def change(tx: Tx, group_move_id: str, **columns: Any) -> None:
    """Write columns of a row that the caller holds."""
    mine = update(group_move).where(group_move.c.id == group_move_id)
    tx.execute(mine.values(updated_at=moment(tx), **columns))
    announce(tx, TOPIC)


def scatter(tx: Tx, group_id: str) -> None:
    """G4: the group, whose row is held, is deleted; its members' moves end one by one, and nobody waits
    for a host for all any more."""
    mine = update(group_move).where(group_move.c.group_id == group_id, group_move.c.state.in_(UNDER_WAY))
    if tx.execute(mine.values(state="scattered", updated_at=moment(tx)).returning(group_move.c.id)).first():
        announce(tx, TOPIC)


def stands(tx: Tx, group_move_id: str) -> bool:
    """Whether a group still says that it is on this move."""
    named = select(schema.server_group.c.id).where(schema.server_group.c.moving == group_move_id)
    return tx.execute(named).first() is not None
