"""C-b29: monitoring dies while the hypervisor goes on.

The story (Launchpad nova 1905944, 1414065): memory is being sent, and whoever watches that loses
its connection and fails. The hypervisor goes on. The server is marked as failed on the first host
while its guest arrives on the second, and its owner is offered "start".

Right: the record says where the guest is. A copy that had arrived counts; one that had not is ended
before the server is free again. In between it is MIGRATING and nobody may start it. What makes it
so: when the answer that decides is lost, both agents are asked who runs the guest, and to ask is to
end the sending; that answer, not the failure, chooses the direction (M1, M6).
"""

from __future__ import annotations

from typing import Any

import pytest

from berthold.errors import Unavailable, WrongState
from berthold.lab.world import World, now
from berthold.ledger import schema
from berthold.moves import begin, runner
from berthold.moves.runner import Runner
from by_hand import Halfway, MakeWorld, ended, holds, outcome, shown, step_until


def sending(make_world: MakeWorld) -> tuple[World, str, str]:
    world = make_world(node1=4, node2=4)
    one = world.boot("one", world.group("anti-affinity"), host="node1")
    move = world.live_migrate(one)
    step_until(world, move, "send memory")
    return world, one, move


def arrives(world: World) -> None:
    """The copy comes to its end, and nobody hears of it."""
    (ask,) = world.asks("node1")
    now(world.agents["node1"].do(ask))


def settle_watched(world: World, one: str) -> None:
    """To the end, step by step: never is the server free where its guest is not."""
    while world.unfinished():
        assert shown(world, one) == ("MIGRATING", "migrating")
        with pytest.raises(WrongState):
            world.store.write_now(begin.begin, "start", one, world.by(), {})
        assert world.problems() == []
        for move in world.unfinished():
            world.step(move)
        for name in world.agents:
            world.obey(name)
    assert shown(world, one) == ("ACTIVE", None)
    assert world.ground.runners(one) == [world.home(one)]


@pytest.mark.parametrize("arrived", [False, True])
def test_the_watcher_fails(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, arrived: bool) -> None:
    world, one, move = sending(make_world)
    if arrived:
        arrives(world)

    def bug(*_: Any, **__: Any) -> None:
        raise RuntimeError("Cannot switch to a different thread")

    monkeypatch.setattr(Runner, "_problem", bug)
    world.step(move)
    monkeypatch.undo()
    settle_watched(world, one)
    assert holds(world, one) == {"node2" if arrived else "node1": "home"}
    assert ended(world, move) == ("completed" if arrived else "error")
    assert outcome(world, move) == (None if arrived else "Error")


@pytest.mark.parametrize("arrived", [False, True])
def test_the_watcher_loses_the_database(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    """Then it may write nothing, and whoever reaches the database again goes on."""
    world, one, move = sending(make_world)
    if arrived:
        arrives(world)

    def gone(*_: Any, **__: Any) -> None:
        raise Unavailable("the database does not answer; try again in a moment")

    monkeypatch.setattr(runner, "look", gone)
    with pytest.raises(Unavailable):
        world.step(move)
    monkeypatch.undo()
    assert holds(world, one) == {"node1": "home", "node2": "target"}
    world.kill_conductor()
    settle_watched(world, one)
    assert holds(world, one) == {"node2": "home"}
    assert ended(world, move) == "completed"


def test_the_watcher_dies_before_it_writes_that_the_guest_has_arrived(make_world: MakeWorld) -> None:
    world, one, move = sending(make_world)
    world.obey("node1")
    Halfway(world, move).until("ask_line").drop()
    assert world.ground.runners(one) == ["node2"]
    assert world.home(one) == "node1"
    world.kill_conductor()
    settle_watched(world, one)
    assert holds(world, one) == {"node2": "home"}
    assert [row["state"] for row in world.rows(schema.move.name)].count("done") == 2
