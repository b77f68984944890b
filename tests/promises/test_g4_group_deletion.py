"""G4: deleting a group never moves a server and never loses a claim; it only ends the rule."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from sqlalchemy import select

from berthold.errors import NotFound, Refused
from berthold.ledger import claims, groups, schema
from berthold.ledger.store import Store, Tx
from ledger_world import (
    PROJECT,
    add_group,
    add_hosts,
    add_server,
    claim,
    events,
    fence_and_leave,
    homes,
    violations,
)
from races import Actor, processes, race

RULED = "C1", "G1", "G2", "G4", "Q1"


def cloud(tx: Tx, policy: str, members: int = 3, hosts: int = 3) -> None:
    add_hosts(tx, hosts)
    add_group(tx, "web", policy)
    for number in range(members):
        add_server(tx, f"m{number}", "web")


def rules(tx: Tx) -> set[tuple[object, ...]]:
    """What rule and group the claims follow, and what seats and places there are."""
    c = schema.claim.c
    return {
        *(tuple(row) for row in tx.execute(select(c.rule, c.group_id, c.domain, c.place))),
        *(("seat", *row) for row in tx.execute(select(schema.seat.c.domain))),
        *(("place", *row) for row in tx.execute(select(schema.group_place.c.host_id))),
    }


FREE = {("none", None, None, None)}


@pytest.mark.parametrize("policy", ["anti-affinity", "affinity", "soft-anti-affinity"])
def test_members_stay_where_they_are_and_follow_no_rule(store: Store, policy: str) -> None:
    store.write_now(cloud, policy)
    hosts = ["h0", "h1"] if policy == "anti-affinity" else ["h0", "h0"]
    for number, host in enumerate(hosts):
        store.write_now(claim, f"m{number}", host)
    before = store.read_now(homes)
    store.write_now(groups.delete_group, "web")
    assert store.read_now(homes) == before
    assert store.read_now(rules) == FREE
    assert store.read_now(events, "m0") == [("claimed", "h0"), ("ungrouped", None)]
    store.write_now(claim, "m2", "h0")
    assert violations(store, *RULED) == []


def test_a_claim_left_on_a_fenced_host_is_not_lost_either(store: Store) -> None:
    store.write_now(cloud, "anti-affinity")
    left = store.write_now(claim, "m0", "h0")
    store.write_now(fence_and_leave, left, "h0")
    store.write_now(groups.delete_group, "web")
    assert [each.role for each in store.read_now(claims.of_server, "m0")] == ["left"]
    assert violations(store, *RULED) == []


def test_a_group_can_be_deleted_in_the_middle_of_its_move(store: Store) -> None:
    store.write_now(cloud, "affinity", 1)
    source = store.write_now(claim, "m0", "h0")
    store.write_now(claim, "m0", "h1", "target")
    store.write_now(groups.delete_group, "web")
    store.write_now(claims.switch_home, "m0")
    store.write_now(claims.release, source)
    assert store.read_now(homes) == {"m0": "h1"}
    assert violations(store, *RULED) == []


def test_a_group_is_deleted_once(store: Store) -> None:
    store.write_now(cloud, "affinity")
    store.write_now(groups.delete_group, "web")
    with pytest.raises(NotFound):
        store.write_now(groups.delete_group, "web")

    def counted(tx: Tx) -> int:
        query = select(schema.project.c.server_groups).where(schema.project.c.id == PROJECT)
        return int(tx.execute(query).scalar_one())

    assert store.read_now(counted) == 0


@pytest.mark.parametrize("policy", ["anti-affinity", "affinity"])
@pytest.mark.parametrize("stop", ["SELECT host", "INSERT INTO claim", "INSERT INTO history"])
def test_a_claim_in_flight_is_judged_again_without_the_rule(
    postgresql_url: str, policy: str, stop: str
) -> None:
    with processes(postgresql_url, 2) as (one, two):
        one.write_now(cloud, policy)
        claimer = Actor(one, claim, "m0", "h0", stop=stop).reached()
        deleter = Actor(two, groups.delete_group, "web")
        deleter.waits()
        assert isinstance(claimer.end(), str)
        assert deleter.end() is None
        assert one.read_now(rules) == FREE
        assert violations(one, *RULED) == []


@pytest.mark.parametrize("policy", ["anti-affinity", "affinity"])
@pytest.mark.parametrize("stop", ["UPDATE server ", "DELETE FROM seat", "DELETE FROM server_group"])
def test_claims_and_releases_that_come_during_the_deletion(
    postgresql_url: str, policy: str, stop: str
) -> None:
    with processes(postgresql_url, 2) as (one, two):
        one.write_now(cloud, policy)
        standing = one.write_now(claim, "m0", "h0")
        deleter = Actor(one, groups.delete_group, "web", stop=stop).reached()
        claimer = Actor(two, claim, "m1", "h0")
        releaser = Actor(two, claims.release, standing)
        claimer.waits()
        assert deleter.end() is None
        # Refused only if the claim was judged before the deletion was true.
        assert isinstance(claimer.end(), str | Refused)
        assert releaser.end() is True
        assert one.read_now(rules) <= FREE
        assert violations(one, *RULED) == []


@pytest.mark.parametrize("policy", ["anti-affinity", "affinity"])
def test_a_storm_of_claims_and_releases_over_the_deletion(database_url: str, policy: str) -> None:
    with processes(database_url) as stores:
        stores[0].write_now(cloud, policy, 8)

        def storm(number: int) -> Callable[[], object]:
            chance, store, held = random.Random(number), stores[number % 4], list[str]()

            def step() -> str:
                if held:
                    store.write_now(claims.release, held.pop())
                    return "released"
                try:
                    held.append(store.write_now(claim, f"m{number}", f"h{chance.randrange(3)}"))
                except Refused as refusal:
                    return refusal.rule
                return "granted"

            return lambda: {step() for _ in range(8)}

        def delete() -> object:
            stores[0].write_now(groups.delete_group, "web")
            return set()

        results = race([*(storm(number) for number in range(8)), delete])
        said = {"released", "granted", "G1", "G2"}
        assert all(isinstance(each, set) and each <= said for each in results), results
        assert stores[0].read_now(rules) <= FREE
        assert violations(stores[0], *RULED) == []


@pytest.mark.parametrize("policy", ["anti-affinity", "affinity", "soft-anti-affinity"])
def test_a_claim_that_looked_just_before_the_group_went_is_judged_again(
    postgresql_url: str, policy: str
) -> None:
    """It knows its group, waits for the group's row, and finds that there is no such row any more."""
    with processes(postgresql_url, 2) as (one, two):
        one.write_now(cloud, policy)
        stop = {"anti-affinity": "INSERT INTO seat"}.get(policy, "UPDATE server_group")
        late = Actor(two, claim, "m0", "h0", stop=stop).reached()
        assert Actor(one, groups.delete_group, "web").end() is None
        assert isinstance(late.end(), str)
        assert two.retries == 1
        assert one.read_now(events, "m0")[-1] == ("claimed", "h0")
        assert violations(one, *RULED) == []
