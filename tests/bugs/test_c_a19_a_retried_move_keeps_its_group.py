"""C-a19: a retried cold migration forgets which group it is in.

The story (Launchpad nova 1830747): a cold migration fails on its first destination and is tried
again. On the way the stored request loses the group's id, and the next move of the server cannot
be scheduled at all.

Right: the next move works and obeys the group. What makes it so: nothing of a request is stored
with a server; the group is a column of its row.
"""

from __future__ import annotations

from by_hand import MakeWorld, ended, events, preferred, shown, used


def test_the_next_move_knows_the_group(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=64, node3=4)
    group = world.group("anti-affinity")
    one = world.boot("one", group, host="node1")
    world.faults_of["node2"].plan("refuse", verb="prepare", reason="no space left on device")
    migrate = world.migrate(one)
    world.settle()
    assert world.home(one) == "node3"
    assert ("compute_prep_resize", "Error") in events(world, migrate)
    world.confirm(one)
    world.settle()
    assert shown(world, one) == ("ACTIVE", None)
    assert ended(world, migrate) == "confirmed"
    assert world.server(one)["group_id"] == group

    two = world.boot("two", group, host="node2")
    move = world.live_migrate(one)
    assert preferred(world, move) == ["node1"]
    world.settle()
    assert (world.home(one), world.home(two)) == ("node1", "node2")
    assert used(world, "node3") == 0
