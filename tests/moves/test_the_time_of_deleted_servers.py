"""What a conductor ends by itself, with real conductors and agents, on both engines."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from berthold.errors import WrongState
from berthold.lab.world import with_settings
from berthold.ledger import servers
from berthold.ledger.store import Store, Tx
from berthold.moves import begin, reclaim, shelf
from berthold.moves.reclaim import Term
from berthold.moves.soft_delete import SINCE
from clouds import PROJECT, USER, Cloud, cloud
from ledger_world import add_server

FLAVOR = {"id": "1", "name": "small", "vcpus": 1, "ram": 64, "disk": 1, "ephemeral": 0, "swap": 0}
RACERS = 8


async def boot(it: Cloud, count: int) -> list[str]:
    model = {**FLAVOR, "extra_specs": {}}
    wishes = [begin.NewServer(PROJECT, USER, f"server-{n}", model) for n in range(count)]
    servers = await it.write(begin.create_servers, it.by(), wishes)
    await it.rest()
    return servers


async def conditions(it: Cloud) -> dict[str, str]:
    return {row["id"]: row["condition"] for row in await it.rows("server")}


def test_a_conductor_deletes_and_offloads_what_is_due(store: Store, tmp_path: Path) -> None:
    async def story() -> None:
        short = with_settings(reclaim_s=0.5, shelved_offload_s=0.5, scan_s=0.1)
        async with cloud(store, tmp_path, settings=short, node1=4) as it:
            deleted, shelved = await boot(it, 2)
            await it.write(reclaim.soft_delete, deleted, it.by())
            await it.write(shelf.shelve, shelved, it.by(), offload=False)
            wanted = {deleted: "deleted", shelved: "shelved_offloaded"}
            for _ in range(600):
                if await conditions(it) == wanted:
                    break
                await asyncio.sleep(0.05)
            assert await conditions(it) == wanted
            assert await it.rows("claim") == []
            assert await it.problems() == []

    asyncio.run(story())


def test_what_is_due_is_found_by_when_it_was_due(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The least recently changed were looked at, and then whether their time was over: a server whose owner
    went on changing its metadata came after all that were still to wait."""
    monkeypatch.setattr(reclaim, "AT_ONCE", 2)
    present = store.clock.now()
    deleted = {"due-3": 30.0, "due-2": 40.0, "due-1": 50.0, "early-1": 5.0, "early-2": 1.0, "early-3": 0.0}

    def lay_out(tx: Tx) -> None:
        for name in reversed(deleted):  # so that those to wait are the least recently changed
            servers.change(tx, add_server(tx, name, condition="soft-deleted"), details=details(name))

    def details(name: str) -> dict[str, float]:
        return {SINCE: present - deleted[name]}

    store.write_now(lay_out)
    term = Term("soft-deleted", SINCE, 20.0)
    assert store.read_now(reclaim.overdue, term) == ["due-1", "due-2"]
    store.write_now(lambda tx: servers.change(tx, "due-1", details={}))  # since nobody knows when
    assert store.read_now(reclaim.overdue, term) == ["due-1", "due-2"]
    assert store.read_now(reclaim.overdue, Term("soft-deleted", SINCE, 3600.0)) == ["due-1"]


def test_a_restore_and_the_end_of_the_time_meet(store: Store, tmp_path: Path) -> None:
    """Of the two one wins, for each server; the other finds that out and changes nothing."""

    async def story() -> None:
        async with cloud(store, tmp_path, node1=RACERS) as it:
            servers = await boot(it, RACERS)
            for server in servers:
                await it.write(reclaim.soft_delete, server, it.by())
            await it.rest()
            assert set((await conditions(it)).values()) == {"soft-deleted"}
            over = Term("soft-deleted", SINCE, 0.0)

            async def restore(server: str) -> bool:
                try:
                    await it.write(begin.begin, "restore", server, it.by(), {})
                except WrongState:
                    return False
                return True

            async def end(server: str) -> bool:
                return await it.write(reclaim.end, over, server) is not None

            racers = [race(server) for server in servers for race in (restore, end)]
            won = await asyncio.gather(*racers)
            assert [sum(pair) for pair in zip(won[::2], won[1::2], strict=True)] == [1] * RACERS
            await it.rest()
            now = await conditions(it)
            assert [now[server] for server in servers] == [
                "active" if restored else "deleted" for restored in won[::2]
            ]
            assert await it.problems() == []

    asyncio.run(story())
