"""G1: at most `max_server_per_host` members of an anti-affinity group hold a seat on one host."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from sqlalchemy import select

from berthold.errors import Refused
from berthold.ledger import claims, schema
from berthold.ledger.store import Store, Tx
from ledger_world import (
    SMALL,
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


def cloud(tx: Tx, per_host: int = 1, members: int = 3, hosts: int = 4) -> None:
    """Members m0, m1 … of group web, nowhere yet."""
    add_hosts(tx, hosts)
    add_group(tx, "web", "anti-affinity", per_host)
    for number in range(members):
        add_server(tx, f"m{number}", "web")


def seats(tx: Tx) -> list[tuple[str, int, str]]:
    c = schema.seat.c
    return [
        tuple(row) for row in tx.execute(select(c.domain, c.seat, c.server_id).order_by(c.domain, c.seat))
    ]


def refused(store: Store, server: str, host: str) -> str:
    before = dump(store)
    with pytest.raises(Refused) as refusal:
        store.write_now(claim, server, host)
    assert refusal.value.rule == "G1"
    assert dump(store) == before
    return refusal.value.why


@pytest.mark.parametrize("per_host", [1, 3])
def test_of_forty_racers_exactly_as_many_win_as_there_are_seats(database_url: str, per_host: int) -> None:
    with processes(database_url) as stores:
        stores[0].write_now(cloud, per_host, 40)
        results = race([writing(stores[n % 4], claim, f"m{n}", "h0") for n in range(40)])
        losers = [each for each in results if not isinstance(each, str)]
        assert len(losers) == 40 - per_host
        assert all(isinstance(each, Refused) and each.rule == "G1" for each in losers), losers
        assert len(stores[0].read_now(where_claimed, "web")["h0"]) == per_host
        assert violations(stores[0], "C1", "G1") == []


def test_two_members_that_move_at_once_do_not_meet_on_the_only_free_host(database_url: str) -> None:
    with processes(database_url, 2) as stores:
        stores[0].write_now(cloud, 1, 2, 3)
        stores[0].write_now(claim, "m0", "h0")
        stores[0].write_now(claim, "m1", "h1")
        results = race([writing(stores[n], claim, f"m{n}", "h2", "target") for n in range(2)])
        assert sorted(type(each).__name__ for each in results) == ["Refused", "str"]
        assert violations(stores[0], "C1", "G1") == []


def test_the_refusal_says_what_operators_search_for_and_leaves_no_trace(store: Store) -> None:
    store.write_now(cloud)
    store.write_now(claim, "m0", "h0")
    why = refused(store, "m1", "h0")
    assert why.startswith("Anti-affinity instance group policy was violated")
    assert why.endswith("host h0 already holds 1 of group web (web)")


def test_a_list_of_claims_is_granted_as_a_whole_or_not_at_all(store: Store) -> None:
    store.write_now(cloud)
    before = dump(store)
    pair = [claims.Want(server, "h0", SMALL) for server in ("m0", "m1")]
    with pytest.raises(Refused, match="policy was violated"):
        store.write_now(claims.take, pair)
    assert dump(store) == before
    apart = [claims.Want("m0", "h0", SMALL), claims.Want("m1", "h1", SMALL)]
    assert len(store.write_now(claims.take, apart)) == 2


def test_source_and_target_are_both_held_until_the_move_is_over(store: Store) -> None:
    store.write_now(cloud)
    source = store.write_now(claim, "m0", "h0")
    store.write_now(claim, "m0", "h1", "target")
    refused(store, "m1", "h0")
    refused(store, "m1", "h1")
    store.write_now(claims.switch_home, "m0")
    store.write_now(claims.release, source)
    store.write_now(claim, "m1", "h0")
    refused(store, "m2", "h1")


def test_two_claims_on_one_host_share_a_seat_until_the_last_is_released(store: Store) -> None:
    store.write_now(cloud)
    first = store.write_now(claim, "m0", "h0")
    second = store.write_now(claim, "m0", "h0", "target")
    assert store.read_now(seats) == [("h0", 1, "m0")]
    store.write_now(claims.release, first)
    refused(store, "m1", "h0")
    store.write_now(claims.release, second)
    assert store.read_now(seats) == []
    store.write_now(claim, "m1", "h0")


def test_what_was_left_on_a_fenced_host_keeps_its_seat(store: Store) -> None:
    store.write_now(cloud)
    standing = store.write_now(claim, "m0", "h0")
    store.write_now(fence_and_leave, standing, "h0")
    assert store.read_now(seats) == [("h0", 1, "m0")]


def test_a_freed_seat_with_a_low_number_is_taken_again(store: Store) -> None:
    store.write_now(cloud, 2)
    first = store.write_now(claim, "m0", "h0")
    store.write_now(claim, "m1", "h0")
    store.write_now(claims.release, first)
    store.write_now(claim, "m2", "h0")
    assert store.read_now(seats) == [("h0", 1, "m2"), ("h0", 2, "m1")]


def test_a_storm_of_claims_and_releases_ends_without_a_deadlock(database_url: str) -> None:
    with processes(database_url) as stores:
        stores[0].write_now(cloud, 2, 10, 3)

        def storm(number: int) -> Callable[[], object]:
            chance, store, held = random.Random(number), stores[number % 4], dict[str, str]()

            def step() -> str:
                role = chance.choice(["home", "target"])
                if role in held:
                    store.write_now(claims.release, held.pop(role))
                    return "released"
                try:
                    held[role] = store.write_now(claim, f"m{number}", f"h{chance.randrange(3)}", role)
                except Refused as refusal:
                    return refusal.rule
                return "granted"

            return lambda: {step() for _ in range(15)}

        results = race([storm(number) for number in range(10)])
        assert all(isinstance(each, set) and each <= {"released", "granted", "G1"} for each in results), (
            results
        )
        assert violations(stores[0], "C1", "G1") == []


def test_releasing_one_claim_while_another_of_the_same_server_is_taken_there(postgresql_url: str) -> None:
    with processes(postgresql_url, 2) as (one, two):
        one.write_now(cloud)
        first = one.write_now(claim, "m0", "h0")
        taker = Actor(one, claim, "m0", "h0", "target", stop="INSERT INTO history").reached()
        releaser = Actor(two, claims.release, first)
        assert releaser.waits()
        assert isinstance(taker.end(), str)
        assert releaser.end() is True
        assert one.read_now(seats) == [("h0", 1, "m0")]
        assert violations(one, "C1", "G1") == []


def test_two_releases_of_two_hosts_in_opposite_order_are_retried_not_told(postgresql_url: str) -> None:
    def give_up(tx: Tx, *standing: str) -> list[bool]:
        return [claims.release(tx, each) for each in standing]

    with processes(postgresql_url, 2) as (one, two):
        one.write_now(cloud)
        ours = [one.write_now(claim, "m0", "h0"), one.write_now(claim, "m1", "h1")]
        theirs = [one.write_now(claim, "m0", "h2", "target"), one.write_now(claim, "m1", "h3", "target")]
        first = Actor(one, give_up, ours[0], theirs[0], ours[1], stop="DELETE FROM claim").reached()
        second = Actor(two, give_up, ours[1], ours[0])
        second.waits()
        assert isinstance(first.end(), list)
        assert isinstance(second.end(), list)
        assert violations(one, "C1", "G1") == []
