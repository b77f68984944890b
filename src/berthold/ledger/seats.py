"""Seats and places: what a member of a group must hold before it may claim a host.

`RULES` says for each policy what a claim has to take and `leave` gives up what the last
claim of a member on a host held. A seat (G1) is one of the `per_host` numbered places of an
anti-affinity group on a host. A place (G2) is the one home of an affinity group or, while
the whole group moves, its one next home.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, delete, exists, func, or_, select, update

from berthold.errors import Refused
from berthold.ledger import schema
from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Insert, Tx
from berthold.ledger.verdicts import Again

seat = schema.seat
place = schema.group_place
group = schema.server_group
claim = schema.claim
server = schema.server

MEMBER = Prepared(
    select(server.c.id, server.c.rule, server.c.group_id, group.c.name, group.c.per_host)
    .select_from(server.outerjoin(group, server.c.group_id == group.c.id))
    .where(server.c.id == bindparam("server"))
)
HELD = Prepared(
    select(seat.c.seat).where(
        seat.c.group_id == bindparam("group"),
        seat.c.domain == bindparam("host"),
        seat.c.server_id == bindparam("server"),
    )
)
TAKE = Prepared(
    Insert(
        seat,
        lambda row: row.on_conflict_do_nothing(index_elements=["group_id", "domain", "seat"]).returning(
            seat.c.seat
        ),
    )
)

HOLDERS = (
    select(claim.c.host_id, func.count(func.distinct(claim.c.server_id)))
    .select_from(server.join(claim, claim.c.server_id == server.c.id))
    .where(server.c.group_id == bindparam("group"), server.c.id != bindparam("but"))
    .group_by(claim.c.host_id)
)


@dataclass(frozen=True)
class Member:
    """A server as its group's rule sees it; `group_id` is None for a server without a group."""

    server_id: str
    rule: str
    group_id: str | None
    group_name: str | None
    per_host: int

    @property
    def group(self) -> str:
        """Its group's id, for those who know that it has one."""
        assert self.group_id is not None, f"server {self.server_id} has no group"
        return self.group_id


def take_seat(tx: Tx, member: Member, host_id: str, host_name: str) -> None:
    """G1: a seat on the host, the member's own one if it has it already. Raises `Refused` G1."""
    held = {"group": member.group, "host": host_id, "server": member.server_id}
    if HELD.row(tx, held):
        return
    for number in range(1, member.per_host + 1):
        row = {
            "group_id": member.group,
            "domain": host_id,
            "seat": number,
            "per_host": member.per_host,
            "server_id": member.server_id,
        }
        if TAKE.row(tx, row):
            return
    raise Refused(
        "G1",
        f"Anti-affinity instance group policy was violated (G1): host {host_name} already holds"
        f" {member.per_host} of group {member.group_name} ({member.group_id})",
    )


def take_place(tx: Tx, member: Member, host_id: str, host_name: str) -> None:
    """G2: the host is, or becomes, one of the group's places. The caller holds the group's row.

    A first member settles the group's home. A member that has a home elsewhere may only go
    if it is the whole group (`begin_moving`). Raises `Refused` G2.
    """
    places = {
        row.role: row.host_id
        for row in tx.execute(select(place.c.role, place.c.host_id).where(place.c.group_id == member.group))
    }
    moving = tx.execute(select(group.c.moving).where(group.c.id == member.group)).scalar()
    if host_id in places.values():
        return
    if "home" not in places:
        role = "home"
    elif moving and "next" not in places:
        role = "next"
    else:
        raise Refused(
            "G2",
            f"Affinity instance group policy was violated (G2): group {member.group_name} ({member.group_id})"
            f" does not live on host {host_name}",
        )
    tx.execute(place.insert().values(group_id=member.group, role=role, host_id=host_id))


# What a claim must take, by the server's rule. Soft policies are preferences (G3).
RULES: Mapping[str, Callable[[Tx, Member, str, str], None]] = {
    "anti-affinity": take_seat,
    "affinity": take_place,
}


# A preference that is kept where it can be: parallel requests see each other (G3).
SOFT = frozenset({"soft-affinity", "soft-anti-affinity"})


def member_of(tx: Tx, server_id: str) -> Member:
    """The server's rule and group, as they are now."""
    row = MEMBER.row(tx, {"server": server_id})
    assert row is not None, f"there is no server {server_id}"
    _, rule, group_id, name, per_host = row
    return Member(server_id, rule, group_id, name, per_host or 1)


_FLIGHT = "flight from "


def flight_from(host_id: str) -> str:
    """What an affinity group moves for while its members are evacuated from that host, one by one: each
    joins it, until the last has left."""
    return f"{_FLIGHT}{host_id}"


def flown_from(moving: str | None) -> str | None:
    """The id of the host from which a group flees, of what its row says that it moves for."""
    return moving.removeprefix(_FLIGHT) if moving and moving.startswith(_FLIGHT) else None


# The policies under which the history tells a claim of a member of such a group, and of one that
# moves as a whole.
FLEEING = "affinity in flight"
WHOLE = "affinity as a whole"


