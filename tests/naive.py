"""Deliberately naive ledgers, each with one of the holes R1 to R14 that were found in the reference.

Each function is a `with` block in which this process keeps the group rules as naively as the
reference does at that place, and gives the tables to make a cloud of: those of the ledger
without the constraints that would refuse. For tests only, which show that the hole is found
there and is not there in ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from sqlalchemy import MetaData, select

from berthold.database import metadata
from berthold.errors import Refused
from berthold.lab.racers import Racer
from berthold.lab.strategies import unguarded_metadata
from berthold.lab.world import World
from berthold.ledger import claims, groups, moves, schema, seats, view
from berthold.ledger.store import Tx
from berthold.moves import placing
from berthold.scheduler import candidates
from berthold.scheduler.filters import FILTERS, Filter
from berthold.scheduler.request import Request

claim, host, server, group = schema.claim, schema.host, schema.server, schema.server_group

Rule = Callable[[Tx, seats.Member, str, str], None]
Exempt = Callable[[Tx, seats.Member, str, str], bool]


def never(tx: Tx, member: seats.Member, host_id: str, host_name: str) -> bool:
    """Nobody is exempt from the rule."""
    return False


def others(tx: Tx, member: seats.Member, host_id: str, *roles: str) -> list[str]:
    """The other members that have a claim (in one of these roles) on the host."""
    c = claim.c
    there = select(c.server_id).where(
        c.group_id == member.group, c.host_id == host_id, c.server_id != member.server_id
    )
    return list(tx.execute(there.where(c.role.in_(roles)) if roles else there).scalars())


def look(*roles: str, but: Exempt = never) -> Rule:
    """A rule that is a look: refuse a host where another member is seen, with exemptions."""

    def rule(tx: Tx, member: seats.Member, host_id: str, host_name: str) -> None:
        if but(tx, member, host_id, host_name):
            return
        if seen := others(tx, member, host_id, *roles):
            raise Refused("G1", f"host {host_name} holds {len(seen)} of the group already")

    return rule


@contextmanager
def ledger(
    rules: Mapping[str, Rule], *patches: tuple[object, str, object], tables: MetaData | None = None
) -> Iterator[MetaData]:
    """A ledger in which these are the rules and these things are replaced."""
    with ExitStack() as stack:
        for where, name, what in ((seats, "RULES", rules), *patches):
            stack.enter_context(patch.object(where, name, what))
        yield unguarded_metadata() if tables is None else tables


# -- Where the rule is looked at, and when -------------------------------------------------


@contextmanager
def check_before_publish() -> Iterator[MetaData]:
    """R1. The look sees everybody, moves in flight too; what it saw is not asked again by the claim."""
    with ledger({}) as tables:
        yield tables


@contextmanager
def no_check_on_unshelve() -> Iterator[MetaData]:
    """R2. Each claim looks once more, under the host's lock; but that of an unshelve."""

    def comes_off_the_shelf(tx: Tx, member: seats.Member, host_id: str, host_name: str) -> bool:
        condition = select(server.c.condition).where(server.c.id == member.server_id)
        return bool(tx.execute(condition).scalar_one() == "shelved_offloaded")

    with ledger({"anti-affinity": look(but=comes_off_the_shelf)}) as tables:
        yield tables


@contextmanager
def affinity_looks_at_homes() -> Iterator[MetaData]:
    """R3. Each claim looks where members live; under a lock of the host that it goes to, and first
    members go to different hosts."""
    with ledger({}, (view, "places_of_group", homes_of_group)) as tables:
        yield tables


@contextmanager
def no_check_on_revert() -> Iterator[MetaData]:
    """R4. Counted is where members live. Where one may yet return to is free, and nobody looks when it
    does return."""
    with ledger({"anti-affinity": look("home", "target")}, (seats, "holders", holders_at_home)) as tables:
        yield tables


@contextmanager
def no_check_between_cells() -> Iterator[MetaData]:
    """R5. Each claim looks; but that of a move to another cell. (Cells are zones here.)"""

    def crosses(tx: Tx, member: seats.Member, host_id: str, host_name: str) -> bool:
        return zone_of(tx, host_id) not in zones_of(tx, member.server_id)

    with ledger({"anti-affinity": look(but=crosses)}) as tables:
        yield tables


@contextmanager
def own_host_is_always_lawful() -> Iterator[MetaData]:
    """R12. Each claim looks; but where the server is already, everything is taken to be in order."""

    def is_there(tx: Tx, member: seats.Member, host_id: str, host_name: str) -> bool:
        mine = select(claim.c.id).where(claim.c.server_id == member.server_id, claim.c.host_id == host_id)
        return tx.execute(mine).first() is not None

    with ledger({"anti-affinity": look(but=is_there)}) as tables:
        yield tables


@contextmanager
def a_forced_target_skips_the_rule() -> Iterator[MetaData]:
    """R13. Scheduler and claim look; but not at a host that the caller named."""

    def is_named(tx: Tx, member: seats.Member, host_id: str, host_name: str) -> bool:
        move = moves.unfinished(tx, member.server_id)
        return move is not None and move["wish"].get("host") == host_name

    def unless_named(filter: Filter) -> Filter:
        def passes(request: Request, sight: Any) -> Any:
            return filter.passes(request, sight) if request.host is None else None

        def refuse(request: Request, one: Any, sight: Any) -> str | None:
            return filter.refuse(request, one, sight) if request.host is None else None

        return replace(filter, passes=passes, refuse=refuse)

    filters = tuple(unless_named(each) if each.name == "group" else each for each in FILTERS)
    with ledger({"anti-affinity": look(but=is_named)}, (candidates, "FILTERS", filters)) as tables:
        yield tables


