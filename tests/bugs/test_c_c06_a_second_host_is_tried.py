"""C-c06: no second host is tried.

The story (Launchpad nova 1671648): two hosts fit, the first one fails the build. After the
placement of servers had been moved to another service the retry could no longer work, and every
such failure was final.

Right: the server is ACTIVE on the second host, nothing is claimed on the first, and what the user
sees is one "create" that succeeded, with an event for each try. What makes it so: a failed spawn
is undone down to the claim, and from there the next candidate is taken with the same ports and
volumes; hosts that failed are not proposed again.
"""

from __future__ import annotations

import pytest

from berthold.lab.world import now
from by_hand import (
    MakeWorld,
    choosing,
    events,
    guest,
    holds,
    outcome,
    preferred,
    shown,
    told,
    under_way,
    used,
)


def test_the_second_host_takes_it(make_world: MakeWorld) -> None:
    world = make_world(node1=64, node2=4)
    world.faults_of["node1"].plan("refuse", verb="spawn", reason="qemu: cannot allocate memory")
    one = world.create("one", world.group("anti-affinity"))
    create = under_way(world, one)
    assert preferred(world, create) == ["node1", "node2"]
    world.settle()

    assert shown(world, one) == ("ACTIVE", None)
    assert holds(world, one) == {"node2": "home"}
    assert used(world, "node1") == 0
    assert guest(world, "node1", one) is None
    assert len(world.rows("seat")) == 1
    assert [row["action"] for row in world.rows("action")] == ["create"]
    assert outcome(world, create) is None
    assert events(world, create) == [
        ("conductor_build_instances", "Success"),
        ("compute__do_build_and_run_instance", "Error"),
        ("conductor_build_instances", "Success"),
        ("compute__do_build_and_run_instance", "Success"),
    ]
    assert told(world, create) == ["a host could not start the server"]
    assert not world.server(one)["fault"]


def test_when_every_host_has_failed_operators_are_told_the_real_cause_of_each(make_world: MakeWorld) -> None:
    world = make_world(node1=64, node2=4)
    world.faults_of["node1"].plan("refuse", verb="spawn", reason="qemu: cannot allocate memory")
    world.faults_of["node2"].plan("refuse", verb="spawn", reason="no such CPU model")
    one = world.boot("one")
    assert shown(world, one) == ("ERROR", None)
    assert world.claims(one) == []
    fault = world.server(one)["fault"]
    assert "2 hosts: already refused. In the last try a host could not start the server" in fault["message"]
    assert "node" not in fault["message"]
    assert "node2: already refused: no such CPU model" in fault["details"]
    assert "node1: already refused: qemu: cannot allocate memory" in fault["details"]
    assert [world.ground.states(host) for host in ("node1", "node2")] == [{}, {}]


@pytest.mark.parametrize("kind", ["die before", "die after"])
def test_the_first_host_dies_while_it_builds(make_world: MakeWorld, kind: str) -> None:
    """Whether it has made the guest nobody knows: it keeps its claim until it is back and clean."""
    world = make_world(node1=64, node2=4)
    one = world.create("one")
    create = under_way(world, one)
    choosing(world, create).end()
    while not world.asks("node1"):
        world.step(create)
    if kind == "die after":
        (spawn,) = world.asks("node1")
        now(world.agents["node1"].do(spawn))  # its answer is lost
    world.silent.add("node1")
    world.pass_time(11.0)
    world.settle()
    assert holds(world, one) == {"node1": "target"}
    assert shown(world, one)[0] == "BUILD"

    world.restart_agent("node1")
    world.settle()
    assert holds(world, one) == {"node2": "home"}
    assert guest(world, "node1", one) is None
    assert shown(world, one) == ("ACTIVE", None)
    assert outcome(world, create) is None
