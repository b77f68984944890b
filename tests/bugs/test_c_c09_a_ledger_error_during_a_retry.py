"""C-c09: an error of the ledger during a retry.

The story (Launchpad nova 1819460): the first host fails the build. While the second is claimed,
the service that keeps the claims answers with an internal error. Nobody expected one there: the
server stays in BUILD for ever, without anything that works on it.

Right: with an error that nobody planned for the server is in ERROR and says that, with no claim and
no task; with a database that is away for a moment nothing has happened, and the server is ACTIVE
on the second host. What makes it so: an exception in a line is a failure of that line, on the
first try and on every other, and a claim is written whole or not at all.
"""

from __future__ import annotations

from typing import Any

import pytest

from berthold.errors import Unavailable
from berthold.lab.world import World
from berthold.ledger import claims, inventories
from by_hand import Halfway, MakeWorld, choosing, guest, holds, outcome, shown, under_way, used


def at_the_second_try(make_world: MakeWorld) -> tuple[World, str, str]:
    """node1 has failed the build, what it had is gone, and another host is to be claimed."""
    world = make_world(node1=64, node2=4)
    world.faults_of["node1"].plan("refuse", verb="spawn", reason="qemu: cannot allocate memory")
    one = world.create("one", world.group("anti-affinity"))
    create = under_way(world, one)
    choosing(world, create).end()
    while not world.move(create)["facts"].get("round"):
        world.step(create)
        world.obey("node1")
    assert (world.claims(one), used(world, "node1")) == ([], 0)
    return world, one, create


@pytest.mark.parametrize("where", [(claims, "take"), (inventories, "raise_generation")])
def test_an_error_that_nobody_planned_for(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, where: tuple[Any, str]
) -> None:
    world, one, create = at_the_second_try(make_world)

    def bug(*_: Any, **__: Any) -> None:
        raise RuntimeError("500 Internal Server Error")

    monkeypatch.setattr(*where, bug)
    world.step(create)
    monkeypatch.undo()
    world.settle()
    assert shown(world, one) == ("ERROR", None)
    assert world.claims(one) == []
    assert world.rows("seat") == []
    assert [guest(world, host, one) for host in ("node1", "node2")] == [None, None]
    assert outcome(world, create) == "Error"
    assert "unexpected error" in world.server(one)["fault"]["message"]
    assert "500 Internal" not in world.server(one)["fault"]["message"]


def test_a_database_that_is_away_for_a_moment(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world, one, create = at_the_second_try(make_world)

    def gone(*_: Any, **__: Any) -> None:
        raise Unavailable("the database does not answer; try again in a moment")

    monkeypatch.setattr(claims, "take", gone)
    with pytest.raises(Unavailable):
        world.step(create)
    monkeypatch.undo()
    assert (shown(world, one)[0], world.claims(one)) == ("BUILD", [])
    world.kill_conductor()
    world.settle()
    assert shown(world, one) == ("ACTIVE", None)
    assert holds(world, one) == {"node2": "home"}


def test_the_conductor_dies_between_choosing_and_claiming(make_world: MakeWorld) -> None:
    world, one, create = at_the_second_try(make_world)
    Halfway(world, create).until("place_line").drop()
    world.kill_conductor()
    world.settle()
    assert holds(world, one) == {"node2": "home"}
    assert outcome(world, create) is None
