"""What a move runs costs the same among a hundred servers and among a hundred thousand: every table that
grows with servers or with time is asked by an index."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event, text

from berthold.lab.world import PROJECT, World
from berthold.ledger import claims, group_moves, moves, outbox, reading
from berthold.ledger.store import Tx
from berthold.moves import reclaim
from berthold.records import progress
from berthold.settings import Settings

# These grow with hosts, with what operators arrange, or with what is under way just now.
SMALL = {
    "aggregate",
    "aggregate_host",
    "group_move",
    "heartbeat",
    "host",
    "inventory",
    "progress",
    "provider",
    "provider_trait",
    "queue",
}
# Indexes of what is under way.
UNDER_WAY = {"ask_open", "move_to_do", "m3_one_unfinished_move", "server_on_time"}
# What the lab asks, not the product.
OF_THE_LAB = re.compile(r"SELECT move.id\s+FROM move\s+WHERE state IN")


def a_day(world: World) -> None:
    """Every kind of policy, and moves there and back."""
    one = world.boot("one", world.group("anti-affinity", name="apart"))
    two = world.boot("two", world.group("affinity", name="together"))
    three = world.boot("three", world.group("soft-anti-affinity", name="rather apart"))
    world.live_migrate(one)
    world.migrate(three)
    world.settle()
    world.confirm(three)
    world.resize(one)
    world.settle()
    world.revert(one)
    world.live_migrate(two)
    world.settle()
    for server in (one, two, three):
        world.delete(server)
    world.settle()


def a_second(world: World) -> None:
    """What conductors and the agents' door ask again and again, whether anything happens or not."""
    write, read, host = world.store.write_now, world.store.read_now, world.host_id("node1")
    world.live_migrate(world.boot("four"))
    leases = write(moves.take, "conductor", 5.0, 32)
    assert leases
    write(moves.renew, "conductor", leases, 5.0)
    for lease in leases:
        write(moves.give_back, lease)
        write(moves.call, lease.move_id)
    write(progress.write, {"no such ask": (host, dict.fromkeys(progress.AMOUNTS, 0))})
    read(group_moves.unfinished)
    read(outbox.hosts_asked)
    read(outbox.open_for, host)
    read(claims.left_on, host)
    for term in reclaim.terms(Settings(reclaim_s=60, shelved_offload_s=60)):
        read(reclaim.overdue, term)
    world.settle()


def of_one(world: World) -> None:
    """What users ask of one server or group, however many there are."""
    server = world.boot("five", world.group("affinity", name="alone"))
    for project in (None, PROJECT):
        for deleted in (False, True):
            world.store.read_now(reading.server_of, server, project, deleted=deleted)
    group_id = world.store.read_now(reading.server_of, server, None)["group_id"]
    world.store.read_now(reading.group, group_id, None)


@contextmanager
def heard(world: World) -> Iterator[dict[str, Any]]:
    """Every statement that is run, with values it was run with."""
    statements: dict[str, Any] = {}

    def note(_: Tx, __: object, statement: str, values: Any, ___: object, many: bool) -> None:
        if statement.startswith(("SELECT", "INSERT", "UPDATE", "DELETE")) and not OF_THE_LAB.match(statement):
            statements.setdefault(statement, values[0] if many else values)

    event.listen(world.store.writer, "before_cursor_execute", note)
    yield statements
    event.remove(world.store.writer, "before_cursor_execute", note)


def test_on_sqlite() -> None:
    world = World(hosts=4)
    with heard(world) as statements:
        a_day(world)
        a_second(world)
        of_one(world)
    connection = world.store.connection()
    whole = set()
    for statement, values in statements.items():
        for _, _, _, step in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values):
            scan = re.match(r"SCAN ([a-z_]+)(?: USING (?:COVERING )?INDEX ([a-z0-9_]+))?", step)
            if scan and scan[1] not in SMALL and scan[2] not in UNDER_WAY:
                whole.add((scan[1], statement))
    assert len(statements) > 80
    assert whole == set()
    world.close()


def test_on_postgresql(postgresql_url: str) -> None:
    world = World(hosts=4, url=postgresql_url)
    with heard(world) as statements:
        a_day(world)
        a_second(world)
        of_one(world)

    def plans(tx: Tx) -> set[tuple[str, str]]:
        tx.execute(text("SET LOCAL enable_seqscan = off"))  # reads whole what it cannot read otherwise
        whole = set()
        for statement, values in statements.items():
            for (step,) in tx.exec_driver_sql(f"EXPLAIN {statement}", values):
                if (scan := re.search(r"Seq Scan on ([a-z_]+)", step)) and scan[1] not in SMALL:
                    whole.add((scan[1], statement))
        return whole

    assert len(statements) > 80
    assert world.store.write_now(plans) == set()
    world.close()


def test_an_index_that_is_missing_is_noticed() -> None:
    world = World(hosts=4)
    connection = world.store.connection()
    connection.execute("DROP INDEX claim_of_server")
    with heard(world) as statements:
        a_day(world)
    steps = [
        step
        for statement, values in statements.items()
        for _, _, _, step in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)
    ]
    assert any(re.match(r"SCAN claim\b", step) for step in steps)
    world.close()
