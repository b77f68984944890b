"""Compliance: a server that is where its group or its host's capacity does not want it is named, by
whatever way that came to be, with what would put it right. A cloud that keeps its word has none.

Each violation is planted by plain SQL on both engines, in a cloud that is otherwise right; where
a constraint prevents that, it is dropped first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Connection, text, update

import ledger_world
import loosened
from berthold.clock import SeededClock
from berthold.ledger import compliance, hosts, reading, schema
from berthold.ledger.compliance import AT_RISK, PREFERENCE, VIOLATION, Finding


@dataclass(frozen=True)
class Plant:
    """`statements` make `servers` of `group` break `rule` on `host`; the finding says `says`."""

    rule: str
    host: str
    servers: tuple[str, ...]
    says: str
    statements: tuple[str, ...]
    group: str | None = None
    drop: str | None = None


def standing(server: str, host: str, more: str) -> str:
    return (
        "INSERT INTO claim (id, server_id, host_id, host_epoch, role, rule, group_id, domain, place)"
        f" VALUES ('z', '{server}', '{host}', 1, 'home', {more})"
    )


PLANTS = (
    Plant(
        "C1",
        "h0",
        ("a",),
        "host h0 holds 1 VCPU, 1 VCPU above its capacity of 0: its inventory was shrunk below its use",
        (
            "UPDATE inventory SET total = 0, capacity = 0, ceiling = 1"
            " WHERE provider_id = 'h0' AND class = 'VCPU'",
        ),
    ),
    Plant(
        "G1",
        "h0",
        ("a", "b"),
        "2 members of anti-affinity group web are on host h0, which may hold 1: a and b",
        (
            "INSERT INTO seat VALUES ('web', 'h0', 2, 2, 'b')",
            standing("b", "h0", "'anti-affinity', 'web', 'h0', NULL"),
        ),
        "web",
        drop="g1_honest_per_host",
    ),
    Plant(
        "G2",
        "h2",
        ("y",),
        "y of an affinity group that lives on host h1 hold a place on host h2",
        (standing("y", "h2", "'affinity', 'pair', NULL, 'h2'"),),
        "pair",
        drop="g2_claim_at_place",
    ),
)
each_plant = pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.rule)


def fill(tx: Connection) -> None:
    """web has a on h0, pair has x on h1, soft has s and t on h2; b and y are nowhere. All are heard."""
    tx.info.update(clock=SeededClock(), topics=[])
    ledger_world.add_hosts(tx, 3, VCPU=4, MEMORY_MB=4096)
    for name, policy in (("web", "anti-affinity"), ("pair", "affinity"), ("soft", "soft-anti-affinity")):
        ledger_world.add_group(tx, name, policy)
    members = (("a", "web"), ("b", "web"), ("x", "pair"), ("y", "pair"), ("s", "soft"), ("t", "soft"))
    for name, group in members:
        ledger_world.add_server(tx, name, group)
    for name, host in (("a", "h0"), ("x", "h1"), ("s", "h2"), ("t", "h2")):
        ledger_world.claim(tx, name, host)
        tx.execute(update(schema.server).where(schema.server.c.id == name).values(condition="active"))
    hosts.heard(tx, ["h0", "h1", "h2"])


@pytest.fixture
def cloud(rows: loosened.Rows) -> Iterator[Connection]:
    """The cloud on SQLite, with all its constraints."""
    with loosened.sqlite_without(rows=rows) as tx:
        tx.info.update(clock=SeededClock(), topics=[])
        yield tx


def check(tx: Connection, plant: Plant) -> None:
    assert compliance.violations(tx) == []
    for statement in plant.statements:
        assert tx.execute(text(statement)).rowcount >= 1, statement
    (found,) = compliance.violations(tx)
    assert (found.kind, found.rule, found.says) == (VIOLATION, plant.rule, plant.says)
    assert (found.group_id, found.host, found.servers) == (plant.group, plant.host, plant.servers)
    assert found.mends
    assert not [host for host in ("h0", "h1", "h2") if host in found.told], "an owner is told no host"


@each_plant
def test_a_planted_violation_is_named_on_postgresql(plant: Plant, filled: Connection) -> None:
    try:
        if plant.drop:
            loosened.drop(filled, plant.drop)
        check(filled, plant)
    finally:
        filled.rollback()


@each_plant
def test_a_planted_violation_is_named_on_sqlite(plant: Plant, rows: loosened.Rows) -> None:
    with loosened.sqlite_without(*([plant.drop] if plant.drop else []), rows=rows) as tx:
        tx.info.update(clock=SeededClock())
        check(tx, plant)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.rule)
def test_its_group_shows_which_members_do_not_comply(plant: Plant, rows: loosened.Rows) -> None:
    group = plant.group or "web"
    with loosened.sqlite_without(*([plant.drop] if plant.drop else []), rows=rows) as tx:
        tx.info.update(clock=SeededClock())
        for statement in plant.statements:
            tx.execute(text(statement))
        wrong = tuple(member.id for member in _members(tx, group) if not member.complies)
        assert wrong == plant.servers


def _members(tx: Connection, group: str, since: float = 0.0) -> list[compliance.Member]:
    return compliance.members(tx, reading.group(tx, group, None), since)


def findings(tx: Connection, group: str, server: str, **more: Any) -> list[Finding]:
    (member,) = [each for each in _members(tx, group, **more) if each.id == server]
    return list(member.findings)


def test_a_group_without_a_home_of_its_own_lives_where_most_of_its_members_are(rows: loosened.Rows) -> None:
    """Rows that came from elsewhere name no place."""
    free = ("g2_claim_at_place", "g2_no_escape", "m2_one_home")
    with loosened.sqlite_without(*free, rows=rows) as tx:
        tx.info.update(clock=SeededClock(), topics=[])
        ledger_world.add_server(tx, "w", "pair")
        for name, claim, host in (("y", "c1", "h1"), ("w", "c2", "h2")):
            tx.execute(
                text(standing(name, host, "'affinity', 'pair', NULL, NULL").replace("'z'", f"'{claim}'"))
            )
        tx.execute(text("DELETE FROM group_place"))
        (found,) = compliance.violations(tx)
        assert (found.servers, found.host, found.mends) == (("w",), "h2", ("migrate them to h1",))


def test_who_is_on_a_fenced_host_complies_and_is_at_risk(cloud: Connection) -> None:
    hosts.fence(cloud, "h0")
    (member, _) = _members(cloud, "web")
    assert member.complies
    (found,) = member.findings
    assert (found.kind, found.rule, found.says) == (AT_RISK, "M5", "its host h0 is fenced")
    assert "openstack server evacuate a" in found.mends


def test_who_is_on_a_silent_host_is_at_risk(cloud: Connection) -> None:
    assert findings(cloud, "web", "a") == []
    late = cloud.info["clock"].now() + 60
    (found,) = findings(cloud, "web", "a", since=late)
    assert (found.kind, found.says, found.told) == (
        AT_RISK,
        "its host h0 is not heard of",
        "its host does not answer",
    )


def test_what_was_left_behind_on_a_fenced_host_is_told(cloud: Connection) -> None:
    claim = cloud.execute(text("SELECT id FROM claim WHERE server_id = 'a'")).scalar_one()
    ledger_world.claim(cloud, "a", "h1", "target")
    cloud.execute(text("UPDATE claim SET role = 'source' WHERE id = :id"), {"id": claim})
    cloud.execute(text("UPDATE claim SET role = 'home' WHERE server_id = 'a' AND role = 'target'"))
    ledger_world.fence_and_leave(cloud, claim, "h0")
    (found,) = findings(cloud, "web", "a")
    assert (found.kind, found.rule, found.host) == (AT_RISK, "M1", "h0")


def test_a_preference_that_is_not_met_is_no_violation(cloud: Connection) -> None:
    for server, other in (("s", "t"), ("t", "s")):
        (found,) = findings(cloud, "soft", server)
        assert (found.kind, found.rule) == (PREFERENCE, "G3")
        assert found.told == f"it shares its host with {other}"
    assert all(member.complies for member in _members(cloud, "soft"))
    assert compliance.violations(cloud) == []


def test_members_that_are_nowhere_have_nothing_wrong(cloud: Connection) -> None:
    (_, nowhere) = _members(cloud, "web")
    assert (nowhere.id, nowhere.host, nowhere.findings) == ("b", None, ())
