"""G2: the flight of an affinity group, as claims in a real database, members racing."""

from __future__ import annotations

import pytest

from berthold.errors import Refused
from berthold.ledger import claims, hosts
from berthold.ledger.store import Store, Tx
from ledger_world import add_group, add_hosts, add_server, claim, violations
from races import race, writing

MEMBERS = [f"m{number}" for number in range(4)]


def cloud(tx: Tx) -> None:
    """A group of four at home on h0, which is fenced."""
    add_hosts(tx, 4)
    add_group(tx, "db", "affinity")
    for name in MEMBERS:
        add_server(tx, name, "db")
    for name in MEMBERS:
        claim(tx, name, "h0")
    hosts.fence(tx, "h0")


def flee(tx: Tx, server: str, host: str) -> str:
    return claim(tx, server, host, "target", move_id=f"evacuation of {server}")


def arrive(tx: Tx, server: str) -> None:
    claims.switch_home(tx, server)
    for each in claims.of_server(tx, server):
        if each.role == "source":
            claims.leave_behind(tx, each.id)


def where(tx: Tx) -> dict[str, set[str]]:
    return {
        name: {each.host_name for each in claims.of_server(tx, name) if each.role != "left"}
        for name in MEMBERS
    }


def test_they_go_to_one_host_and_their_group_is_at_rest(store: Store) -> None:
    store.write_now(cloud)
    store.write_now(flee, "m0", "h2")
    with pytest.raises(Refused) as refusal:
        store.write_now(flee, "m1", "h3")
    assert refusal.value.rule == "G2"
    with pytest.raises(Refused, match="moving"):
        store.write_now(add_server, "late", "db")
    for name in MEMBERS[1:]:
        store.write_now(flee, name, "h2")
    for name in MEMBERS:
        store.write_now(arrive, name)
        assert violations(store, "C1", "G1", "G2", "M2") == []
    assert set(map(frozenset, store.read_now(where).values())) == {frozenset({"h2"})}
    store.write_now(add_server, "late", "db")
    store.write_now(claim, "late", "h2")
    assert violations(store, "C1", "G1", "G2") == []


def test_no_member_of_a_group_at_rest_leaves_it_alone(store: Store) -> None:
    store.write_now(cloud)
    store.write_now(hosts.unfence, "h0")
    with pytest.raises(Refused, match="other members"):
        store.write_now(flee, "m0", "h2")
    assert violations(store, "G2") == []


def test_members_that_race_to_different_hosts_end_on_one(store: Store) -> None:
    store.write_now(cloud)
    results = race([writing(store, flee, name, f"h{1 + number % 3}") for number, name in enumerate(MEMBERS)])
    refused = [each for each in results if isinstance(each, Refused)]
    assert [each.rule for each in refused] == ["G2"] * len(refused)
    assert len(refused) + len([each for each in results if isinstance(each, str)]) == len(MEMBERS)
    homes = set().union(*store.read_now(where).values()) - {"h0"}
    assert len(homes) == 1
    assert violations(store, "C1", "G1", "G2", "M2") == []
