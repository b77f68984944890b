"""C-a15: two members of an anti-affinity group are evacuated at once to the one host that is left.

The story (Launchpad nova 1735407): both rebuilds pass the check before either is seen by the other,
and the group shares a host; with later checks, both may end in error.

Right: one is rebuilt, the other stays what it was, at home on its dead host, its migration `error`
with the reason; when a host appears it is evacuated there. What makes it so: the seat is taken with
the claim (G1), and nothing of the source is touched before the guest runs elsewhere (M6).
"""

from __future__ import annotations

import pytest

from berthold.lab.world import World
from by_hand import MakeWorld, choosing, ended, evacuate, holds, host_status, lose, shown, why


def two_dead(make_world: MakeWorld) -> tuple[World, str, str]:
    world = make_world(node1=4, node2=4)
    web = world.group("anti-affinity")
    one, two = world.boot("one", web, host="node1"), world.boot("two", web, host="node2")
    world.add_host("node3")
    lose(world, "node1")
    lose(world, "node2")
    return world, one, two


@pytest.mark.parametrize("first", [0, 1], ids=["the first goes first", "the second goes first"])
def test_one_is_rebuilt_and_the_other_stays_as_it_was(make_world: MakeWorld, first: int) -> None:
    world, *servers = two_dead(make_world)
    won, lost = servers[first], servers[1 - first]
    go, stay = evacuate(world, won), evacuate(world, lost)
    late = choosing(world, stay)  # it has chosen node3, and has not written that down
    world.step(go)
    late.end()
    world.settle()
    assert (shown(world, won), ended(world, go)) == (("ACTIVE", None), "done")
    assert world.home(won) == "node3"
    assert (shown(world, lost), ended(world, stay)) == (("ACTIVE", None), "error")
    assert world.home(lost) == ("node2" if first == 0 else "node1")
    assert "No valid host" in why(world, stay)
    assert [row["host_id"] for row in world.rows("claim")].count(world.host_id("node3")) == 1
    assert world.problems() == []

    world.add_host("node4")
    again = evacuate(world, lost)
    world.settle()
    assert (world.home(lost), ended(world, again)) == ("node4", "done")
    for name in ("node1", "node2"):
        world.restart_agent(name)
    world.settle()
    assert holds(world, won) == {"node3": "home"}
    assert holds(world, lost) == {"node4": "home"}
    assert (host_status(world, "node1"), host_status(world, "node2")) == ("up", "up")
    assert ended(world, again) == "completed"


def test_a_lone_member_of_an_affinity_group_takes_the_groups_home_with_it(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4)
    db = world.group("affinity")
    one = world.boot("one", db, host="node1")
    lose(world, "node1")
    evacuate(world, one)
    world.settle()
    assert holds(world, one) == {"node1": "left", "node2": "home"}
    two = world.boot("two", db)
    assert world.home(two) == "node2"
    world.restart_agent("node1")
    world.settle()
    assert holds(world, one) == {"node2": "home"}
