"""C-b28: a time-out in the checks before a move.

The story (Launchpad nova 1435633, 2044235; bigstack-oss/cubecos issue 1300): the destination's
check takes too long, or the network service refuses for some seconds. Nothing has happened to
the server yet, and still it ends in ERROR, or its reservation on the destination stays.

Right: before the point of no return the server is ACTIVE where it was, the claim on the
destination is free again, and another host may be tried (M6). After it, the move is tried again
until it succeeds, since the guest runs on the destination by then. What makes it so: a line's
limit of time, an undo for every line above the point of no return, and none below it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from berthold.errors import Unavailable
from berthold.lab.furniture import add_network
from berthold.lab.world import World, now
from berthold.moves.runner import Runner
from by_hand import MakeWorld, ended, events, guest, holds, outcome, shown, step_until, told, why


def overdue(world: World, silent: bool) -> None:
    """The checking host does not answer: it still beats and is slow, or nothing is heard of it."""
    if silent:
        world.silent.add("node2")
        world.pass_time(11.0)
    else:
        world.pass_time(61.0)


@pytest.mark.parametrize("silent", [False, True])
def test_the_check_times_out_and_there_is_no_other_host(make_world: MakeWorld, silent: bool) -> None:
    world = make_world(node1=4, node2=4)
    one = world.boot("one", world.group("anti-affinity"), host="node1")
    before = world.picture()
    move = world.live_migrate(one)
    step_until(world, move, "check target")
    overdue(world, silent)
    while world.unfinished():
        world.step(move)
        assert world.problems() == []

    assert shown(world, one) == ("ACTIVE", None)
    assert holds(world, one) == {"node1": "home"}
    assert world.picture() == before
    assert ended(world, move) == "error"
    assert outcome(world, move) == "Error"
    assert "a host did not take the server in time" in why(world, move)
    assert ("compute_check_can_live_migrate_destination", "Error") in events(world, move)
    assert not any("node2" in sentence for sentence in told(world, move))


@pytest.mark.parametrize("silent", [False, True])
def test_the_check_times_out_and_another_host_takes_it(make_world: MakeWorld, silent: bool) -> None:
    world = make_world(node1=4, node2=64, node3=4)
    one = world.boot("one", host="node1")
    move = world.live_migrate(one)
    step_until(world, move, "check target")
    overdue(world, silent)
    while world.move(move)["target_id"] != world.host_id("node3"):
        world.step(move)
    assert holds(world, one) == {"node1": "home", "node3": "target"}
    world.settle()
    assert holds(world, one) == {"node3": "home"}
    assert ended(world, move) == "completed"
    assert outcome(world, move) is None


def test_a_check_that_comes_late_finds_nobody_who_listens(make_world: MakeWorld) -> None:
    """The slow host says yes after all, to a move that went elsewhere."""
    world = make_world(node1=4, node2=64, node3=4)
    one = world.boot("one", host="node1")
    move = world.live_migrate(one)
    step_until(world, move, "check target")
    (check,) = world.asks("node2")
    overdue(world, silent=False)
    while world.move(move)["target_id"] != world.host_id("node3"):
        world.step(move)
    now(world.door.answer(now(world.agents["node2"].do(check))))
    world.settle()
    assert holds(world, one) == {"node3": "home"}
    assert guest(world, "node2", one) is None


class Refusing:
    """A network service that refuses a number of times, then is its old self."""

    def __init__(self, real: object, times: int) -> None:
        self._real, self.times = real, times

    async def bind(self, *asked: object) -> None:
        self._refuse()
        await self._real.bind(*asked)  # type: ignore[attr-defined]

    async def plug(self, *asked: object) -> object:
        self._refuse()
        return await self._real.plug(*asked)  # type: ignore[attr-defined]

    def _refuse(self) -> None:
        if self.times > 0:
            self.times -= 1
            raise Unavailable("the network service does not answer")

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)


def test_the_network_service_refuses_for_some_seconds(make_world: MakeWorld) -> None:
    """It is needed when the guest runs on the destination already: the move goes on until it is done."""
    world = make_world(node1=4, node2=4)
    one = world.boot("one", host="node1", networks=[{"uuid": add_network(world)}])
    real = world.companions.neighbours
    refusing = Refusing(real.networks, times=3)
    neighbours = replace(real, networks=refusing)  # type: ignore[arg-type]
    world.runner = Runner(world.store, neighbours, world.settings)
    move = world.live_migrate(one)
    step_until(world, move, "move ports")
    for _ in range(3):
        assert world.step(move).later
        assert shown(world, one) == ("MIGRATING", "migrating")
        assert world.home(one) == "node2"
        assert world.problems() == []
        world.pass_time(5.0)
    world.settle()

    assert refusing.times == 0
    assert holds(world, one) == {"node2": "home"}
    assert shown(world, one) == ("ACTIVE", None)
    assert ended(world, move) == "completed"


def test_a_network_service_that_refuses_a_create_costs_nobody_else_anything(make_world: MakeWorld) -> None:
    """Nothing is there yet: the server is in error and says why, without a claim."""
    world = make_world(node1=4)
    real = world.companions.neighbours
    neighbours = replace(real, networks=Refusing(real.networks, times=1))  # type: ignore[arg-type]
    world.runner = Runner(world.store, neighbours, world.settings)
    one = world.boot("one", networks=[{"uuid": add_network(world)}])
    assert shown(world, one) == ("ERROR", None)
    assert world.claims(one) == []
    assert "network service" in world.server(one)["fault"]["message"]
    assert shown(world, world.boot("two")) == ("ACTIVE", None)
