"""Heartbeats cost no transaction each: the agents' door gathers them and writes all at once, each second."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from sqlalchemy import event, select

from berthold.agent.protocol import Beat, Hello, Welcome
from berthold.api.agents import AgentDoor
from berthold.clock import SeededClock
from berthold.database import metadata
from berthold.ledger import schema
from berthold.ledger.store import Store, Tx


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store("sqlite://", clock=SeededClock())
    metadata.create_all(store.writer)
    yield store
    store.close()


def heard_at(tx: Tx) -> set[float]:
    return set(tx.execute(select(schema.heartbeat.c.heard_at)).scalars())


async def beat(door: AgentDoor, hosts: list[Welcome]) -> None:
    for host in hosts:
        await door.heartbeat(Beat(host.host, host.epoch))


async def registered(door: AgentDoor, count: int) -> list[Welcome]:
    return [await door.register(Hello(f"node{n}", f"key{n}", {}, [], {})) for n in range(count)]


def test_many_are_one_write_and_none_before_its_second(store: Store) -> None:
    door = AgentDoor(store)
    hosts = asyncio.run(registered(door, 20))
    asyncio.run(door.tick())
    before = store.read_now(heard_at)
    store.clock.advance(1.0)  # type: ignore[attr-defined]
    written: list[str] = []

    def note(_: Tx, __: object, statement: str, *___: object) -> None:
        if statement.startswith(("INSERT", "UPDATE")):
            written.append(statement)

    event.listen(store.writer, "before_cursor_execute", note)
    asyncio.run(beat(door, hosts))
    assert written == []
    assert store.read_now(heard_at) == before
    asyncio.run(door.tick())
    assert len(written) == 1
    assert store.read_now(heard_at) == {store.clock.now()}
