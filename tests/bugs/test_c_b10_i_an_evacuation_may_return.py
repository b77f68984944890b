"""C-b10 (i): the host that a resize left is where the evacuation after it must go.

The story (Launchpad nova 1669054, 1797580): a host that was to be avoided in one operation is stored
with the server and avoided for ever, so the evacuation finds no host.

Right: each move is judged by itself. What makes it so: what was wished for a move, and which hosts
it has tried, are kept with that move.
"""

from __future__ import annotations

from by_hand import MakeWorld, evacuate, holds, lose, shown


def test_back_to_where_it_was_resized_from(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4)
    one = world.boot("one", world.group("anti-affinity"), host="node1")
    world.resize(one)
    world.settle()
    world.confirm(one)
    world.settle()
    assert world.home(one) == "node2"
    lose(world, "node2")
    evacuate(world, one)
    world.settle()
    assert (shown(world, one), world.home(one)) == (("ACTIVE", None), "node1")
    world.restart_agent("node2")
    world.settle()
    assert holds(world, one) == {"node1": "home"}
