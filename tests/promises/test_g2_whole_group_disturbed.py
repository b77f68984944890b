"""G2: what else happens to a group while it moves as a whole: deletes, its own end, hosts that die."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from berthold.errors import Refused, WrongState
from berthold.lab.world import World
from berthold.ledger import hosts
from berthold.moves import abort, begin, marks, shelf
from berthold.moves.status import line_of
from by_hand import assert_quiet, ended, evacuate, holds, host_status, shown, step_until, under_way, used
from whole_group import (
    back,
    force_down,
    forward,
    half_way,
    homes,
    move_group,
    moving,
    sound_world,
    state,
    three,
)


@pytest.fixture
def world() -> Iterator[World]:
    with sound_world() as world:
        yield world


@pytest.mark.parametrize("which", [0, 1])
def test_whoever_is_deleted_is_not_waited_for(world: World, which: int) -> None:
    group, servers = half_way(world)
    world.delete(servers.pop(which))
    world.settle()
    if which == 1:
        assert state(world) == ("moving", "node2")
        forward(world, group)
        world.settle()
    assert state(world)[0] == "done"
    assert homes(world, servers) == {"node2"}
    assert used(world, "node1") == 0
    assert_quiet(world)


def test_all_are_deleted_and_the_group_is_open_again(world: World) -> None:
    group, servers = half_way(world)
    for server in servers:
        world.delete(server)
    world.settle()
    assert state(world)[0] == "done"
    assert world.home(world.boot("db-4", group, host="node3")) == "node3"


@pytest.mark.parametrize("steps", range(0, 22, 3))
def test_the_group_is_deleted_and_each_ends_where_it_is(world: World, steps: int) -> None:
    group, servers = three(world)
    world.faults_of["node2"].plan("refuse", verb="prepare", server=servers[0])
    move_group(world, group, "node2")
    for _ in range(steps):
        for move in world.unfinished():
            world.step(move)
        world.attend()
        world.obey("node2") or world.obey("node1")
    world.delete_group(group)
    assert world.problems() == []
    world.settle()
    assert state(world)[0] == "done"
    assert [world.home(server) for server in servers] == ["node1", "node2", "node2"]
    assert {shown(world, server) for server in servers} == {("ACTIVE", None)}
    assert_quiet(world)


def test_meanwhile_nobody_joins_and_nothing_else_is_done_with_a_member(world: World) -> None:
    group, servers = half_way(world)
    with pytest.raises(Refused, match="moving"):
        world.create("db-4", group)
    for kind in ("live-migration", "migration", "stop", "reboot", "resize"):
        for server in servers:
            with pytest.raises(WrongState, match="with its whole group"):
                world.store.write_now(begin.begin, kind, server, world.by(), {})
    for word in (begin.confirm, begin.revert):
        with pytest.raises(WrongState, match="with its whole group"):
            world.store.write_now(word, servers[1], world.by())
    with pytest.raises(WrongState, match="its group must arrive"):
        world.store.write_now(marks.reset_state, servers[1], "active")
    with pytest.raises(WrongState, match="on its way already"):
        move_group(world, group, "node3")
    forward(world, group)
    world.settle()
    assert_quiet(world)


def test_whoever_cannot_go_is_named_and_whoever_is_nowhere_stays(world: World) -> None:
    group, servers = three(world)
    world.store.write_now(begin.begin, "pause", servers[0], world.by(), {})
    world.store.write_now(shelf.shelve, servers[1], world.by())
    world.store.write_now(begin.begin, "reboot", servers[2], world.by(), {})
    with pytest.raises(WrongState) as refusal:
        move_group(world, group, "node2")
    assert all(f"of db-{number} (" in refusal.value.message for number in (1, 2, 3))
    world.settle()
    with pytest.raises(WrongState, match=r"db-1 \(.*\) is paused"):
        move_group(world, group, "node2")
    world.store.write_now(begin.begin, "unpause", servers[0], world.by(), {})
    world.settle()
    move_group(world, group, "node2")
    unshelve = world.store.write_now(shelf.unshelve, servers[1], world.by())
    world.settle()
    assert [world.home(server) for server in servers] == ["node2", None, "node2"]
    assert world.move(unshelve)["state"] == "undone"
    world.store.write_now(shelf.unshelve, servers[1], world.by())
    world.settle()
    assert world.home(servers[1]) == "node2"


@pytest.mark.parametrize("policy", ["anti-affinity", "soft-affinity"])
def test_only_an_affinity_group_moves_as_a_whole(world: World, policy: str) -> None:
    group = world.group(policy)
    world.boot("web-1", group, host="node1")
    with pytest.raises(WrongState, match=f"its policy is {policy}"):
        move_group(world, group, "node2")


def test_an_aborted_member_keeps_the_group_until_somebody_decides(world: World) -> None:
    group, servers = three(world)
    move_group(world, group, "node2")
    part = under_way(world, servers[0])
    step_until(world, part, "prepare target")
    world.store.write_now(abort.abort, servers[0], world.move(part)["number"], world.by())
    world.settle()
    assert state(world)[0] == "moving"
    assert [world.home(server) for server in servers] == ["node1", "node2", "node2"]
    forward(world, group)
    world.settle()
    assert state(world)[0] == "done"
    assert homes(world, servers) == {"node2"}


def test_the_source_dies_and_the_rest_is_made_anew_on_the_target(world: World) -> None:
    group, servers = half_way(world)
    force_down(world, "node1")
    with pytest.raises(WrongState, match="berthold group move"):
        evacuate(world, servers[0])
    forward(world, group)
    world.settle()
    assert state(world)[0] == "done"
    assert homes(world, servers) == {"node2"}
    assert moving(world, group) is None
    assert holds(world, servers[0]) == {"node1": "left", "node2": "home"}
    world.restart_agent("node1")
    world.settle()
    assert host_status(world, "node1") == "up"
    assert used(world, "node1") == 0
    assert_quiet(world)


def test_the_target_dies_and_all_go_back(world: World) -> None:
    group, servers = half_way(world)
    force_down(world, "node2")
    back(world, group)
    world.settle()
    assert state(world)[0] == "done"
    assert homes(world, servers) == {"node1"}
    assert {shown(world, server) for server in servers} == {("ACTIVE", None)}
    world.restart_agent("node2")
    world.settle()
    assert used(world, "node2") == 0
    assert_quiet(world)


def test_the_target_dies_under_those_that_are_on_their_way(world: World) -> None:
    group, servers = three(world)
    move_group(world, group, "node2")
    for move in world.unfinished():
        world.step(move)
    world.obey("node2")
    force_down(world, "node2")
    world.settle()
    back(world, group)
    world.settle()
    assert state(world)[0] == "done"
    assert homes(world, servers) == {"node1"}
    world.restart_agent("node2")
    world.settle()
    assert_quiet(world)


def test_the_source_is_silent_for_a_while_and_all_goes_on_when_it_returns(world: World) -> None:
    group, servers = half_way(world)
    world.silent.add("node1")
    forward(world, group)
    for _ in range(30):
        for move in world.unfinished():
            world.step(move)
        world.attend()
        world.obey("node2")
        world.pass_time(5.0)
    assert state(world)[0] == "moving"
    world.silent.clear()
    world.settle()
    if state(world)[0] == "moving":
        forward(world, group)
        world.settle()
    assert state(world)[0] == "done"
    assert homes(world, servers) == {"node2"}
    assert_quiet(world)


def test_a_host_that_was_cleared_once_and_came_to_again_is_cleared_again(world: World) -> None:
    """M1: the new host is fenced when it should be asked, and is back when its claim should go."""
    group, servers = three(world)
    target = world.faults_of["node2"]
    target.plan("refuse", verb="prepare", server=servers[0], times=1)
    target.plan("refuse", verb="prepare", server=servers[1], times=50)
    move_group(world, group, "node2")
    world.settle()
    forward(world, group)
    world.settle()
    assert [world.home(server) for server in servers] == ["node2", "node1", "node2"]
    back(world, group)
    part = under_way(world, servers[0])
    while world.move(part)["playbook"] != "group-return":
        for move in world.unfinished():
            world.step(move)
        for host in ("node1", "node2"):
            world.obey(host)
        world.attend()
    force_down(world, "node2")
    while line_of(world.move(part)).name != "release elsewhere":
        world.step(part)
    world.restart_agent("node2")
    world.store.write_now(hosts.unfence, world.host_id("node2"))
    world.step(part)
    assert holds(world, servers[0]) == {"node1": "home", "node2": "left"}
    world.settle()
    assert world.ground.states("node2") == {}
    assert used(world, "node2") == 0
    assert state(world) == ("done", "node1")
    assert_quiet(world)


def test_a_member_that_is_stuck_keeps_the_group_until_somebody_says_go_on(world: World) -> None:
    group, servers = three(world)
    move_group(world, group, "node2")
    part = under_way(world, servers[0])
    step_until(world, part, "move ports")
    bind = world.runner.neighbours.networks.bind

    async def refuse(server: str, host: str) -> None:
        raise WrongState("planned")

    world.runner.neighbours.networks.bind = refuse  # type: ignore[method-assign, assignment]
    for _ in range(world.settings.tries_max + 1):
        if world.move(part)["state"] == "running":
            world.step(part)
            world.pass_time(world.settings.retry_last_s + 1)
    world.runner.neighbours.networks.bind = bind  # type: ignore[method-assign]
    world.settle()
    assert (world.move(part)["state"], state(world)[0]) == ("stuck", "moving")
    forward(world, group)
    world.settle()
    assert state(world)[0] == "done"
    assert ended(world, part) == "completed"
    assert_quiet(world)
