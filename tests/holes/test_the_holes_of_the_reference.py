"""R1 to R14: the holes that were found in the reference, one test for each.

Each runs one race twice: on a ledger that is naive in just that way (`tests/naive.py`), where
some order must end in what the hole lets through, and on ours, where no order may.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import Connection, MetaData
from sqlalchemy.exc import IntegrityError

import naive
from berthold.database import metadata
from berthold.lab import engines
from berthold.lab.explore import Broken, every_order
from berthold.lab.judge import history_rows, judge
from berthold.lab.outages import three_unshelves
from berthold.lab.racers import continuing, moving
from berthold.lab.scenarios import (
    Racers,
    Results,
    always,
    apart,
    bare_claims,
    claim_claim,
    creates,
    members,
    nobody_in_error,
    placed_by,
    together,
    wins,
)
from berthold.lab.strategies import is_group_rule, metadata_without
from berthold.lab.world import LARGE, World, with_settings
from berthold.ledger import schema, seats
from berthold.ledger.store import Store, Tx
from berthold.settings import Settings
from by_hand import in_zones
from ledger_world import add_group, add_hosts, add_server, claim
from races import Actor, processes

Stage = Callable[[World], Racers]
AtEnd = Callable[[World, Results], Sequence[str]]


def judged(world: World) -> list[str]:
    """What the judge finds in the history: a naive ledger's own audit would find nothing."""
    return [str(finding) for finding in judge(world.rows("history"))]


def nothing(world: World, results: Results | None = None) -> list[str]:
    return []


def breaks(
    hosts: int,
    stage: Stage,
    tables: MetaData,
    *,
    at_end: AtEnd = nothing,
    when: Callable[[World], list[str]] = judged,
    settings: Settings | None = None,
) -> str:
    """That some order goes wrong; its story."""
    world = World(hosts=hosts, tables=tables, settings=settings)
    try:
        with pytest.raises(Broken) as found:
            every_order(world, stage(world), when, at_end)
        return str(found.value)
    finally:
        world.close()


def holds(hosts: int, stage: Stage, at_end: AtEnd, *, settings: Settings | None = None) -> None:
    """That every order goes well, on our ledger: no promise broken at any instant, and the right end."""
    world = World(hosts=hosts, settings=settings)
    try:
        assert every_order(world, stage(world), always, at_end).orders
    finally:
        world.close()


def results_are(*wanted: str) -> AtEnd:
    def at_end(world: World, results: Results) -> list[str]:
        wrong = [] if sorted(results.values()) == sorted(wanted) else [f"results: {dict(results)}"]
        return wrong + nobody_in_error(world)

    return at_end


# -- R1, R2, R4, R5, R12, R13, R14: a move that nobody checks ------------------------------


def two_resizes(world: World) -> Racers:
    _, (a, b) = members(world, 2)
    return placed_by(world, world.resize(a), world.resize(b))


def test_r1_two_resizes_both_pass_the_check_before_either_is_published() -> None:
    with naive.check_before_publish() as tables:
        assert "G1 at event" in breaks(3, two_resizes, tables)
    holds(3, two_resizes, wins(at_least=1, at_most=1))


def test_r2_unshelve_is_checked_like_any_move() -> None:
    with naive.no_check_on_unshelve() as tables:
        assert "G1 at event" in breaks(2, three_unshelves, tables)
    holds(2, three_unshelves, wins(at_least=2, at_most=2))


def revert_and_claim(world: World) -> Racers:
    """One may yet return to the host that it left; the conductor of another is about to claim one."""
    _, (a, b) = members(world, 2)
    world.resize(a)
    world.settle()
    return {**placed_by(world, world.live_migrate(b)), "revert": continuing("revert", a)}


def revert_and_move(world: World) -> Racers:
    """The same; the other goes all the way."""
    _, (a, b) = members(world, 2)
    world.resize(a)
    world.settle()
    return {"mover": moving("live-migration", b), "revert": continuing("revert", a)}


def reverted(world: World, results: Results) -> list[str]:
    """Whatever the other did, the revert came to its end on the host that was left."""
    wrong = [] if results["revert"] == "done" else [f"results: {dict(results)}"]
    return wrong + nobody_in_error(world)


def share(world: World) -> list[str]:
    """Hosts on which two servers live."""
    homes = [row["host_id"] for row in world.rows("claim") if row["role"] == "home"]
    return [f"two members live on {each}" for each in set(homes) if homes.count(each) > 1]


def test_r4_nobody_takes_the_place_to_which_a_revert_returns() -> None:
    with naive.no_check_on_revert() as tables:
        assert "G1 at event" in breaks(3, revert_and_claim, tables)
        assert "two members live on" in breaks(3, revert_and_move, tables, when=share)
    holds(3, revert_and_claim, reverted)
    holds(3, revert_and_move, reverted)


