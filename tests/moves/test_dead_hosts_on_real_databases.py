"""Evacuations and unshelves with real conductors and agents, all at once, on both engines."""

from __future__ import annotations

import asyncio
from pathlib import Path

from berthold.ledger import groups, hosts
from berthold.ledger.store import Store, Tx
from berthold.moves import begin, left, shelf
from clouds import PROJECT, USER, Cloud, cloud

FLAVOR = {"id": "1", "name": "small", "vcpus": 1, "ram": 64, "disk": 1, "ephemeral": 0, "swap": 0}


def group(tx: Tx) -> str:
    return groups.create(
        tx, project_id=PROJECT, user_id=USER, name="web", policy="anti-affinity", rules={}, members_max=-1
    )


async def boot(it: Cloud, count: int) -> list[str]:
    web = await it.write(group)
    wishes = [
        begin.NewServer(PROJECT, USER, f"web-{n}", {**FLAVOR, "extra_specs": {}}, group_id=web)
        for n in range(count)
    ]
    servers = await it.write(begin.create_servers, it.by(), wishes)
    await it.rest()
    return servers


def test_two_dead_hosts_and_one_that_is_free(store: Store, tmp_path: Path) -> None:
    async def story() -> None:
        async with cloud(store, tmp_path, node1=4, node2=4, node3=4) as it:
            servers = await boot(it, 2)
            home = await it.homes()
            by_name = {row["name"]: row["id"] for row in await it.rows("host")}
            dead = [by_name[name] for name in home.values()]
            for name in home.values():
                await it.write(hosts.fence, by_name[name])
                it.ground.power_off(name)
            await asyncio.gather(
                *(it.write(left.evacuate, server, it.by(), silent_since=0.0) for server in servers)
            )
            await it.rest()
            assert await it.problems() == []
            moves = [row for row in await it.rows("move") if row["kind"] == "evacuation"]
            assert sorted(row["state"] for row in moves) == ["done", "undone"]
            for _ in range(200):  # the agents register anew and remove what was left
                if not [row for row in await it.rows("claim") if row["role"] == "left"]:
                    break
                await asyncio.sleep(0.05)
            for host in dead:
                await it.write(hosts.unfence, host)
            assert await it.problems() == []
            assert len(set((await it.homes()).values())) == 2

    asyncio.run(story())


def test_three_are_unshelved_at_once_on_two_hosts(store: Store, tmp_path: Path) -> None:
    async def story() -> None:
        async with cloud(store, tmp_path, node1=4, node2=4, node3=4) as it:
            servers = await boot(it, 3)
            for server in servers:
                await it.write(shelf.shelve, server, it.by())
            await it.rest()
            assert await it.rows("claim") == []
            (gone,) = [row["id"] for row in await it.rows("host") if row["name"] == "node3"]
            await it.write(hosts.set_disabled, gone, True)
            await asyncio.gather(*(it.write(shelf.unshelve, server, it.by()) for server in servers))
            await it.rest()
            assert await it.problems() == []
            conditions = sorted(row["condition"] for row in await it.rows("server"))
            assert conditions == ["active", "active", "shelved_offloaded"]
            assert len(await it.rows("image")) == 1

    asyncio.run(story())
