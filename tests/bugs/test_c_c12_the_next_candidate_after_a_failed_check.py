"""C-c12: a live migration gives up after one bad candidate.

The story (Launchpad nova 1480441, 1712411): the destination's pre-check fails, say because its
disk is full. The request ends there although the next host would have done, and what was claimed
on the first one for the try stays claimed.

Right: the server ends on the next host and nothing is claimed on the first. A host that the
operator named is another matter: then that host or none. What makes it so: a failed check is
undone down to the claim, and the next candidate is taken from there.
"""

from __future__ import annotations

import pytest

from by_hand import (
    MakeWorld,
    ended,
    events,
    holds,
    operators_read,
    outcome,
    preferred,
    shown,
    step_until,
    told,
    used,
    why,
)

FULL = "disk full: 1 GB wanted, 0 GB free"


@pytest.mark.parametrize(
    ("verb", "words"), [("check", "take the server"), ("prepare", "make room for the server")]
)
def test_the_next_host_takes_it(make_world: MakeWorld, verb: str, words: str) -> None:
    world = make_world(node1=4, node2=64, node3=4)
    one = world.boot("one", world.group("anti-affinity"), host="node1")
    world.faults_of["node2"].plan("refuse", verb=verb, reason=FULL)
    move = world.live_migrate(one)
    assert preferred(world, move) == ["node2", "node3"]
    world.settle()

    assert holds(world, one) == {"node3": "home"}
    assert shown(world, one) == ("ACTIVE", None)
    assert [used(world, host) for host in ("node1", "node2", "node3")] == [0, 0, 1]
    assert len(world.rows("seat")) == 1
    assert ended(world, move) == "completed"
    assert outcome(world, move) is None
    assert told(world, move) == [f"a host could not {words}"]
    assert [event for event in events(world, move) if event[0] == "conductor_live_migrate_instance"] == [
        ("conductor_live_migrate_instance", "Success")
    ] * 2


def test_the_host_that_failed_is_free_for_others_before_the_move_is_over(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=64, node3=4)
    group = world.group("anti-affinity")
    one = world.boot("one", group, host="node1")
    world.faults_of["node2"].plan("refuse", verb="check", reason=FULL)
    move = world.live_migrate(one)
    step_until(world, move, "prepare target")
    assert holds(world, one) == {"node1": "home", "node3": "target"}
    two = world.create("two", group, host="node2")
    world.settle()
    assert (world.home(one), world.home(two)) == ("node3", "node2")


def test_the_send_itself_fails_and_the_next_host_takes_it(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=64, node3=4)
    one = world.boot("one", host="node1")
    world.faults_of["node1"].plan("refuse", verb="send", reason="connection reset by peer")
    move = world.live_migrate(one)
    world.settle()
    assert holds(world, one) == {"node3": "home"}
    assert [world.ground.states(host) for host in ("node1", "node2")] == [{}, {}]
    assert ended(world, move) == "completed"


def test_a_host_that_was_named_is_the_only_one(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=64, node3=4)
    one = world.boot("one", host="node1")
    world.faults_of["node2"].plan("refuse", verb="check", reason=FULL)
    move = world.live_migrate(one, "node2")
    world.settle()
    assert holds(world, one) == {"node1": "home"}
    assert shown(world, one) == ("ACTIVE", None)
    assert ended(world, move) == "error"
    assert why(world, move) == "a host could not take the server"
    assert FULL in operators_read(world, move)
    assert used(world, "node2") == 0
