"""Several volumes for one server at once, with real conductors and agents: each gets its turn."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from berthold import companions
from berthold.companions import volume as volumes
from berthold.lab.world import SMALL
from berthold.ledger.notify import Notifier
from berthold.ledger.store import Store
from berthold.moves import begin, in_turn
from clouds import PROJECT, USER, Cloud, cloud
from races import LONG_S, processes


async def furnished(it: Cloud, directory: Path, count: int) -> tuple[str, list[str]]:
    """A server, and volumes that nobody has."""
    (server,) = await it.write(begin.create_servers, it.by(), [begin.NewServer(PROJECT, USER, "one", SMALL)])
    of_storage = companions.build(it.store, directory, b"k" * companions.TOKEN_KEY_BYTES).volumes
    made = []
    for number in range(count):
        row = await it.write(volumes.begin, PROJECT, None, {"name": f"disk{number}", "size": 1})
        await of_storage.fill(row)
        made.append(str(row.id))
    await it.rest()
    return server, made


async def all_at_once(it: Cloud, store: Store, server: str, wanted: list[str]) -> None:
    """As requests to a process whose store this is; then the server has them all."""

    async def attach(volume: str) -> None:
        await in_turn.in_turn(
            store, server, LONG_S, lambda: store.write(begin.attach_volume, server, it.by(), volume)
        )

    async with asyncio.timeout(LONG_S):
        await asyncio.gather(*map(attach, wanted))
    await it.rest()
    (row,) = await it.rows("server")
    assert sorted(volume["volume_id"] for volume in row["volumes"]) == sorted(wanted)
    assert len({volume["device"] for volume in row["volumes"]}) == len(wanted)
    assert await it.problems() == []


def test_each_of_several_at_once_gets_its_turn(store: Store, tmp_path: Path) -> None:
    async def story() -> None:
        async with cloud(store, tmp_path, node1=4) as it:
            server, wanted = await furnished(it, tmp_path, 4)
            await all_at_once(it, store, server, wanted)

    asyncio.run(story())


def test_who_waits_is_woken_by_another_process(
    postgresql_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looks by himself in time, so it is a NOTIFY that wakes."""
    monkeypatch.setattr(in_turn, "LOOK_S", 10 * LONG_S)

    async def story(works: Store, answers: Store) -> None:
        async with cloud(works, tmp_path, node1=4) as it:
            server, wanted = await furnished(it, tmp_path, 3)
            await all_at_once(it, answers, server, wanted)

    with processes(postgresql_url, 2) as (works, answers):
        notifiers = [Notifier(postgresql_url, store.bus) for store in (works, answers)]
        for each in notifiers:
            each.start()
        try:
            assert all(each.listening.wait(LONG_S) for each in notifiers)
            asyncio.run(story(works, answers))
        finally:
            for each in notifiers:
                each.stop()
