"""G3: soft policies are preferences that see reservations in flight: parallel requests spread, or
pack, as sequential ones would, while there is room."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from sqlalchemy import select
from structlog.testing import capture_logs

from berthold.errors import Refused
from berthold.lab.explore import every_order
from berthold.lab.racers import stepping
from berthold.lab.scenarios import always
from berthold.lab.world import World
from berthold.ledger import claims, groups, hosts, moves, schema, seats
from berthold.ledger.store import Store, Tx
from berthold.moves import begin
from berthold.moves.runner import Runner
from berthold.records import tallies
from berthold.settings import Settings
from by_hand import Halfway, holds, under_way
from ledger_world import PROJECT, add_group, add_hosts, add_server, claim, violations, where_claimed
from races import processes, race

SOFT = ["soft-anti-affinity", "soft-affinity"]
SPREAD = {"soft-anti-affinity": [1, 1, 1], "soft-affinity": [3]}
ROUNDS = 4


def spread(world: World) -> list[int]:
    """How many claims each host that has some holds."""
    return sorted(Counter(row["host_id"] for row in world.rows("claim")).values())


@pytest.mark.parametrize("policy", SOFT)
def test_three_creates_at_once_spread_or_pack_in_every_order(policy: str) -> None:
    world = World(hosts=3)
    try:
        group = world.group(policy)
        begun = [under_way(world, world.create(f"web-{n}", group)) for n in range(3)]
        for move in begun:
            world.lease(move)
        found = every_order(
            world,
            {f"mover {n}": stepping(move) for n, move in enumerate(begun)},
            always,
            lambda world, _: [] if spread(world) == SPREAD[policy] else [f"they spread {spread(world)}"],
        )
        assert found.orders > 1
    finally:
        world.close()


def test_a_member_that_leaves_counts_for_whoever_ranks_at_that_moment() -> None:
    """One goes as another comes, and takes its host: it is the emptiest again."""
    world = World(hosts=2)
    try:
        group = world.group("soft-anti-affinity")
        one, two = world.boot("one", group), world.boot("two", group)
        free = world.home(one)
        assert free is not None
        assert free != world.home(two)
        three = world.create("three", group)
        turn = Halfway(world, under_way(world, three)).until("place_line")
        world.delete(one)
        while world.claims(one):
            world.obey(free)
            world.step(under_way(world, one))
        turn.end()
        assert holds(world, three) == {free: "target"}
        world.settle()
        assert world.problems() == []
    finally:
        world.close()


def three_hosts(tx: Tx) -> None:
    add_hosts(tx, 3)
    hosts.heard(tx, ["h0", "h1", "h2"])


def three_creates(tx: Tx, group: str, policy: str) -> None:
    add_group(tx, group, policy)
    by = begin.By("u", PROJECT, f"req-{group}")
    flavor = {"vcpus": 1, "ram": 512}
    for number in range(3):
        wish = begin.NewServer(PROJECT, "u", f"{group}-{number}", flavor, group_id=group)
        begin.create_servers(tx, by, [wish])


@pytest.mark.parametrize("policy", SOFT)
def test_three_processes_that_place_at_once_spread_or_pack_every_time(database_url: str, policy: str) -> None:
    with processes(database_url, 3) as stores:
        stores[0].write_now(three_hosts)
        runners = [Runner(store, None, Settings()) for store in stores]  # type: ignore[arg-type]
        for number in range(ROUNDS):
            group = f"g{number}"
            stores[0].write_now(three_creates, group, policy)
            leases = stores[0].write_now(moves.take, "test", 5.0, 3)
            steps = [
                lambda runner=runner, lease=lease: asyncio.run(runner.step(lease))
                for runner, lease in zip(runners, leases, strict=True)
            ]
            outcomes = race(steps)
            assert all(getattr(each, "state", None) == "running" for each in outcomes), outcomes
            there = stores[0].read_now(where_claimed, group)
            assert sorted(len(servers) for servers in there.values()) == SPREAD[policy]
        assert violations(stores[0], "C1") == []


# -- The guard --------------------------------------------------------------------------------


def generation(tx: Tx) -> int:
    group = schema.server_group
    return int(tx.execute(select(group.c.generation).where(group.c.id == "web")).scalar_one())


def members(tx: Tx, policy: str) -> None:
    add_hosts(tx, 3)
    add_group(tx, "web", policy)
    for name in ("m0", "m1", "m2"):
        add_server(tx, name, "web")


def test_a_claim_that_rests_on_an_old_ranking_is_refused_and_may_come_again(store: Store) -> None:
    store.write_now(members, "soft-affinity")
    seen = store.read_now(generation)
    store.write_now(claim, "m0", "h0", group_generation=seen)
    with pytest.raises(Refused) as refusal:
        store.write_now(claim, "m1", "h1", group_generation=seen)
    assert (refusal.value.rule, refusal.value.wait) == ("G3", True)
    assert store.read_now(where_claimed, "web") == {"h0": {"m0"}}
    store.write_now(claim, "m1", "h0", group_generation=seen + 1)
    assert store.read_now(where_claimed, "web") == {"h0": {"m0", "m1"}}


def test_a_release_changes_what_a_ranking_saw_too(store: Store) -> None:
    store.write_now(members, "soft-affinity")
    mine = store.write_now(claim, "m0", "h0")
    seen = store.read_now(generation)
    store.write_now(claims.release, mine)
    with pytest.raises(Refused, match="chose its host"):
        store.write_now(claim, "m1", "h0", group_generation=seen)


def test_members_that_are_claimed_together_were_ranked_together(store: Store) -> None:
    store.write_now(members, "soft-anti-affinity")
    wants = [claims.Want(f"m{n}", f"h{n}", {"VCPU": 1}, group_generation=0) for n in range(2)]
    assert len(store.write_now(claims.take, wants)) == 2


def test_members_of_hard_groups_do_not_pay(store: Store) -> None:
    store.write_now(members, "anti-affinity")
    store.write_now(claims.release, store.write_now(claim, "m0", "h0"))
    assert store.read_now(generation) == 0


def test_a_group_that_is_deleted_meanwhile_prefers_nothing(store: Store) -> None:
    """G4: the claim is judged again without it."""
    store.write_now(members, "soft-affinity")
    store.write_now(groups.delete_group, "web")
    assert store.write_now(claim, "m0", "h0", group_generation=0)


def test_after_ten_lost_races_the_place_is_taken_all_the_same_and_told() -> None:
    world = World(hosts=2)
    try:
        group = world.group("soft-anti-affinity")
        one = world.create("one", group)
        turn = Halfway(world, under_way(world, one))
        with capture_logs() as logs:
            for _ in range(10):
                turn.until("place_line")
                world.store.write_now(_chosen, group)
                turn.until("survey")
            turn.until("place_line")
            world.store.write_now(_chosen, group)
            turn.end()
        assert list(holds(world, one).values()) == ["target"]
        assert [log for log in logs if log["event"] == "soft policy gave way"] == [
            {"event": "soft policy gave way", "log_level": "warning", "server": one, "group": group}
        ]
        assert world.store.read_now(tallies.total, tallies.SOFT_GAVE_WAY) == 1
        world.settle()
    finally:
        world.close()


def _chosen(tx: Tx, group_id: str) -> None:
    seats.hold(tx, group_id)
