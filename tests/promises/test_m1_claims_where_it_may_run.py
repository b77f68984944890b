"""M1: a server holds a claim on every host that may be running it, and a host that returns takes
nothing until all it left behind is gone."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from berthold.errors import Malformed, Refused
from berthold.ledger import claims, hosts, schema
from berthold.ledger.store import Store, Tx
from ledger_world import add_group, add_hosts, add_server, claim, dump, fence_and_leave, violations
from races import Actor, processes


def cloud(tx: Tx) -> None:
    """Members a and b of an anti-affinity group; a lives on h0."""
    add_hosts(tx, 3)
    add_group(tx, "web", "anti-affinity")
    for name in ("a", "b"):
        add_server(tx, name, "web")
    claim(tx, "a", "h0")


def status(tx: Tx, host: str = "h0") -> str:
    return str(tx.execute(select(schema.host.c.status).where(schema.host.c.id == host)).scalar_one())


def home_claim(tx: Tx, server: str = "a") -> str:
    return next(each.id for each in claims.of_server(tx, server) if each.role == "home")


def refused(store: Store, server: str, host: str) -> str:
    before = dump(store)
    with pytest.raises(Refused) as refusal:
        store.write_now(claim, server, host, "target")
    assert refusal.value.rule == "M5"
    assert dump(store) == before
    return refusal.value.why


def test_what_is_left_on_a_fenced_host_keeps_its_capacity(store: Store) -> None:
    store.write_now(cloud)
    left = store.read_now(home_claim)
    store.write_now(fence_and_leave, left, "h0")
    used = select(schema.inventory.c.used).where(schema.inventory.c.provider_id == "h0")
    assert set(store.read_now(lambda tx: tx.execute(used).scalars().all())) == {1, 512}
    assert violations(store, "C1", "G1", "M1") == []


def test_a_fenced_host_takes_nothing(store: Store) -> None:
    store.write_now(cloud)
    store.write_now(hosts.fence, "h1")
    assert refused(store, "b", "h1") == "host h1 is fenced"


def test_a_host_that_returns_takes_nothing_until_what_it_left_is_gone(store: Store) -> None:
    store.write_now(cloud)
    left = store.read_now(home_claim)
    store.write_now(fence_and_leave, left, "h0")
    with pytest.raises(Malformed, match="not yet removed"):
        store.write_now(hosts.unfence, "h0")
    store.write_now(hosts.come_back, "h0")
    assert store.read_now(status) == "cleaning"
    assert refused(store, "b", "h0") == "host h0 is cleaning"
    assert refused(store, "a", "h0") == "host h0 is cleaning"
    assert not store.write_now(hosts.cleaned, "h0")
    store.write_now(claims.release, left)
    assert store.write_now(hosts.cleaned, "h0")
    assert store.read_now(status) == "up"
    store.write_now(claim, "b", "h0")
    assert violations(store, "C1", "G1", "M1") == []


def test_a_host_that_left_nothing_behind_is_up_at_once(store: Store) -> None:
    store.write_now(cloud)
    store.write_now(hosts.fence, "h1")
    store.write_now(hosts.unfence, "h1")
    assert store.read_now(lambda tx: status(tx, "h1")) == "up"


def test_a_host_does_not_come_up_while_something_is_being_left_on_it(postgresql_url: str) -> None:
    with processes(postgresql_url, 2) as (one, two):
        one.write_now(cloud)
        left = one.read_now(home_claim)
        one.write_now(hosts.fence, "h0")
        evacuation = Actor(one, claims.leave_behind, left, stop="INSERT INTO history").reached()
        return_ = Actor(two, hosts.come_back, "h0")
        assert return_.waits()
        assert evacuation.end() is None
        assert return_.end() == "cleaning"
        assert one.read_now(status) == "cleaning"
        assert violations(one, "M1") == []


def test_a_fence_waits_for_a_claim_in_flight_and_then_sees_it(postgresql_url: str) -> None:
    def fence(tx: Tx) -> list[str]:
        hosts.fence(tx, "h1")
        found = select(schema.claim.c.server_id).where(schema.claim.c.host_id == "h1")
        return list(tx.execute(found).scalars())

    with processes(postgresql_url, 2) as (one, two):
        one.write_now(cloud)
        claimer = Actor(one, claim, "b", "h1", "target", stop="INSERT INTO claim").reached()
        fencer = Actor(two, fence)
        assert fencer.waits()
        assert isinstance(claimer.end(), str)
        assert fencer.end() == ["b"]


def test_a_claim_that_comes_during_a_fence_waits_and_is_refused(postgresql_url: str) -> None:
    with processes(postgresql_url, 2) as (one, two):
        one.write_now(cloud)
        fencer = Actor(one, hosts.fence, "h1", stop="UPDATE host").reached()
        claimer = Actor(two, claim, "b", "h1", "target")
        assert claimer.waits()
        assert fencer.end() is None
        result = claimer.end()
        assert isinstance(result, Refused)
        assert (result.rule, result.why) == ("M5", "host h1 is fenced")
