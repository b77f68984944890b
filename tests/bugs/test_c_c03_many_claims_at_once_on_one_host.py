"""C-c03: concurrent claims end in needless refusals.

The story (Launchpad nova 1719933, 1728722; oxidecomputer/omicron issue 3304): many servers are
created at once, and there is room for all of them on one host. Every claim raises the host's
generation, so the writers collide; after a few retries a claim is given up, and users see "no
valid host", a conflict or the words of the database's serialisation error.

Right: all 40 are ACTIVE and exactly 40 are counted. What makes it so: writers of one host wait
for each other at its row instead of colliding; usage is a counter changed by a guarded update; and
a transaction that the database ended is begun anew (`Store.write`).
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from berthold.errors import Failure
from berthold.lab.world import SMALL
from berthold.ledger.store import Store
from berthold.moves import begin
from by_hand import MakeWorld, choosing, events, shown, under_way, used
from clouds import PROJECT, USER, Cloud, cloud


def wish(number: int) -> begin.NewServer:
    return begin.NewServer(PROJECT, USER, f"server{number}", SMALL)


def test_forty_have_chosen_before_the_first_one_claims(make_world: MakeWorld) -> None:
    world = make_world(node1=64)
    servers = [world.create(f"server{number}") for number in range(40)]
    creates = [under_way(world, server) for server in servers]
    turns = [choosing(world, create) for create in creates]
    random.Random(1719933).shuffle(turns)
    for turn in turns:
        turn.end()
    assert used(world, "node1") == 40
    assert world.problems() == []
    world.settle()

    assert {shown(world, server) for server in servers} == {("ACTIVE", None)}
    assert used(world, "node1") == 40
    for create in creates:
        assert [result for _, result in events(world, create)] == ["Success", "Success"]


def test_forty_clients_at_once_on_a_real_database(store: Store, tmp_path: Path) -> None:
    """Threads, connections, conductors and an agent as in production."""

    async def story() -> None:
        async with cloud(store, tmp_path, conductors=3, node1=64) as it:
            await asyncio.gather(
                *(it.write(begin.create_servers, it.by(), [wish(number)]) for number in range(40))
            )
            await it.rest()
            await judge(it)

    async def judge(it: Cloud) -> None:
        assert [row["condition"] for row in await it.rows("server")] == ["active"] * 40
        assert len(await it.homes()) == 40
        cores = [row for row in await it.rows("inventory") if row["class"] == "VCPU"]
        assert [(row["used"], row["capacity"]) for row in cores] == [(40, 64)]
        assert {row["result"] for row in await it.rows("event")} == {"Success"}
        assert {row["state"] for row in await it.rows("move")} == {"done"}
        assert await it.problems() == []
        assert len(it.ground.states("node1")) == 40

    asyncio.run(story())


def test_on_a_host_with_less_room_exactly_as_many_win_as_fit(store: Store, tmp_path: Path) -> None:
    """Sixteen places, twenty clients, of which each also deletes what failed: nothing is lost."""

    async def one(it: Cloud, number: int) -> list[str] | Failure:
        try:
            return await it.write(begin.create_servers, it.by(), [wish(number)])
        except Failure as failure:
            return failure

    async def story() -> None:
        async with cloud(store, tmp_path, conductors=3, node1=16) as it:
            created = await asyncio.gather(*(one(it, number) for number in range(20)))
            assert all(isinstance(each, list) for each in created), created
            await it.rest()
            servers = await it.rows("server")
            assert sorted(row["condition"] for row in servers) == ["active"] * 16 + ["error"] * 4
            failed = [row for row in servers if row["condition"] == "error"]
            assert {row["fault"]["message"] for row in failed} == {
                "No valid host was found. 1 host: capacity"
            }
            assert await it.problems() == []
            for row in failed:
                await it.write(begin.begin, "delete", row["id"], it.by(), {})
            await it.rest()
            assert len(await it.homes()) == 16
            assert await it.problems() == []

    asyncio.run(story())
