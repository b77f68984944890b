"""C-a08: the rule is applied at birth but not on later moves.

The story (Launchpad nova 1379451): the group was a hint in the request that created the server.
Moves have no hints, so any host with room would do.

Right: every move is refused for want of a lawful host, and the server is unchanged. What makes it
so: the rule is copied by the schema from the group to the server and to each of its claims, so no
claim of a member can be written without a seat (G1), whatever it is written for.
"""

from __future__ import annotations

import pytest

from by_hand import MakeWorld, come_back, ended, evacuate, holds, lose, shown, why


@pytest.mark.parametrize("kind", ["live_migrate", "migrate", "resize"])
def test_no_move_goes_where_another_member_is(make_world: MakeWorld, kind: str) -> None:
    world = make_world(node1=4, node2=64, node3=1)
    group = world.group("anti-affinity")
    world.boot("filler", host="node3")
    one, two = world.boot("one", group, host="node1"), world.boot("two", group, host="node2")
    before = world.picture()
    move = getattr(world, kind)(one)
    world.settle()

    assert world.picture() == before
    assert (world.home(one), world.home(two)) == ("node1", "node2")
    assert shown(world, one) == ("ACTIVE", None)
    assert holds(world, one) == {"node1": "home"}
    assert ended(world, move) == "error"
    for cause in ("1 host: capacity", "1 host: group rule", "1 host: source host"):
        assert cause in why(world, move)


def test_nor_does_an_evacuation(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=64, node3=1)
    group = world.group("anti-affinity")
    world.boot("filler", host="node3")
    one, two = world.boot("one", group, host="node1"), world.boot("two", group, host="node2")
    lose(world, "node1")
    move = evacuate(world, one)
    world.settle()
    assert (ended(world, move), holds(world, one)) == ("error", {"node1": "home"})
    assert "1 host: group rule" in why(world, move)
    assert world.home(two) == "node2"
    come_back(world, "node1")
