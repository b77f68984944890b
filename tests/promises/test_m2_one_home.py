"""M2: a server has at most one home, and it changes in a single transaction."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import IntegrityError

from berthold.ledger import claims
from berthold.ledger.store import Store, Tx
from ledger_world import add_hosts, add_server, claim, events, homes, violations
from races import Actor, processes


def moving(tx: Tx) -> None:
    """s lives on h0 and has a claim on h1, where a move takes it."""
    add_hosts(tx, 3)
    add_server(tx, "s")
    claim(tx, "s", "h0")
    claim(tx, "s", "h1", "target")


def roles(tx: Tx) -> dict[str, str]:
    return {each.host_name: each.role for each in claims.of_server(tx, "s")}


def test_the_target_becomes_the_home_and_the_home_the_source(store: Store) -> None:
    store.write_now(moving)
    store.write_now(claims.switch_home, "s")
    assert store.read_now(roles) == {"h0": "source", "h1": "home"}
    assert store.read_now(events, "s") == [("claimed", "h0"), ("claimed", "h1"), ("home", "h1")]
    assert violations(store, "M2") == []


def test_switched_again_it_goes_back(store: Store) -> None:
    store.write_now(moving)
    store.write_now(claims.switch_home, "s")
    store.write_now(claims.switch_home, "s")
    assert store.read_now(roles) == {"h0": "home", "h1": "target"}


@pytest.mark.parametrize("role", ["home", "target"])
def test_a_second_claim_of_one_role_is_impossible(store: Store, role: str) -> None:
    store.write_now(moving)
    with pytest.raises(IntegrityError):
        store.write_now(claim, "s", "h2", role)
    assert store.read_now(roles) == {"h0": "home", "h1": "target"}


@pytest.mark.parametrize("stop", ["UPDATE claim", "INSERT INTO history"])
def test_nobody_ever_sees_it_without_its_home_or_with_two(postgresql_url: str, stop: str) -> None:
    with processes(postgresql_url, 2) as (one, two):
        one.write_now(moving)
        switch = Actor(one, claims.switch_home, "s", stop=stop).reached()
        assert two.read_now(homes) == {"s": "h0"}
        assert switch.end() is None
        assert two.read_now(homes) == {"s": "h1"}
