"""The audit finds each broken promise, names exactly what breaks it, and nothing else.

Every check has a violation planted by plain SQL in a cloud that is otherwise right. Where a
constraint prevents the planting it is dropped first. No check is without such a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Connection, text, update

import ledger_world
import loosened
from berthold.clock import SeededClock
from berthold.lab.looks import AUDIT
from berthold.lab.world import World
from berthold.ledger import schema
from berthold.ledger.audit import CHECKS, audit
from berthold.ledger.store import clock_of

MOVE = """
    INSERT INTO move (id, server_id, kind, playbook, state, line_since, request_id, user_id, project_id,
                      created_at, updated_at)
    SELECT 'm2', '{server}', kind, playbook, 'running', 0, request_id, user_id, project_id, 0, updated_at
      FROM move WHERE id = 'm1'"""


@dataclass(frozen=True)
class Plant:
    """`statements` break what the check that says `says` looks for; it must answer with `row`."""

    promise: str
    says: str
    row: dict[str, Any]
    statements: tuple[str, ...]
    drop: str | None = None


def standing(
    server: str, host: str, role: str, more: str = "'none', NULL, NULL, NULL", id: str = "z"
) -> tuple[str, ...]:
    """A claim of a server, with its place in the history."""
    return (
        "INSERT INTO claim (id, server_id, host_id, host_epoch, role, rule, group_id, domain, place)"
        f" VALUES ('{id}', '{server}', '{host}', 1, '{role}', {more})",
        f"INSERT INTO history (at, event, claim_id) VALUES (0, 'claimed', '{id}')",
    )


GROUP_MOVE = (
    "INSERT INTO group_move (id, group_id, source_id, target_id, goal_id, state, request_id, user_id,"
    " project_id, created_at, updated_at)"
    " VALUES ('v1', '{group}', 'h1', 'h2', 'h2', '{state}', 'req-1', 'u', 'p', 0, 0)"
)


def together(group: str, state: str, server: str) -> tuple[str, ...]:
    """A group move, and the part of a member that holds nothing on the next home."""
    return (
        GROUP_MOVE.format(group=group, state=state),
        f"UPDATE server_group SET moving = 'v1' WHERE id = '{group}'",
        MOVE.format(server=server),
        "UPDATE move SET group_move_id = 'v1' WHERE id = 'm2'",
    )


PLANTS = (
    Plant(
        "C1",
        "{provider_id} counts {used} {class} as used, its claims hold {held}",
        {"provider_id": "h0", "class": "VCPU", "used": 3, "held": 1},
        ("UPDATE inventory SET used = 3 WHERE provider_id = 'h0' AND class = 'VCPU'",),
    ),
    Plant(
        "C1",
        "{provider_id} holds {used} {class} above its ceiling of {ceiling}",
        {"provider_id": "h0", "class": "VCPU", "used": 1, "ceiling": 0},
        ("UPDATE inventory SET ceiling = 0 WHERE provider_id = 'h0' AND class = 'VCPU'",),
        drop="c1_capacity",
    ),
    Plant(
        "C1",
        "claim {id} of server {server_id} is on a host that does not exist ({host_id})",
        {"id": "z", "server_id": "n", "host_id": "h9"},
        standing("n", "h9", "target"),
    ),
    Plant(
        "G1",
        "group {group_id} allows {per_host} on a host; on {host_id} it has {members}: {first} and {last}",
        {"group_id": "web", "host_id": "h0", "per_host": 1, "members": 2, "first": "a", "last": "b"},
        (
            "INSERT INTO seat VALUES ('web', 'h0', 2, 2, 'b')",
            *standing("b", "h0", "home", "'anti-affinity', 'web', 'h0', NULL"),
        ),
        drop="g1_honest_per_host",
    ),
    Plant(
        "G1",
        "claim {id} of member {server_id} on {host_id} has no seat",
        {"server_id": "a", "host_id": "h0"},
        ("DELETE FROM seat",),
        drop="g1_claim_has_seat",
    ),
    Plant(
        "G1",
        "seat {seat} of group {group_id} on {domain} is held by {server_id}, which has no claim there",
        {"group_id": "web", "domain": "h1", "seat": 1, "server_id": "b"},
        ("INSERT INTO seat VALUES ('web', 'h1', 1, 1, 'b')",),
    ),
    Plant(
        "G2",
        "affinity group {group_id} lives on {hosts} hosts: {first} and {last}",
        {"group_id": "pair", "hosts": 2, "first": "h1", "last": "h2"},
        standing("y", "h2", "home", "'affinity', 'pair', NULL, 'h2'"),
        drop="g2_claim_at_place",
    ),
    Plant(
        "G2",
        "group {group_id} has a place on {host_id} where no member has a claim",
        {"group_id": "pair", "host_id": "h2"},
        (
            "UPDATE server_group SET moving = 'm' WHERE id = 'pair'",
            "INSERT INTO group_place VALUES ('pair', 'next', 'h2')",
        ),
    ),
    Plant(
        "G2",
        "group {group_id} has a next home {host_id} and is not moving",
        {"group_id": "pair", "host_id": "h2"},
        (
            "INSERT INTO group_place VALUES ('pair', 'next', 'h2')",
            "UPDATE host SET status = 'cleaning' WHERE id = 'h2'",
            *standing("y", "h2", "left", "'affinity', 'pair', NULL, 'h2'"),
        ),
    ),
    Plant(
        "G2",
        "group {group_id} is on group move {id} and does not say that it moves",
        {"id": "v1", "group_id": "pair"},
        (
            *together("pair", "moving", "x"),
            "UPDATE server_group SET moving = 'v0' WHERE id = 'pair'",
            "INSERT INTO group_place VALUES ('pair', 'next', 'h2')",
            *standing("x", "h2", "target", "'affinity', 'pair', NULL, 'h2'"),
        ),
    ),
    Plant(
        "G2",
        "server {server_id} is on group move {id} and holds {held} of the two hosts before all have arrived",
        {"id": "v1", "server_id": "x", "held": 1},
        together("pair", "moving", "x"),
    ),
    Plant(
        "G2",
        "move {id} of server {server_id} belongs to group move {group_move_id}, which is over",
        {"id": "m2", "server_id": "x", "group_move_id": "v1"},
        together("pair", "done", "x"),
    ),
    Plant(
        "G4",
        "claim {id} follows group {group_id}, its server {server_id} does not",
        {"group_id": "web", "server_id": "n"},
        ("UPDATE claim SET group_id = 'web' WHERE server_id = 'n'",),
        drop="claim_group_is_its_servers",
    ),
    Plant(
        "M1",
        "host {host_id} was asked to {verb} server {server_id}, which has no claim there",
        {"id": "k1", "host_id": "h0", "verb": "prepare", "server_id": "n"},
        ("UPDATE ask SET host_id = 'h0'",),
    ),
    Plant(
        "M1",
        "host {host_id} is up and still holds server {server_id}, left behind",
        {"host_id": "h0", "server_id": "v"},
        standing("v", "h0", "left"),
    ),
    Plant(
        "M1",
        "one machine is both host {first} and host {last}",
        {"first": "h0", "last": "h1", "hosts": 2},
        ("UPDATE host SET agent_key = 'one' WHERE id IN ('h0', 'h1')",),
        drop="m1_one_host_per_machine",
    ),
    Plant(
        "M2",
        "server {server_id} has {homes} homes: {first} and {last}",
        {"server_id": "v", "homes": 2, "first": "h0", "last": "h1"},
        (*standing("v", "h0", "home"), *standing("v", "h1", "home", id="z2")),
        drop="m2_one_home",
    ),
    Plant(
        "M2",
        "server {id} is {condition} and has no home",
        {"id": "v", "condition": "paused"},
        ("UPDATE server SET condition = 'paused' WHERE id = 'v'",),
    ),
    Plant(
        "M2",
        "server {id} is {condition} and has no home",
        {"id": "v", "condition": "soft-deleted"},
        ("UPDATE server SET condition = 'soft-deleted' WHERE id = 'v'",),
    ),
    Plant(
        "M3",
        "server {server_id} has {moves} unfinished moves",
        {"server_id": "n", "moves": 2},
        (MOVE.format(server="n"),),
        drop="m3_one_unfinished_move",
    ),
    Plant(
        "M3",
        "server {server_id} is deleted and its move {id} is {state}",
        {"id": "m2", "server_id": "v", "state": "running"},
        ("UPDATE server SET condition = 'deleted' WHERE id = 'v'", MOVE.format(server="v")),
    ),
    Plant(
        "M4",
        "nobody has worked on move {id} of server {server_id} for {idle} seconds",
        {"id": "m1", "server_id": "n"},
        ("UPDATE move SET until = 1, updated_at = 1",),
    ),
    Plant(
        "M6",
        "claim {id} ({role}) of server {server_id} on {host_id} belongs to no unfinished move",
        {"id": "z", "role": "target", "server_id": "v", "host_id": "h0"},
        standing("v", "h0", "target"),
    ),
    Plant(
        "M6",
        "server {id} is deleted and keeps claim {claim_id} on {host_id}",
        {"id": "v", "claim_id": "z", "host_id": "h0"},
        ("UPDATE server SET condition = 'deleted' WHERE id = 'v'", *standing("v", "h0", "home")),
    ),
    Plant(
        "M6",
        "server {id} is {condition} and nothing works on it",
        {"id": "v", "condition": "building"},
        ("UPDATE server SET condition = 'building' WHERE id = 'v'",),
    ),
    Plant(
        "M7",
        "move {move_id} stands in the queue for {host_id} and is {state}",
        {"move_id": "m1", "host_id": "h1", "state": "undoing"},
        (
            "INSERT INTO queue VALUES ('m1', 'h1', 1, NULL, true, 0)",
            "UPDATE move SET state = 'undoing' WHERE id = 'm1'",
        ),
    ),
    Plant(
        "M7",
        "group move {id} waits for a host, and server {server_id} holds {host_id} ({role}) for it",
        {"id": "v1", "server_id": "x", "host_id": "h2", "role": "target"},
        (
            *together("pair", "waiting", "x"),
            "INSERT INTO group_place VALUES ('pair', 'next', 'h2')",
            *standing("x", "h2", "target", "'affinity', 'pair', NULL, 'h2'"),
        ),
    ),
    Plant(
        "Q1",
        "project {id} counts {instances} instances, {cores} cores, {ram} MiB; it has {i}, {c}, {r}",
        {"id": ledger_world.PROJECT, "instances": 6, "cores": 7, "i": 6, "c": 6},
        ("UPDATE project SET cores = cores + 1",),
    ),
    Plant(
        "Q1",
        "project {id} counts {server_groups} server groups and has {groups}",
        {"id": ledger_world.PROJECT, "server_groups": 3, "groups": 2},
        ("UPDATE project SET server_groups = server_groups + 1",),
    ),
    Plant(
        "Q1",
        "group {id} counts {members} members and has {servers}",
        {"id": "pair", "members": 3, "servers": 2},
        ("UPDATE server_group SET members = members + 1 WHERE id = 'pair'",),
    ),
    Plant(
        "A1",
        "claim {id} of server {server_id} is not in the placement history",
        {"server_id": "n"},
        ("DELETE FROM history WHERE server_id = 'n'",),
    ),
)
each_plant = pytest.mark.parametrize("plant", PLANTS, ids=lambda p: f"{p.promise}: {p.says}")


def fill(tx: Connection) -> None:
    """web has a on h0, pair has x on h1; n is on h2 and on the move; b, y and v are nowhere."""
    tx.info.update(clock=SeededClock(), topics=[])
    ledger_world.add_hosts(tx, 3, VCPU=4, MEMORY_MB=4096)
    ledger_world.add_group(tx, "web", "anti-affinity")
    ledger_world.add_group(tx, "pair", "affinity")
    for name, group in (("a", "web"), ("b", "web"), ("x", "pair"), ("y", "pair"), ("n", None), ("v", None)):
        ledger_world.add_server(tx, name, group)
    for name, host in (("a", "h0"), ("x", "h1"), ("n", "h2")):
        ledger_world.claim(tx, name, host)
        tx.execute(update(schema.server).where(schema.server.c.id == name).values(condition="active"))
    ledger_world.add_move(tx, "n")
    tx.execute(update(schema.move).values(id="m1"))
    tx.execute(
        schema.ask.insert().values(
            id="k1",
            move_id="m1",
            slot="1",
            server_id="n",
            host_id="h2",
            host_epoch=1,
            seq=1,
            verb="prepare",
            asked_at=0,
        )
    )


def is_anything_wrong(tx: Connection) -> bool:
    """As the lab asks, all checks in one query."""
    moment = clock_of(tx).now()
    return bool(tx.execute(text(AUDIT.replace("?", ":now")), {"now": moment}).all())


def check(tx: Connection, plant: Plant) -> None:
    assert not is_anything_wrong(tx)
    for statement in plant.statements:
        assert tx.execute(text(statement)).rowcount >= 1, statement
    assert is_anything_wrong(tx)
    (found,) = audit(tx)
    assert found.promise == plant.promise
    assert {name: found.row[name] for name in plant.row} == plant.row
    assert found.says == plant.says.format(**found.row)


@each_plant
def test_it_is_found_on_postgresql(plant: Plant, filled: Connection) -> None:
    try:
        assert audit(filled) == []
        if plant.drop:
            loosened.drop(filled, plant.drop)
        check(filled, plant)
    finally:
        filled.rollback()


@each_plant
def test_it_is_found_on_sqlite(plant: Plant, rows: loosened.Rows) -> None:
    dropped = [plant.drop] if plant.drop else []
    with loosened.sqlite_without(*dropped, rows=rows) as tx:
        tx.info.update(clock=SeededClock())
        assert audit(tx) == []
        check(tx, plant)


def test_no_check_is_without_such_a_test() -> None:
    assert {(plant.promise, plant.says) for plant in PLANTS} == {(each.promise, each.says) for each in CHECKS}


def test_no_check_has_to_make_itself_an_index() -> None:
    """SQLite would, each time; PostgreSQL reads the table anew for each row, and its audit ends at a timeout.
    What reads all history is asked by hand only."""
    world = World(hosts=1)
    connection = world.store.connection()
    anew = []
    for check in (each for each in CHECKS if not each.history):
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {check.sql}", {"now": 0.0})]
        sums = {step.split()[1] for step in plan if step.startswith("MATERIALIZE")}  # which have no other
        indexed = {step.split()[1] for step in plan if "AUTOMATIC" in step}
        anew += [check.says] if indexed - sums else []
    assert anew == []
    world.close()
