"""What a move runs costs the same among a hundred servers and among a hundred thousand: every table that
grows with servers or with time is asked by an index."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event, text

from berthold.lab.world import World
from berthold.ledger.store import Tx

# These grow with hosts, with what operators arrange, or with what is under way just now.
SMALL = {
    "aggregate",
    "aggregate_host",
    "group_move",
    "heartbeat",
    "host",
    "inventory",
    "provider",
    "provider_trait",
    "queue",
}
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
    connection = world.store.connection()
    whole = set()
    for statement, values in statements.items():
        for _, _, _, step in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values):
            if (scan := re.match(r"SCAN ([a-z_]+)", step)) and scan[1] not in SMALL:
                whole.add((scan[1], statement))
    assert len(statements) > 80
    assert whole == set()
    world.close()


def test_on_postgresql(postgresql_url: str) -> None:
    world = World(hosts=4, url=postgresql_url)
    with heard(world) as statements:
        a_day(world)

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


@pytest.mark.parametrize("dropped", ["claim_of_server", "seat_of_server"])
def test_an_index_that_is_missing_is_noticed(dropped: str) -> None:
    world = World(hosts=4)
    connection = world.store.connection()
    connection.execute(f"DROP INDEX {dropped}")
    with heard(world) as statements:
        a_day(world)
    steps = [
        step
        for statement, values in statements.items()
        for _, _, _, step in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)
    ]
    assert any(re.match(rf"SCAN {dropped.removesuffix('_of_server')}\b", step) for step in steps)
    world.close()
