"""C-b10: choices meant for one operation become permanent.

The story (Launchpad nova 1669054, 1797580, 1718512, 1718455): a host that was avoided, named or
had failed in one operation, or the number of servers of the request that made them, was stored
with the server and steered all its later moves.

Right: each move is judged by itself. What makes it so: a wish belongs to its move's row and ends
with it; a server's row has no host, no count and no list of hosts.
"""

from __future__ import annotations

from berthold.lab.world import PROJECT, SMALL, USER
from berthold.moves import begin
from by_hand import MakeWorld, ended, preferred, shown


def test_a_host_that_was_named_once(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=64, node3=4)
    one = world.boot("one", host="node1")
    world.migrate(one, "node2")
    world.settle()
    world.confirm(one)
    world.settle()
    assert world.home(one) == "node2"
    move = world.live_migrate(one)
    assert sorted(preferred(world, move)) == ["node1", "node3"]
    world.settle()
    assert ended(world, move) == "completed"
    assert world.home(one) in ("node1", "node3")


def test_a_host_that_failed_once(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=64, node3=4)
    one = world.boot("one", host="node1")
    world.faults_of["node2"].plan("refuse", verb="prepare", reason="no space left on device")
    world.resize(one)
    world.settle()
    assert world.home(one) == "node3"
    world.confirm(one)
    world.settle()
    assert preferred(world, world.live_migrate(one))[0] == "node2"
    world.settle()
    assert world.home(one) == "node2"


def test_a_host_that_was_left_once(make_world: MakeWorld) -> None:
    world = make_world(node1=64, node2=4)
    one = world.boot("one", host="node1")
    for there in ("node2", "node1", "node2"):
        world.resize(one, {**SMALL, "vcpus": 1})
        world.settle()
        world.confirm(one)
        world.settle()
        assert world.home(one) == there


def test_one_of_two_from_one_request_moves_alone(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4)
    wishes = [begin.NewServer(PROJECT, USER, name, SMALL, host="node1") for name in ("one", "two")]
    one, two = world.store.write_now(begin.create_servers, world.by(), wishes)
    world.settle()
    world.live_migrate(one)
    world.settle()
    assert (world.home(one), world.home(two)) == ("node2", "node1")
    assert shown(world, one) == ("ACTIVE", None)
