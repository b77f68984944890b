"""An agent that asks again is not looked up again, unless there is something that it was not shown."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from berthold.agent.protocol import Beat, Fenced, Hello, Take, Welcome
from berthold.api.agents import AgentDoor
from berthold.database import metadata
from berthold.ledger import hosts, outbox
from berthold.ledger.store import Store
from berthold.moves import left

SOON = 0.05


class Door:
    """The door, one host that is registered there, and how often the database was looked at for it."""

    def __init__(self) -> None:
        self.store = Store("sqlite://")
        metadata.create_all(self.store.writer)
        self.door = AgentDoor(self.store)
        self.me: Welcome = asyncio.run(self.door.register(Hello("node1", "key", {}, [], {})))
        self.looks = 0
        read = self.store.read

        async def counting(f: Any, *args: Any, **kwargs: Any) -> Any:
            self.looks += f.__name__ == "_asks_for"
            return await read(f, *args, **kwargs)

        self.store.read = counting  # type: ignore[method-assign]

    def take(self, *busy: str) -> list[str]:
        take = Take(self.me.host, self.me.epoch, SOON, list(busy))
        return [ask.id for ask in asyncio.run(self.door.take(take)).asks]

    def send(self, slot: str) -> None:
        where = {"move_id": "m", "server_id": "s", "host_id": self.me.host}
        self.store.write_now(outbox.send, slot=slot, verb="locate", args={}, **where)


@pytest.fixture
def door() -> Iterator[Door]:
    door = Door()
    yield door
    door.store.close()


def test_it_is_looked_up_once(door: Door) -> None:
    assert door.take() == []
    assert door.looks == 1
    assert door.take() == []
    assert door.looks == 1


def test_what_is_asked_later_is_shown(door: Door) -> None:
    door.take()
    door.send("one")
    (one,) = door.take()
    door.send("two")
    (two,) = door.take(one)
    assert one != two
    assert door.take(one, two) == []
    assert door.looks == 3


def test_what_it_was_shown_and_did_not_get_is_told_again_within_a_second(door: Door) -> None:
    door.send("one")
    lost = door.take()
    assert door.take() == []
    asyncio.run(door.door.tick())
    assert door.take() == lost


def test_a_new_epoch_is_shown_everything(door: Door) -> None:
    door.send("one")
    asks = door.take()
    old = door.me
    door.me = asyncio.run(door.door.register(Hello("node1", "key", {}, [], {})))
    assert door.take() == asks
    door.me = old
    with pytest.raises(Fenced):
        door.take()


def test_a_fenced_agent_is_told_so_though_nothing_is_asked_of_it(door: Door) -> None:
    door.take()
    door.store.write_now(hosts.fence, door.me.host)
    asyncio.run(door.door.tick())
    with pytest.raises(Fenced):
        door.take()


def test_a_look_that_failed_is_made_again(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(*_: Any) -> Any:
        raise RuntimeError("planned")

    door.send("one")
    with monkeypatch.context() as patch:
        patch.setattr(door.store, "read", failing)
        with pytest.raises(RuntimeError):
            door.take()
    assert len(door.take()) == 1


def test_the_agent_of_a_forgotten_host_hears_of_it_within_a_second_and_introduces_it_again(
    door: Door,
) -> None:
    beat = Beat(door.me.host, door.me.epoch)
    asyncio.run(door.door.tick())
    asyncio.run(door.door.heartbeat(beat))
    assert door.take() == []
    door.store.write_now(left.forget_host, door.me.host)
    asyncio.run(door.door.tick())
    for _ in range(2):  # and not only in the first second
        with pytest.raises(Fenced):
            asyncio.run(door.door.heartbeat(beat))
        with pytest.raises(Fenced):
            door.take()
        asyncio.run(door.door.tick())
    door.me = asyncio.run(door.door.register(Hello("node1", "key", {}, [], {})))
    asyncio.run(door.door.tick())
    asyncio.run(door.door.heartbeat(Beat(door.me.host, door.me.epoch)))
    assert door.take() == []
