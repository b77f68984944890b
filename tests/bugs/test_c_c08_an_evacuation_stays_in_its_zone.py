"""C-c08: an evacuation takes a server to where it cannot live.

The story (Launchpad nova 1823370): hosts are divided into cells, and an evacuation chose the best host
of all cells. A server could not be rebuilt in another cell, so it was lost between the two.

Right: the best host of its own division, and if that is full a refusal. What makes it so: there are no
cells here; the division that a server may be bound to is its availability zone, and an evacuation is
placed under every filter that a create is.
"""

from __future__ import annotations

from berthold.lab.world import World
from by_hand import MakeWorld, come_back, ended, evacuate, holds, in_zones, lose, shown, why


def bound_to_the_east(make_world: MakeWorld) -> tuple[World, str]:
    """The best host of all is in the west."""
    world = make_world(node1=4, node2=1, node3=64)
    in_zones(world, node1="east", node2="east", node3="west")
    return world, world.boot("one", host="node1", zone="east")


def test_it_goes_to_the_host_of_its_zone(make_world: MakeWorld) -> None:
    world, one = bound_to_the_east(make_world)
    lose(world, "node1")
    evacuate(world, one)
    world.settle()
    assert holds(world, one) == {"node1": "left", "node2": "home"}
    come_back(world, "node1")


def test_it_is_refused_if_its_zone_is_full(make_world: MakeWorld) -> None:
    world, one = bound_to_the_east(make_world)
    world.boot("filler", host="node2")
    lose(world, "node1")
    move = evacuate(world, one)
    world.settle()
    assert (shown(world, one), holds(world, one)) == (("ACTIVE", None), {"node1": "home"})
    assert ended(world, move) == "error"
    assert "1 host: availability zone" in why(world, move)
    come_back(world, "node1")