def two_to_another_zone(world: World) -> Racers:
    in_zones(world, node1="east", node2="east", node3="west")
    group = world.group("anti-affinity")
    a, b = (world.boot(f"web-{number}", group, zone="east") for number in (1, 2))
    for server in (a, b):
        world.store.write_now(anywhere, server)
    return placed_by(world, world.migrate(a), world.migrate(b))


def anywhere(tx: Tx, server: str) -> None:
    """The server is bound to no zone."""
    tx.execute(schema.server.update().where(schema.server.c.id == server).values(zone=None))


def test_r5_a_move_from_one_cell_to_another_is_checked() -> None:
    with naive.no_check_between_cells() as tables:
        assert "G1 at event" in breaks(3, two_to_another_zone, tables)
    holds(3, two_to_another_zone, wins(at_least=1, at_most=1))


def resize_beside_a_stranger(world: World) -> Racers:
    """Two members on one host, brought there past the ledger if its tables let them. One is resized
    where it is."""
    _, (a, b) = members(world, 2)
    with suppress(IntegrityError):
        world.store.write_now(import_by_hand, b, world.host_id(world.home(a) or ""))
    return {"resize": moving("resize", a, flavor=dict(LARGE))}


def import_by_hand(tx: Tx, server: str, host: str) -> None:
    c = schema.claim
    tx.execute(c.update().where(c.c.server_id == server).values(host_id=host, domain=host))


def test_r12_a_host_that_already_violates_is_not_accepted_and_cannot_come_to_be() -> None:
    in_place = with_settings(resize_on_same_host=True)
    with naive.own_host_is_always_lawful() as tables:
        story = breaks(2, resize_beside_a_stranger, tables, when=claimed_beside, settings=in_place)
        assert "claims a host beside" in story
    holds(2, resize_beside_a_stranger, results_are("waiting"), settings=in_place)
    world = World(hosts=2)
    _, (a, b) = members(world, 2)
    with pytest.raises(IntegrityError):
        world.store.write_now(import_by_hand, b, world.host_id(world.home(a) or ""))
    world.close()


def claimed_beside(world: World) -> list[str]:
    """Claims of a move to a host on which another server lives."""
    rows = world.rows("claim")
    homes = {(row["host_id"], row["server_id"]) for row in rows if row["role"] == "home"}
    return [
        f"{row['server_id']} claims a host beside {other}"
        for row in rows
        for host, other in homes
        if row["role"] == "target" and row["host_id"] == host and row["server_id"] != other
    ]


def forced(world: World) -> Racers:
    """Each is sent to the other's host, by name."""
    _, (a, b) = members(world, 2)
    targets = {a: world.home(b), b: world.home(a)}
    return {
        f"mover {n}": moving("live-migration", server, host=targets[server])
        for n, server in enumerate((a, b), 1)
    }


def test_r13_a_forced_target_obeys_the_rule() -> None:
    with naive.a_forced_target_skips_the_rule() as tables:
        assert "G1 at event" in breaks(3, forced, tables)
    holds(3, forced, results_are("undone", "undone"))


def crossing(world: World) -> Racers:
    """A member in each shard, and no host is free."""
    in_zones(world, node1="east", node2="west")
    _, (a, b) = members(world, 2)
    return {"mover 1": moving("live-migration", a), "mover 2": moving("migration", b)}


def test_r14_members_in_another_shard_are_seen() -> None:
    with naive.members_of_one_shard() as tables:
        assert "G1 at event" in breaks(2, crossing, tables)
    holds(2, crossing, results_are("undone", "undone"))


# -- R3, R9, R10: to be together, to be apart if possible, to go together ------------------


def test_r3_first_members_of_an_affinity_group_do_not_land_apart() -> None:
    with naive.affinity_looks_at_homes() as tables:
        assert "G2 at event" in breaks(3, creates(2, "affinity"), tables)
    holds(3, creates(2, "affinity"), together)


def two_soft_members(world: World) -> Racers:
    """node1 is the better host, for whoever does not know of the other."""
    world.boot("db", host="node2")
    return creates(2, "soft-anti-affinity")(world)


def spread(world: World, results: Results) -> list[str]:
    there = {row["host_id"] for row in world.rows("claim") if row["group_id"]}
    return [] if len(there) == 2 else ["two members on one of two hosts"]


def test_r9_parallel_soft_requests_see_each_other() -> None:
    with naive.soft_without_generation() as tables:
        story = breaks(2, two_soft_members, tables, at_end=spread)
        assert "two members on one of two hosts" in story
    holds(2, two_soft_members, spread)


def alone(world: World) -> Racers:
    _, (a,) = members(world, 1, "affinity")
    return {"mover": moving("live-migration", a)}


