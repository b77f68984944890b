"""C-a03: alternates chosen for a build are stale by the time the first host fails.

The story (Launchpad nova 1206502, 1218878): a server of an anti-affinity group is sent to its
first host together with a list of alternates. While that host is busy failing, another member
is placed on one of the alternates. The retry took that alternate without looking again, and two
members shared a host.

Right: every try obeys the rule as it is at that moment. What prevents it: a retry ranks the
hosts anew, and whatever it had already chosen is only granted with a free seat (G1).
"""

from __future__ import annotations

from by_hand import MakeWorld, choosing, events, holds, outcome, preferred, shown, step_until, under_way


def test_the_retry_sees_who_came_meanwhile(make_world: MakeWorld) -> None:
    world = make_world(node1=64, node2=16, node3=4)
    group = world.group("anti-affinity")
    one = world.create("one", group)
    create = under_way(world, one)
    assert preferred(world, create) == ["node1", "node2", "node3"]
    world.faults_of["node1"].plan("refuse", verb="spawn", server=one)
    step_until(world, create, "spawn")
    two = world.create("two", group, host="node2")
    step_until(world, under_way(world, two), "settle")
    world.settle()

    assert (world.home(one), world.home(two)) == ("node3", "node2")
    assert shown(world, one) == ("ACTIVE", None)


def test_the_retry_has_chosen_already_when_another_member_takes_that_host(make_world: MakeWorld) -> None:
    world = make_world(node1=64, node2=16, node3=4)
    group = world.group("anti-affinity")
    world.faults_of["node1"].plan("refuse", verb="spawn", reason="no memory on this NUMA node")
    one = world.create("one", group)
    create = under_way(world, one)
    step_until(world, create, "spawn")
    while holds(world, one):  # until the undo is over and the second try begins
        for name in world.agents:
            world.obey(name)
        world.step(create)
    assert preferred(world, create) == ["node2", "node3"]

    retry = choosing(world, create)
    two = world.create("two", group, host="node2")
    choosing(world, under_way(world, two)).end()
    assert holds(world, two) == {"node2": "target"}
    retry.end()
    assert holds(world, one) == {"node3": "target"}
    assert world.problems() == []
    world.settle()

    assert (world.home(one), world.home(two)) == ("node3", "node2")
    assert events(world, create) == [
        ("conductor_build_instances", "Success"),
        ("compute__do_build_and_run_instance", "Error"),
        ("conductor_build_instances", "Success"),
        ("compute__do_build_and_run_instance", "Success"),
    ]
    assert outcome(world, create) is None
