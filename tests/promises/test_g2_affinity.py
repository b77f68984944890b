"""G2: an affinity group lives on one home, or goes, as a whole, to one next home."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from sqlalchemy import select

from berthold.errors import Refused
from berthold.ledger import claims, schema, seats
from berthold.ledger.store import Store, Tx
from ledger_world import (
    add_group,
    add_hosts,
    add_server,
    claim,
    dump,
    fence_and_leave,
    violations,
    where_claimed,
)
from races import Actor, processes, race, writing

PAIR = "pair"


def cloud(tx: Tx, members: int = 2, hosts: int = 4) -> None:
    """Members m0, m1 … of the affinity group, nowhere yet."""
    add_hosts(tx, hosts)
    add_group(tx, PAIR, "affinity")
    for number in range(members):
        add_server(tx, f"m{number}", PAIR)


def move(tx: Tx, server: str, host: str) -> str:
    """A claim for the server's move to `host`."""
    return claim(tx, server, host, "target", move_id=f"move of {server}")


def places(tx: Tx) -> dict[str, str]:
    c = schema.group_place.c
    return {row.role: row.host_id for row in tx.execute(select(c.role, c.host_id))}


def moving(tx: Tx) -> object:
    return tx.execute(select(schema.server_group.c.moving)).scalar_one()


def refusal_of(result: object) -> str:
    assert isinstance(result, Refused), result
    return f"{result.rule}{' wait' if result.wait else ''}"


def test_of_first_members_racing_to_different_hosts_all_end_on_one(database_url: str) -> None:
    with processes(database_url) as stores:
        stores[0].write_now(cloud, 24, 8)
        results = race([writing(stores[n % 4], claim, f"m{n}", f"h{n % 8}") for n in range(24)])
        refusals = {refusal_of(each) for each in results if not isinstance(each, str)}
        assert refusals == {"G2"}
        assert sum(isinstance(each, str) for each in results) == 3
        assert len(stores[0].read_now(where_claimed, PAIR)) == 1
        assert violations(stores[0], "C1", "G2") == []


def test_a_member_elsewhere_is_refused_and_leaves_no_trace(store: Store) -> None:
    store.write_now(cloud)
    store.write_now(claim, "m0", "h0")
    before = dump(store)
    with pytest.raises(Refused, match="Affinity instance group policy was violated") as refusal:
        store.write_now(claim, "m1", "h1")
    assert refusal.value.rule == "G2"
    assert not refusal.value.wait
    assert dump(store) == before


def test_a_member_of_several_cannot_move_alone(store: Store) -> None:
    store.write_now(cloud)
    store.write_now(claim, "m0", "h0")
    before = dump(store)
    with pytest.raises(Refused, match="other members"):
        store.write_now(move, "m0", "h1")
    assert dump(store) == before


def test_a_lone_member_moves_and_its_next_home_becomes_the_home(store: Store) -> None:
    store.write_now(cloud, 1)
    source = store.write_now(claim, "m0", "h0")
    store.write_now(move, "m0", "h1")
    assert store.read_now(places) == {"home": "h0", "next": "h1"}
    store.write_now(claims.switch_home, "m0")
    store.write_now(claims.release, source)
    assert store.read_now(places) == {"home": "h1"}
    assert store.read_now(moving) is None
    assert violations(store, "G2") == []


def test_a_lone_member_whose_move_is_undone_stays_and_the_group_is_open_again(store: Store) -> None:
    store.write_now(cloud, 1)
    store.write_now(claim, "m0", "h0")
    store.write_now(claims.release, store.write_now(move, "m0", "h1"))
    assert store.read_now(places) == {"home": "h0"}
    store.write_now(add_server, "late", PAIR)
    store.write_now(claim, "late", "h0")
    assert violations(store, "G2") == []


def test_nobody_joins_while_the_group_moves(store: Store) -> None:
    store.write_now(cloud, 1)
    source = store.write_now(claim, "m0", "h0")
    store.write_now(move, "m0", "h1")
    before = dump(store)
    with pytest.raises(Refused) as refusal:
        store.write_now(add_server, "late", PAIR)
    assert refusal_of(refusal.value) == "G2 wait"
    assert dump(store) == before
    store.write_now(claims.switch_home, "m0")
    store.write_now(claims.release, source)
    store.write_now(add_server, "late", PAIR)