def test_r10_a_lone_affinity_member_can_be_moved() -> None:
    with naive.the_mover_is_in_its_own_way() as tables:
        assert "'mover': 'undone'" in breaks(3, alone, tables, at_end=results_are("done"))
    holds(3, alone, results_are("done"))


# -- R6, R7, R8, R11: who decides, and where ------------------------------------------------


def publishers(world: World) -> Racers:
    return {
        name: naive.publishing(row["id"])
        for name, row in zip(bare_claims(2)(world), world.rows("server"), strict=True)
    }


def test_r6_of_two_racers_one_wins() -> None:
    with naive.check_before_publish() as tables:
        story = breaks(1, publishers, tables, at_end=apart(1), when=nothing)
        assert story.count("refused") >= 2, "both saw each other, and both gave up"
    holds(1, bare_claims(2), apart(1))


def test_r7_no_switch_turns_the_rule_off() -> None:
    with naive.rule_switched_off() as tables:
        assert "G1 at event" in breaks(3, claim_claim, tables)
    with patch.object(*naive.filters_without_the_groups()):
        holds(3, claim_claim, wins(at_least=1, at_most=1))


class Process:
    """A store whose writers queue at a lock that this process has, and no other."""

    def __init__(self, store: Store) -> None:
        self.store, self.writer, self._lock = store, store.writer, threading.Lock()

    def write_now(self, f: Callable[..., Any], *args: Any) -> Any:
        with self._lock:
            return self.store.write_now(f, *args)


def two_members(tx: Tx) -> None:
    add_hosts(tx, 1)
    add_group(tx, "web", "anti-affinity")
    for name in ("m1", "m2"):
        add_server(tx, name, "web")


def look_and_claim(tx: Tx, server: str) -> str:
    if naive.others(tx, seats.member_of(tx, server), "h0"):
        return "refused"
    return claim(tx, server, "h0")


def findings(tx: Tx) -> list[str]:
    return [str(each) for each in judge(history_rows(tx))]


def drop_group_rules(tx: Connection) -> None:
    """The tables that are there, without the constraints that keep the group rules."""
    for table in metadata.sorted_tables:
        for each in table.constraints:
            if is_group_rule(each):
                tx.exec_driver_sql(f"ALTER TABLE {table.name} DROP CONSTRAINT IF EXISTS {each.name} CASCADE")


def forget_claims(tx: Tx) -> None:
    for table in (schema.claim, schema.seat):
        tx.execute(table.delete())


def race_from(process: Any, other: Any, f: Callable[..., object]) -> list[object]:
    """One stops when it has looked; the other comes in another process."""
    early = Actor(process, f, "m1", stop="SELECT host").reached()
    late = Actor(other, f, "m2")
    late.waits()
    return [early.end(), late.end()]


@pytest.fixture
def own_database(postgresql: engines.PostgreSQL) -> Iterator[str]:
    """One whose tables may lose their constraints: nobody gets it afterwards."""
    url = postgresql.create_bare()
    with engines.connected(url) as connection:
        metadata.create_all(connection)
        connection.commit()
    yield url
    postgresql.drop(url)


def test_r8_a_second_process_for_one_host_has_no_lock_of_its_own(own_database: str) -> None:
    with processes(own_database, 2) as stores:
        one, two = stores
        one.write_now(two_members)
        results = race_from(one, two, lambda tx, server: claim(tx, server, "h0"))
        assert sorted(isinstance(each, str) for each in results) == [False, True], results
        assert one.read_now(findings) == []
        one.write_now(forget_claims)
        one.write_now(drop_group_rules)
        with naive.check_before_publish():
            assert "refused" not in race_from(Process(one), Process(two), look_and_claim)
        assert any("G1 at event" in each for each in one.read_now(findings))


def last_seat(racer: Callable[[str], Any]) -> Stage:
    """Two want to be the last member that a group may have."""

    def stage(world: World) -> Racers:
        group = world.group("anti-affinity")
        world.store.write_now(lambda tx: tx.execute(schema.server_group.update().values(members_max=1)))
        return {"one": racer(group), "two": racer(group)}

    return stage


def too_many(world: World) -> list[str]:
    (row,) = world.rows("server_group")
    return ["more members than allowed"] if row["members"] > row["members_max"] else []


def one_joined(world: World, results: Mapping[str, Any]) -> list[str]:
    return [] if sorted(results.values()) == ["joined", "refused"] else [f"results: {dict(results)}"]


def test_r11_the_quota_of_a_groups_members_is_no_look() -> None:
    tables = metadata_without(lambda each: each.name == "q1_group_members")
    assert "more members than allowed" in breaks(1, last_seat(naive.counting), tables, when=too_many)
    world = World(hosts=1)
    assert every_order(world, last_seat(naive.joining)(world), too_many, one_joined).orders
    world.close()
