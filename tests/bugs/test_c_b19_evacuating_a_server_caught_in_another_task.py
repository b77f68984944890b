"""C-b19: the host dies while the server is doing something else, or an evacuation has failed before.

The story (Launchpad nova 1978983, 1298061): the request is refused, since the server is powering off
(for ever) or is in error (from the evacuation that failed).

Right: it is evacuated. What makes it so: a task that its host alone could have ended is superseded;
moves between hosts end by themselves once one of them is fenced.
"""

from __future__ import annotations

import pytest

from berthold.errors import WrongState
from berthold.ledger import hosts
from berthold.moves import begin, marks
from by_hand import MakeWorld, ended, evacuate, holds, lose, outcome, shown, step_until


@pytest.mark.parametrize("kind", ["stop", "reboot", "pause"])
def test_its_task_can_never_finish(make_world: MakeWorld, kind: str) -> None:
    world = make_world(node1=4, node2=4)
    one = world.boot("one", host="node1")
    task = world.store.write_now(begin.begin, kind, one, world.by(), {})
    world.step(task)
    lose(world, "node1")
    move = evacuate(world, one)
    world.settle()
    assert (shown(world, one), world.home(one)) == (("ACTIVE", None), "node2")
    assert (ended(world, move), ended(world, task)) == ("done", "cancelled")
    assert outcome(world, task) == "Error"
    world.restart_agent("node1")
    world.settle()


def test_it_is_in_error(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4)
    one = world.boot("one", host="node1")
    lose(world, "node1")
    world.store.write_now(hosts.set_disabled, world.host_id("node2"), True)
    failed = evacuate(world, one)
    world.settle()
    assert (ended(world, failed), holds(world, one)) == ("error", {"node1": "home"})
    world.store.write_now(marks.reset_state, one, "error")
    world.store.write_now(hosts.set_disabled, world.host_id("node2"), False)
    evacuate(world, one)
    assert shown(world, one) == ("REBUILD", "rebuilding")
    world.settle()
    assert (shown(world, one), world.home(one)) == (("ACTIVE", None), "node2")
    world.restart_agent("node1")
    world.settle()


@pytest.mark.parametrize("line", ["claim target", "prepare target", "send memory"])
def test_a_live_migration_from_the_dead_host_ends_first(make_world: MakeWorld, line: str) -> None:
    world = make_world(node1=4, node2=4)
    one = world.boot("one", host="node1")
    migration = world.live_migrate(one)
    step_until(world, migration, line)
    lose(world, "node1")
    with pytest.raises(WrongState, match="migrating"):
        evacuate(world, one)
    world.store.write_now(hosts.fence, world.host_id("node1"))
    world.settle()
    assert ended(world, migration) == "error" or world.home(one) == "node2"
    if world.home(one) == "node1":
        evacuate(world, one)
        world.settle()
    assert (shown(world, one), world.home(one)) == (("ACTIVE", None), "node2")
    world.restart_agent("node1")
    world.settle()


def test_its_second_host_dies_while_it_is_rebuilt_there(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=8, node3=4)
    one = world.boot("one", world.group("anti-affinity"), host="node1")
    lose(world, "node1")
    move = evacuate(world, one)
    step_until(world, move, "rebuild on target")
    lose(world, "node2")
    world.store.write_now(hosts.fence, world.host_id("node2"))
    world.settle()
    assert (world.home(one), holds(world, one)) == (
        "node3",
        {"node1": "left", "node2": "left", "node3": "home"},
    )
    for name in ("node1", "node2"):
        world.restart_agent(name)
    world.settle()
    assert holds(world, one) == {"node3": "home"}