def is_fleeing(tx: Tx, group_id: str) -> bool:
    """Whether the group, whose row is held, is being evacuated."""
    moving = tx.execute(select(group.c.moving).where(group.c.id == group_id)).scalar()
    return flown_from(moving) is not None


def enter(tx: Tx, group_id: str, by: str | None, flight: str | None = None) -> str | None:
    """Hold the affinity group's row; what it moves for. Raises `Refused` G2 while that is neither the
    move `by` nor this `flight`."""
    row = tx.execute(
        update(group)
        .where(
            group.c.id == group_id,
            or_(group.c.moving.is_(None), group.c.moving.in_([by or "", flight or ""])),
        )
        .values(generation=group.c.generation + 1)
        .returning(group.c.moving)
    ).first()
    if row is None:
        must_stand(tx, group_id)
        raise Refused("G2", f"group {group_id} is moving; try again when it has arrived", wait=True)
    moving: str | None = row.moving
    return moving


def must_stand(tx: Tx, group_id: str) -> None:
    """G4: a claim whose group was deleted since it looked is judged again, without the rule."""
    if tx.execute(select(group.c.id).where(group.c.id == group_id)).first() is None:
        raise Again(f"group {group_id} was deleted")


def choose(tx: Tx, member: Member, seen: int | None) -> None:
    """G3: whoever ranks after this sees that a place was chosen. Raises `Refused` G3 when somebody has
    chosen since generation `seen`; with None whatever was seen will do."""
    chosen = (
        update(group)
        .where(group.c.id == member.group, *([] if seen is None else [group.c.generation == seen]))
        .values(generation=group.c.generation + 1)
        .returning(group.c.id)
    )
    if tx.execute(chosen).first() is None:
        must_stand(tx, member.group)
        raise Refused(
            "G3", f"another member of group {member.group_name} chose its host a moment ago", wait=True
        )


def begin_moving(tx: Tx, group_id: str, by: str, members: int | None = None) -> None:
    """The whole group is on its way for move `by`; `members`: how many they must be. Raises `Refused` G2.

    Guarded by the group's row: whoever joins meanwhile waits, then sees that it moves.
    """
    row = tx.execute(
        update(group)
        .where(
            group.c.id == group_id,
            or_(group.c.moving.is_(None), group.c.moving == by),
            *([] if members is None else [group.c.members == members]),
        )
        .values(moving=by, generation=group.c.generation + 1)
        .returning(group.c.id)
    ).first()
    if row is None:
        must_stand(tx, group_id)
        if tx.execute(select(group.c.moving).where(group.c.id == group_id)).scalar():
            raise Refused("G2", f"group {group_id} is moving; try again when it has arrived", wait=True)
        raise Refused(
            "G2",
            f"Affinity instance group policy was violated (G2): group {group_id} has other members, which"
            " would stay behind",
        )


def leave(tx: Tx, group_id: str, domain: str | None, at: str | None, server_id: str) -> None:
    """Give up what the member's claim held, unless another claim still rests on it."""
    if domain:
        tx.execute(
            delete(seat).where(
                seat.c.group_id == group_id,
                seat.c.domain == domain,
                seat.c.server_id == server_id,
                ~exists().where(
                    claim.c.group_id == seat.c.group_id,
                    claim.c.domain == seat.c.domain,
                    claim.c.server_id == seat.c.server_id,
                ),
            )
        )
    if at:
        _leave_place(tx, group_id, at)


def _leave_place(tx: Tx, group_id: str, host_id: str) -> None:
    """The caller holds the group's row. The last place left is the home, and the group stands."""
    mine = place.c.group_id == group_id
    tx.execute(
        delete(place).where(
            mine,
            place.c.host_id == host_id,
            ~exists().where(claim.c.group_id == group_id, claim.c.place == host_id),
        )
    )
    left = tx.execute(select(place.c.role).where(mine)).scalars().all()
    if left == ["next"]:
        tx.execute(update(place).where(mine).values(role="home"))
    if len(left) <= 1:
        tx.execute(update(group).where(group.c.id == group_id).values(moving=None))


def clear(tx: Tx, group_id: str, members: Sequence[str] | None = None) -> None:
    """Remove every seat and place of the group, or every seat of these members."""
    seats = delete(seat).where(seat.c.group_id == group_id)
    if members is not None:
        tx.execute(seats.where(seat.c.server_id.in_(members)))
        return
    tx.execute(seats)
    tx.execute(delete(place).where(place.c.group_id == group_id))


def hold(tx: Tx, group_id: str) -> None:
    """Hold the group's row, whatever it does."""
    tx.execute(update(group).where(group.c.id == group_id).values(generation=group.c.generation + 1))


def holders(tx: Tx, group_id: str, but: str | None = None) -> dict[str, int]:
    """How many members (`but` one) hold a claim on each host, moves in flight included."""
    rows = tx.execute(HOLDERS, {"group": group_id, "but": but or ""})
    return {row[0]: row[1] for row in rows}
