"""C-a12: a move uses the member list of the day the server was born.

The story (Launchpad nova 1600251): the first member of an anti-affinity group is created while
the group is empty; what the scheduler knew of the group then was stored with the server. Another
member follows on a second host. When the first is live-migrated later, the stored list still
says that there are no others, and it joins the second member.

Right: it goes to a third host. What makes it so: nothing of a group is stored with a server but
its id; members and their hosts are read for every decision, and the claim is judged by what is
there when it is taken (G1).
"""

from __future__ import annotations

from by_hand import MakeWorld, choosing, ended, holds, preferred, under_way


def test_a_member_that_came_later_counts(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=64)
    group = world.group("anti-affinity")
    one = world.boot("one", group, host="node1")
    two = world.boot("two", group)
    assert world.home(two) == "node2"
    world.add_host("node3")
    move = world.live_migrate(one)
    assert preferred(world, move) == ["node3"]
    world.settle()
    assert (world.home(one), world.home(two)) == ("node3", "node2")
    assert ended(world, move) == "completed"


def test_a_member_that_comes_while_the_move_has_chosen_its_host_counts(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=64, node3=4)
    group = world.group("anti-affinity")
    one = world.boot("one", group, host="node1")
    move = world.live_migrate(one)
    assert preferred(world, move) == ["node2", "node3"]
    turn = choosing(world, move)
    two = world.create("two", group)
    choosing(world, under_way(world, two)).end()
    assert holds(world, two) == {"node2": "target"}
    turn.end()
    assert holds(world, one) == {"node1": "home", "node3": "target"}
    assert world.problems() == []
    world.settle()
    assert (world.home(one), world.home(two)) == ("node3", "node2")
    assert ended(world, move) == "completed"
