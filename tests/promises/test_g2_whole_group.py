"""G2: a whole affinity group moves: all places or none, and no source given up before all have arrived."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from berthold.errors import Refused, WrongState
from berthold.lab.world import World
from by_hand import assert_quiet, holds, outcome, shown, under_way
from whole_group import back, forward, half_way, homes, move_group, moving, repair, sound_world, state, three

STOPPED = pytest.mark.parametrize("stopped", [(), (0,), (1,), (0, 1, 2)], ids=str)


@pytest.fixture
def world() -> Iterator[World]:
    with sound_world() as world:
        yield world


def test_every_member_goes_to_the_one_new_host(world: World) -> None:
    group, servers = three(world, stopped=(2,))
    move_group(world, group, "node2")
    for server in servers:
        assert holds(world, server) == {"node1": "home", "node2": "target"}
        assert shown(world, server) == ("MIGRATING", "migrating")
    world.settle()
    for server in servers:
        assert holds(world, server) == {"node2": "home"}
    assert [shown(world, server)[0] for server in servers] == ["ACTIVE", "ACTIVE", "SHUTOFF"]
    assert state(world) == ("done", "node2")
    assert moving(world, group) is None
    assert world.home(world.boot("db-4", group)) == "node2"
    assert_quiet(world)


def test_all_places_or_none(world: World) -> None:
    group, _ = three(world)
    world.add_host("node4", vcpus=2)
    before = world.picture()
    with pytest.raises(Refused) as refusal:
        move_group(world, group, "node4")
    assert refusal.value.rule == "C1"
    assert world.picture() == before
    assert world.rows("group_move") == []
    assert world.unfinished() == []


def test_no_source_is_given_up_before_the_last_has_arrived(world: World) -> None:
    group, servers = three(world)
    move_group(world, group, "node2")
    last = under_way(world, servers[2])
    for _ in range(40):
        for move in world.unfinished():
            if move != last:
                world.step(move)
        world.attend()
        for host in ("node1", "node2"):
            world.obey(host)
        assert world.problems() == []
        assert all(sorted(holds(world, server)) == ["node1", "node2"] for server in servers)
    assert state(world) == ("moving", "node2")
    world.settle()
    assert state(world) == ("done", "node2")
    assert_quiet(world)


@STOPPED
def test_what_could_not_go_is_sent_again(world: World, stopped: tuple[int, ...]) -> None:
    group, servers = half_way(world, stopped)
    assert holds(world, servers[0]) == {"node1": "home", "node2": "target"}
    for server in servers[1:]:
        assert holds(world, server) == {"node2": "home", "node1": "source"}
    assert moving(world, group) is not None
    assert shown(world, servers[0])[1] == "migrating"
    assert outcome(world, under_way(world, servers[0])) == "Error"
    forward(world, group)
    forward(world, group)
    world.settle()
    assert {tuple(holds(world, server).items()) for server in servers} == {(("node2", "home"),)}
    assert state(world) == ("done", "node2")
    assert moving(world, group) is None


@STOPPED
def test_what_could_not_go_takes_all_back(world: World, stopped: tuple[int, ...]) -> None:
    group, servers = half_way(world, stopped)
    back(world, group)
    back(world, group)
    world.settle()
    assert state(world) == ("done", "node1")
    assert moving(world, group) is None
    for number, server in enumerate(servers):
        assert holds(world, server) == {"node1": "home"}
        assert shown(world, server) == ("SHUTOFF" if number in stopped else "ACTIVE", None)
    assert world.ground.states("node2") == {}
    move_group(world, group, "node2")
    world.settle()
    assert homes(world, servers) == {"node2"}


@pytest.mark.parametrize("steps", range(0, 12, 2))
def test_back_is_possible_until_the_last_has_arrived(world: World, steps: int) -> None:
    group, servers = three(world, stopped=(2,))
    before = world.picture()
    move_group(world, group, "node2")
    for _ in range(steps):
        for server in servers[:2]:
            if (move := under_way(world, server)) in world.unfinished():
                world.step(move)
        for host in ("node1", "node2"):
            world.obey(host)
    back(world, group)
    assert world.problems() == []
    with pytest.raises(WrongState, match="on its way back"):
        forward(world, group)
    world.settle()
    assert state(world) == ("done", "node1")
    assert world.picture() == before


def test_a_group_that_has_arrived_is_not_taken_back(world: World) -> None:
    group, _ = three(world)
    move_group(world, group, "node2")
    world.settle()
    for word in (forward, back):
        with pytest.raises(WrongState, match="arrived"):
            word(world, group)


@pytest.mark.parametrize("stopped", [(), (2,)], ids=str)
def test_what_was_kept_on_the_way_back_may_go_either_way(world: World, stopped: tuple[int, ...]) -> None:
    group, servers = half_way(world, stopped)
    world.faults_of["node1"].plan("refuse", verb="prepare", server=servers[1], times=50)
    back(world, group)
    world.settle()
    assert state(world) == ("moving", "node1")
    assert [world.home(server) for server in servers] == ["node1", "node2", "node1"]
    repair(world)
    forward(world, group)
    world.settle()
    assert state(world) == ("done", "node2")
    assert homes(world, servers) == {"node2"}
