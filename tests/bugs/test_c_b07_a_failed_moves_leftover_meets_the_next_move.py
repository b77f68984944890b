"""C-b07: the leftover of a failed move meets the next move.

The story (kubevirt/kubevirt PR 5425): a migration failed and its clean-up on the destination
hangs. The user asks again; now three hosts have something of the server.

Right: the next move is a conflict until the last one has left no trace. What makes it so: a move
that is being walked back is unfinished, and a server has at most one such (M3).
"""

from __future__ import annotations

import pytest

from berthold.errors import WrongState
from by_hand import MakeWorld, ended, guest, holds, shown, step_until


def test_the_next_move_waits_for_the_clean_up(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4)
    one = world.boot("one", host="node1")
    world.faults_of["node1"].plan("refuse", verb="send", reason="connection reset by peer")
    failing = world.live_migrate(one)
    step_until(world, failing, "send memory")
    world.obey("node1")  # no
    world.silent.add("node2")
    world.add_host("node3")
    world.settle()
    assert holds(world, one) == {"node1": "home", "node2": "target"}
    assert guest(world, "node1", one) == ("running", 1)
    for begin in (world.live_migrate, world.migrate, world.resize):
        with pytest.raises(WrongState, match="while it is in task_state migrating"):
            begin(one)
    assert guest(world, "node3", one) is None

    world.restart_agent("node2")
    world.settle()
    assert guest(world, "node2", one) is None
    assert shown(world, one) == ("ACTIVE", None)
    if ended(world, failing) == "error":
        world.live_migrate(one)
        world.settle()
    assert holds(world, one) == {"node3": "home"}
