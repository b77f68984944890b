"""C-a09: a soft-affinity choice depends on an unrelated request before it.

The story (Launchpad nova 1870096): a weigher keeps the largest member count that it has ever seen,
in order to scale by it. After a request for a group with three members on a host, one member of
another group weighs a third of what it should, and free memory decides instead.

Right: the new member joins its own group's host. What makes it so: weighers are functions of one
request and the present supply and keep nothing; what a group prefers is compared as it is, unscaled.
"""

from __future__ import annotations

from by_hand import MakeWorld, preferred, under_way


def test_a_member_joins_its_group_whoever_asked_before(make_world: MakeWorld) -> None:
    world = make_world(node1=64, node2=64, node3=64)
    large, small = world.group("soft-affinity", name="large"), world.group("soft-affinity", name="small")
    for number in range(3):
        world.boot(f"large-{number}", large, host="node1")
    world.boot("small-0", small, host="node2")
    for again in range(3):
        another = world.boot(f"large-{3 + again}", large)
        assert world.home(another) == "node1"
        one = world.boot(f"small-{1 + again}", small)
        assert world.home(one) == "node2"


def test_a_ranking_is_the_same_whatever_was_ranked_before(make_world: MakeWorld) -> None:
    world = make_world(node1=64, node2=32, node3=4)
    small = world.group("soft-affinity", name="small")
    world.boot("small-0", small, host="node3")
    move = under_way(world, world.create("small-1", small))
    before = preferred(world, move)
    large = world.group("soft-affinity", name="large")
    for number in range(3):
        preferred(world, under_way(world, world.create(f"large-{number}", large)))
    assert preferred(world, move) == before == ["node3", "node1", "node2"]
    world.settle()
