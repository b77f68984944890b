"""C-a10: members of a group in another shard are invisible.

The story (Launchpad nova 1746863): hosts are divided into cells, each with a database. Where a group's
members are is asked of one of them; those of the others are not found, and a rule that knows of no
members allows everything.

Right: a rule sees members everywhere. What makes it so: there is one ledger, and no division of hosts
in it. What divides hosts for users, their zones, hides nobody (R14 shows a ledger in which it does).
"""

from __future__ import annotations

import pytest

from berthold.lab.world import World
from by_hand import MakeWorld, come_back, ended, evacuate, in_zones, lose, shown


def two_zones(make_world: MakeWorld, east: int, west: int) -> World:
    """node1 in the east and node2 in the west; the larger is preferred."""
    world = make_world(node1=east, node2=west)
    in_zones(world, node1="east", node2="west")
    return world


def test_a_second_member_of_an_affinity_group_joins_the_first(make_world: MakeWorld) -> None:
    world = two_zones(make_world, east=4, west=64)
    together = world.group("affinity")
    one = world.boot("one", together, host="node1")
    two = world.boot("two", together)
    assert (world.home(one), world.home(two)) == ("node1", "node1")


@pytest.mark.parametrize("move", ["live_migrate", "migrate", "resize"])
def test_members_of_an_anti_affinity_group_stay_apart(make_world: MakeWorld, move: str) -> None:
    world = two_zones(make_world, east=64, west=4)
    apart = world.group("anti-affinity")
    one = world.boot("one", apart, host="node1")
    two = world.boot("two", apart)
    assert world.home(two) == "node2"
    refused = getattr(world, move)(two)
    world.settle()
    assert (ended(world, refused), world.home(two)) == ("error", "node2")
    assert world.home(one) == "node1"


def test_an_evacuation_sees_them_too(make_world: MakeWorld) -> None:
    world = two_zones(make_world, east=64, west=4)
    apart = world.group("anti-affinity")
    world.boot("one", apart, host="node1")
    two = world.boot("two", apart)
    lose(world, "node2")
    refused = evacuate(world, two)
    world.settle()
    assert (ended(world, refused), shown(world, two)) == ("error", ("ACTIVE", None))
    come_back(world, "node2")
