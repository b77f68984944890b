"""Whoever attends to whole-group moves: wakes when a part ends, and is not stopped by one that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from berthold.lab.world import World
from berthold.ledger import group_moves
from berthold.ledger.store import Tx
from berthold.moves import together
from berthold.moves.attend import attend, attend_once
from whole_group import homes, move_group, sound_world, state, three


@pytest.fixture
def world() -> Iterator[World]:
    with sound_world() as world:
        yield world


def test_a_group_arrives_while_somebody_attends(world: World) -> None:
    group, servers = three(world)
    move_group(world, group, "node2")

    async def arrive() -> None:
        attending = asyncio.create_task(attend(world.store, scan_s=30.0))
        for _ in range(500):
            for move in world.unfinished():
                world.step(move)
            for host in ("node1", "node2"):
                world.obey(host)
            await asyncio.sleep(0)  # it is woken, not by the scan
            if state(world)[0] == "done":
                break
        attending.cancel()

    asyncio.run(arrive())
    assert state(world) == ("done", "node2")
    assert homes(world, servers) == {"node2"}


def test_one_that_fails_keeps_no_other_from_being_seen_to(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, servers = three(world)
    other = world.group("affinity", name="other")
    alone = world.boot("alone", other, host="node3")
    whole = move_group(world, group, "node2")
    move_group(world, other, "node1")
    tend = together.tend

    def broken(tx: Tx, group_move: str) -> bool:
        if group_move == whole:
            raise RuntimeError("planned")
        return tend(tx, group_move)

    monkeypatch.setattr(together, "tend", broken)
    for _ in range(30):
        for move in world.unfinished():
            world.step(move)
        for host in world.agents:
            world.obey(host)
        asyncio.run(_once(world))
    assert world.home(alone) == "node1"
    assert world.status(alone).task_state is None
    assert world.status(servers[0]).task_state == "migrating"
    monkeypatch.undo()
    world.settle()
    assert homes(world, servers) == {"node2"}


async def _once(world: World) -> None:
    await attend_once(world.store)


def test_whatever_goes_wrong_it_looks_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    group, servers = three(world)
    move_group(world, group, "node2")
    unfinished = group_moves.unfinished
    failed: list[bool] = []

    def broken(tx: Tx) -> list[str]:
        if not failed:
            failed.append(True)
            raise RuntimeError("planned")
        return unfinished(tx)

    monkeypatch.setattr(group_moves, "unfinished", broken)

    async def arrive() -> None:
        attending = asyncio.create_task(attend(world.store, scan_s=0.01))
        for _ in range(500):
            for move in world.unfinished():
                world.step(move)
            for host in ("node1", "node2"):
                world.obey(host)
            await asyncio.sleep(0)
            if state(world)[0] == "done":
                break
        attending.cancel()

    asyncio.run(arrive())
    assert failed
    assert homes(world, servers) == {"node2"}
    world.settle()
