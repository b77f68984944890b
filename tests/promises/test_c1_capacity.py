"""C1: no claim makes a host hold more than its capacity."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from berthold.errors import Refused
from berthold.ledger import claims, hosts, inventories, schema
from berthold.ledger.store import Store, Tx
from ledger_world import SMALL, add_hosts, add_server, claim, dump, violations
from races import processes, race, writing

ONE = {"VCPU": 1}


def cloud(tx: Tx, /, servers: int, **offers: int) -> None:
    add_hosts(tx, 1, **offers)
    for number in range(servers):
        add_server(tx, f"s{number}")


def used(tx: Tx, name: str = "VCPU") -> int:
    c = schema.inventory.c
    query = select(c.used).where(c.provider_id == "h0", c["class"] == name)
    return int(tx.execute(query).scalar_one())


def offer(tx: Tx, /, **fields: float) -> None:
    """h0's VCPU inventory from now on."""
    hosts.lock(tx, "h0", must_be_up=False)
    inventories.set_inventory(tx, "h0", {"VCPU": fields})


def refused(store: Store, *wants: claims.Want) -> str:
    """Why the wants are refused; the refusal names C1 and leaves every table as it was."""
    before = dump(store)
    with pytest.raises(Refused) as refusal:
        store.write_now(claims.take, wants)
    assert refusal.value.rule == "C1"
    assert dump(store) == before
    return refusal.value.why


def take(amount: int, server: str = "s0", name: str = "VCPU") -> claims.Want:
    return claims.Want(server, "h0", {name: amount})


@pytest.mark.parametrize(
    ("capacity", "racers", "granted"), [(64, 40, 40), (50, 80, 50)], ids=["all fit", "50 of 80 fit"]
)
def test_racers_get_exactly_what_there_is(
    database_url: str, capacity: int, racers: int, granted: int
) -> None:
    with processes(database_url) as stores:
        stores[0].write_now(cloud, racers, VCPU=capacity)
        calls = [writing(stores[n % 4], claim, f"s{n}", "h0", "home", ONE) for n in range(racers)]
        results = race(calls)
        assert sum(isinstance(each, str) for each in results) == granted
        others = [each for each in results if not isinstance(each, str)]
        assert all(isinstance(each, Refused) and each.rule == "C1" for each in others), others
        assert stores[0].read_now(used) == granted
        assert violations(stores[0], "C1") == []


def test_two_parts_of_one_write_are_judged_together(store: Store) -> None:
    store.write_now(cloud, 2, VCPU=4)
    assert refused(store, take(3, "s0"), take(3, "s1")) == "3 VCPU wanted, 1 of 4 free"
    store.write_now(claims.take, [take(2, "s0"), take(2, "s1")])
    assert store.read_now(used) == 4


def test_one_class_too_little_refuses_the_others_too(store: Store) -> None:
    store.write_now(cloud, 1, VCPU=4, MEMORY_MB=1024)
    want = claims.Want("s0", "h0", {"MEMORY_MB": 2048, "VCPU": 1})
    assert refused(store, want) == "2048 MEMORY_MB wanted, 1024 of 1024 free"


def test_a_class_that_the_host_has_not_got(store: Store) -> None:
    store.write_now(cloud, 1)
    assert refused(store, take(1, name="VGPU")) == "the host offers no VGPU"


@pytest.mark.parametrize(
    ("fields", "granted", "too_much"),
    [
        ({"total": 10}, 10, 11),
        ({"total": 10, "reserved": 4}, 6, 7),
        ({"total": 10, "allocation_ratio": 1.5, "max_unit": 20}, 15, 16),
        ({"total": 10, "reserved": 3, "allocation_ratio": 0.5}, 3, 4),
        ({"total": 10, "max_unit": 4}, 4, 5),
        ({"total": 10, "min_unit": 3}, 3, 2),
        ({"total": 10, "step_size": 4}, 8, 6),
    ],
    ids=["total", "reserved", "ratio", "reserved, then ratio, rounded down", "max", "min", "step"],
)
def test_placements_units(store: Store, fields: dict[str, float], granted: int, too_much: int) -> None:
    store.write_now(cloud, 1)
    store.write_now(lambda tx: offer(tx, **fields))
    assert f"{too_much} VCPU wanted" in refused(store, take(too_much))
    store.write_now(claims.take, [take(granted)])
    assert store.read_now(used) == granted


def test_an_inventory_shrunk_below_its_use_grants_nothing_until_enough_is_released(store: Store) -> None:
    store.write_now(cloud, 3, VCPU=4)
    three = store.write_now(claim, "s0", "h0", "home", {"VCPU": 3})
    store.write_now(claim, "s1", "h0", "home", ONE)
    store.write_now(lambda tx: offer(tx, total=2))
    assert refused(store, take(1, "s2")) == "1 VCPU wanted, 0 of 2 free"
    store.write_now(claims.release, three)
    assert refused(store, take(2, "s2")) == "2 VCPU wanted, 1 of 2 free"
    store.write_now(claims.take, [take(1, "s2")])
    assert store.read_now(used) == 2
    assert violations(store, "C1") == []


def test_a_withdrawn_class_stays_while_it_is_claimed(store: Store) -> None:
    store.write_now(cloud, 2, VCPU=4, MEMORY_MB=1024)
    standing = store.write_now(claim, "s0", "h0", "home", {"MEMORY_MB": 512})
    store.write_now(lambda tx: offer(tx, total=4))
    assert refused(store, take(1, "s1", "MEMORY_MB")) == "1 MEMORY_MB wanted, 0 of 0 free"
    store.write_now(claims.release, standing)
    store.write_now(lambda tx: offer(tx, total=4))
    assert refused(store, take(1, "s1", "MEMORY_MB")) == "the host offers no MEMORY_MB"
    assert violations(store, "C1") == []


def test_a_release_gives_back_once(store: Store) -> None:
    store.write_now(cloud, 1)
    standing = store.write_now(claim, "s0", "h0", "home", SMALL)
    assert store.write_now(claims.release, standing)
    before = dump(store)
    assert not store.write_now(claims.release, standing)
    assert dump(store) == before
    assert store.read_now(used) == 0


def test_a_release_that_races_with_itself_gives_back_once(database_url: str) -> None:
    with processes(database_url) as stores:
        stores[0].write_now(cloud, 2, VCPU=4)
        standing = stores[0].write_now(claim, "s0", "h0", "home", {"VCPU": 2})
        stores[0].write_now(claim, "s1", "h0", "home", {"VCPU": 2})
        released = race([writing(stores[n % 4], claims.release, standing) for n in range(12)])
        assert sorted(map(repr, released)) == ["False"] * 11 + ["True"]
        assert stores[0].read_now(used) == 2
        assert violations(stores[0], "C1") == []


def test_claims_and_releases_raise_the_generation(store: Store) -> None:
    def generation(tx: Tx) -> int:
        return int(tx.execute(select(schema.provider.c.generation)).scalar_one())

    store.write_now(cloud, 1)
    first = store.read_now(generation)
    standing = store.write_now(claim, "s0", "h0")
    second = store.read_now(generation)
    store.write_now(claims.release, standing)
    third = store.read_now(generation)
    assert first < second < third
