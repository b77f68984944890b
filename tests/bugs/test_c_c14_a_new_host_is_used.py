"""C-c14: a new host gets no servers.

The story (oxidecomputer/omicron issue 5181): hosts are half full, an empty one is added, and new
servers go on being placed on the old ones, since who chooses does not know of it yet.

Right: the new host is used by the next decision of a process that was told, and after
`watch.SWEEP_S` by one that was not; a member whose group has a seat nowhere else gets its place
there. What makes it so: registering announces the host in the transaction that introduces it, and
before anybody is told that no host will do the picture is compared with the database.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from berthold.ledger import groups, hosts
from berthold.ledger.store import Store, Tx
from berthold.moves import begin
from by_hand import MakeWorld, shown
from clouds import PROJECT, USER, cloud

OFFERS = {"VCPU": {"total": 4}, "MEMORY_MB": {"total": 4096}}
FLAVOR = {"vcpus": 1, "ram": 512}


def test_it_is_spread_onto_at_once(make_world: MakeWorld) -> None:
    world = make_world(node1=8, node2=8)
    group = world.group("anti-affinity")
    for number in range(8):
        world.boot(f"old-{number}", group if number < 2 else None)
    world.add_host("node3", vcpus=8, memory_mb=8 * 1024)
    third = world.boot("third", group)
    assert (shown(world, third), world.home(third)) == (("ACTIVE", None), "node3")
    new = [world.boot(f"new-{number}") for number in range(6)]
    homes = [world.home(server) for server in new]
    assert homes[:3] == ["node3"] * 3
    assert homes.count("node3") >= 4


def test_a_member_without_another_seat_finds_it_on_a_real_database(store: Store, tmp_path: Path) -> None:
    """Also where nobody was told: the host is introduced by a process that nobody hears."""

    async def story() -> None:
        async with cloud(store, tmp_path, conductors=1, node1=4) as it:
            group = await it.write(_group)
            await it.write(begin.create_servers, it.by(), [_wish("one", group)])
            await it.rest()
            deaf = Store(store.url)
            host = deaf.write_now(hosts.register, name="node2", key="node2", offers=OFFERS).id
            deaf.close()
            await it.write(begin.create_servers, it.by(), [_wish("two", group)])
            while not any(row["host_id"] == host for row in await it.rows("claim")):
                assert not [row for row in await it.rows("server") if row["condition"] == "error"]
                await asyncio.sleep(0.02)

    asyncio.run(asyncio.wait_for(story(), 30))


def _group(tx: Tx) -> str:
    return groups.create(
        tx, project_id=PROJECT, user_id=USER, name="web", policy="anti-affinity", rules={}, members_max=-1
    )


def _wish(name: str, group: str) -> begin.NewServer:
    return begin.NewServer(PROJECT, USER, name, FLAVOR, group_id=group)