def test_what_is_left_on_a_fenced_host_gives_up_the_place(store: Store) -> None:
    store.write_now(cloud, 1)
    source = store.write_now(claim, "m0", "h0")
    store.write_now(move, "m0", "h1")
    store.write_now(claims.switch_home, "m0")
    store.write_now(fence_and_leave, source, "h0")
    assert store.read_now(places) == {"home": "h1"}
    store.write_now(add_server, "late", PAIR)
    store.write_now(claim, "late", "h1")
    assert violations(store, "G2") == []


def test_the_last_that_leaves_takes_the_home_with_it(store: Store) -> None:
    store.write_now(cloud)
    first, second = store.write_now(claim, "m0", "h0"), store.write_now(claim, "m1", "h0")
    store.write_now(claims.release, first)
    assert store.read_now(places) == {"home": "h0"}
    store.write_now(claims.release, second)
    assert store.read_now(places) == {}
    store.write_now(claim, "m1", "h2")


@pytest.mark.parametrize("stop", ["UPDATE server_group SET generation", "SELECT host", "INSERT INTO history"])
def test_a_join_waits_for_the_lone_mover_and_is_told_to_wait(postgresql_url: str, stop: str) -> None:
    with processes(postgresql_url, 2) as (one, two):
        one.write_now(cloud, 1)
        one.write_now(claim, "m0", "h0")
        mover = Actor(one, move, "m0", "h1", stop=stop).reached()
        joiner = Actor(two, add_server, "late", PAIR)
        first = joiner.waits()
        moved, joined = mover.end(), joiner.end()
        if first:
            assert isinstance(moved, str)
            assert refusal_of(joined) == "G2 wait"
        else:
            assert joined == "late"
            assert refusal_of(moved) == "G2"
        assert violations(one, "C1", "G2", "Q1") == []


def test_a_lone_mover_waits_for_the_join_and_is_refused(postgresql_url: str) -> None:
    with processes(postgresql_url, 2) as (one, two):
        one.write_now(cloud, 1)
        one.write_now(claim, "m0", "h0")
        joiner = Actor(one, add_server, "late", PAIR, stop="INSERT INTO server").reached()
        mover = Actor(two, move, "m0", "h1")
        assert mover.waits()
        assert joiner.end() == "late"
        assert refusal_of(mover.end()) == "G2"
        one.write_now(claim, "late", "h0")
        assert violations(one, "C1", "G2", "Q1") == []


@pytest.mark.parametrize("stop", ["DELETE FROM claim", "DELETE FROM group_place", "INSERT INTO history"])
def test_another_member_comes_while_the_last_one_leaves(postgresql_url: str, stop: str) -> None:
    with processes(postgresql_url, 2) as (one, two):
        one.write_now(cloud)
        last = one.write_now(claim, "m0", "h0")
        leaver = Actor(one, claims.release, last, stop=stop).reached()
        comer = Actor(two, claim, "m1", "h1")
        assert comer.waits()
        assert leaver.end() is True
        assert isinstance(comer.end(), str)
        assert one.read_now(places) == {"home": "h1"}
        assert violations(one, "C1", "G2") == []


def test_a_storm_of_members_that_come_and_go(database_url: str) -> None:
    with processes(database_url) as stores:
        stores[0].write_now(cloud, 8)

        def storm(number: int) -> Callable[[], object]:
            chance, store = random.Random(number), stores[number % 4]

            def step() -> str:
                try:
                    standing = store.write_now(claim, f"m{number}", f"h{chance.randrange(3)}")
                except Refused as refusal:
                    return refusal.rule
                assert store.write_now(claims.release, standing)
                return "granted"

            return lambda: {step() for _ in range(10)}

        results = race([storm(number) for number in range(8)])
        assert all(isinstance(each, set) and each <= {"granted", "G2"} for each in results), results
        assert stores[0].read_now(places) == {}
        assert violations(stores[0], "C1", "G2") == []


def test_a_whole_group_is_said_to_move_only_by_who_counts_all_its_members(store: Store) -> None:
    store.write_now(cloud, 3)
    with pytest.raises(Refused, match="stay behind"):
        store.write_now(seats.begin_moving, PAIR, "move", 2)
    store.write_now(seats.begin_moving, PAIR, "move", 3)
    with pytest.raises(Refused, match="is moving"):
        store.write_now(seats.begin_moving, PAIR, "another move", 3)