@contextmanager
def members_of_one_shard() -> Iterator[MetaData]:
    """R14. Scheduler and claim look, in the shard of the server that moves. (Shards are zones here.)"""

    def seen(tx: Tx, group_id: str, but: str | None = None) -> dict[str, int]:
        mine = zones_of(tx, but or "")
        counted = holders(tx, group_id, but)
        return {each: number for each, number in counted.items() if zone_of(tx, each) in mine}

    def elsewhere(tx: Tx, member: seats.Member, host_id: str, host_name: str) -> bool:
        return zone_of(tx, host_id) not in zones_of(tx, member.server_id)

    holders = seats.holders
    rule = look(but=elsewhere)
    with ledger({"anti-affinity": rule}, (seats, "holders", seen)) as tables:
        yield tables


@contextmanager
def rule_switched_off() -> Iterator[MetaData]:
    """R7. The rule is one of the scheduler's filters, and somebody has left it out."""
    with ledger({}, filters_without_the_groups()) as tables:
        yield tables


@contextmanager
def soft_without_generation() -> Iterator[MetaData]:
    """R9. What a soft policy's ranking saw is not asked again by the claim."""
    survey = placing.survey

    def forgetful(*args: Any, **kwargs: Any) -> placing.Survey:
        return replace(survey(*args, **kwargs), group_generation=None)

    with ledger(seats.RULES, (placing, "survey", forgetful), tables=metadata) as tables:
        yield tables


@contextmanager
def the_mover_is_in_its_own_way() -> Iterator[MetaData]:
    """R10. An affinity group's hosts are computed with the server that moves among them."""

    def home(tx: Tx, of: Mapping[str, Any] | None, move: Mapping[str, Any]) -> str | None:
        return homes_of_group(tx, of["id"]).get("home") if of and of["policy"] == "affinity" else None

    with ledger(seats.RULES, (placing, "_home", home), tables=metadata) as tables:
        yield tables


# -- What the naive ones see ---------------------------------------------------------------


def filters_without_the_groups() -> tuple[object, str, object]:
    """The scheduler's list, edited by an operator."""
    return candidates, "FILTERS", tuple(each for each in FILTERS if each.name != "group")


def holders_at_home(tx: Tx, group_id: str, but: str | None = None) -> dict[str, int]:
    """How many members (`but` one) live on each host or are on their way there."""
    c = claim.c
    rows = tx.execute(
        select(c.host_id, c.server_id)
        .where(c.group_id == group_id, c.role.in_(("home", "target")), c.server_id != (but or ""))
        .distinct()
    ).all()
    return {each: sum(row.host_id == each for row in rows) for each in {row.host_id for row in rows}}


def homes_of_group(tx: Tx, group_id: str) -> dict[str, str]:
    """Where any member of the affinity group lives."""
    c = claim.c
    home = tx.execute(select(c.host_id).where(c.group_id == group_id, c.role == "home")).scalar()
    return {"home": home} if home else {}


def zone_of(tx: Tx, host_id: str) -> str:
    return str(tx.execute(select(host.c.zone).where(host.c.id == host_id)).scalar_one())


def zones_of(tx: Tx, server_id: str) -> set[str]:
    """The zones in which the server holds something."""
    there = select(host.c.zone).join(claim, claim.c.host_id == host.c.id)
    return set(tx.execute(there.where(claim.c.server_id == server_id)).scalars())


# -- Claims and counts of their own --------------------------------------------------------


def publishing(server_id: str) -> Racer:
    """R6. Claim the first host, so that others see it; then look who else is there, and if anybody is,
    give it up and take the next. Must run in `check_before_publish`."""

    def look_again(tx: Tx, host_id: str) -> bool:
        return not others(tx, seats.member_of(tx, server_id), host_id)

    async def race(world: World) -> str:
        for name in world.agents:
            want = claims.Want(server_id, world.host_id(name), {"VCPU": 1}, role="home")
            (made,) = await world.store.write(claims.take, [want])
            if await world.store.read(look_again, want.host_id):
                return name
            await world.store.write(claims.release, made)
        return "refused"

    return race


def counting(group_id: str) -> Racer:
    """R11. Count the group's members; if one more is allowed, write that there is one more."""

    def room(tx: Tx) -> bool:
        row = tx.execute(select(group.c.members, group.c.members_max).where(group.c.id == group_id)).one()
        return bool(row.members < row.members_max)

    def add(tx: Tx) -> None:
        tx.execute(group.update().where(group.c.id == group_id).values(members=group.c.members + 1))

    async def race(world: World) -> str:
        if not await world.store.read(room):
            return "refused"
        await world.store.write(add)
        return "joined"

    return race


def joining(group_id: str) -> Racer:
    """The same by our ledger."""

    async def race(world: World) -> str:
        try:
            await world.store.write(groups.join, group_id)
        except Refused as no:
            return "refused" if no.rule == "Q1" else no.rule
        return "joined"

    return race
