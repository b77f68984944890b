"""C-a13: deleted members still count.

The story (Launchpad nova 1442098, 1751186, 1682845): after a member is deleted its group goes
on listing it, its quota goes on counting it, and its host goes on being refused, until somebody
archives old rows. A script that replaces servers one by one runs into the group's limit.

Right: from the moment a delete is finished the group lists, counts and seats living members
only. What makes it so: the record of a deleted server leaves its group, its project's bill and
its seat in one transaction. Until then it counts, since the guest may still be running (M1).
"""

from __future__ import annotations

import pytest

from berthold.errors import Refused
from berthold.lab.world import PROJECT, USER, World
from berthold.ledger import groups, reading
from by_hand import MakeWorld, preferred, project, shown, step_until, under_way


def group_of_two(world: World) -> str:
    """An anti-affinity group that may have two members."""
    return world.store.write_now(
        groups.create,
        project_id=PROJECT,
        user_id=USER,
        name="web",
        policy="anti-affinity",
        rules={},
        members_max=2,
    )


def listed(world: World, group: str) -> list[str]:
    """The members that the API shows."""
    found: list[str] = world.store.read_now(reading.group, group, PROJECT)["member_ids"]
    return sorted(found)


def test_the_group_lists_the_living_and_has_room_again(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4)
    group = group_of_two(world)
    one, two = world.boot("one", group, host="node1"), world.boot("two", group, host="node2")
    assert listed(world, group) == sorted([one, two])
    world.delete(one)
    world.settle()
    assert listed(world, group) == [two]
    assert project(world)["instances"] == 1

    three = world.create("three", group)
    assert preferred(world, under_way(world, three)) == ["node1"]
    world.settle()
    assert shown(world, three) == ("ACTIVE", None)
    assert world.home(three) == "node1"
    assert listed(world, group) == sorted([two, three])
    with pytest.raises(Refused, match="too many servers in group: 2 are allowed") as refusal:
        world.create("four", group)
    assert refusal.value.rule == "Q1"


def test_until_its_host_has_said_so_a_member_is_not_gone(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4)
    group = group_of_two(world)
    one, two = world.boot("one", group, host="node1"), world.boot("two", group, host="node2")
    delete = world.delete(one)
    with pytest.raises(Refused, match="too many servers in group"):
        world.create("three", group)
    step_until(world, delete, "bury")
    with pytest.raises(Refused, match="too many servers in group"):
        world.create("three", group)
    world.step(delete)
    assert listed(world, group) == [two]
    three = world.boot("three", group)
    assert world.home(three) == "node1"


def test_a_create_that_failed_counts_until_it_is_deleted(make_world: MakeWorld) -> None:
    """It exists and is listed, so it counts; it holds no seat."""
    world = make_world(node1=4)
    group = group_of_two(world)
    world.boot("one", group)
    two = world.boot("two", group)
    assert shown(world, two) == ("ERROR", None)
    with pytest.raises(Refused, match="too many servers in group"):
        world.create("three", group)
    world.delete(two)
    world.settle()
    world.add_host("node2")
    assert world.home(world.boot("three", group)) == "node2"
