"""G2 and M1: a group that moves as a whole between hosts that are fenced and let act again, and members
that cannot give up the host that they have left.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from berthold.errors import Malformed, WrongState
from berthold.lab.world import World, with_settings
from berthold.ledger import claims, hosts
from berthold.moves import group_status, together
from by_hand import assert_quiet, holds, host_status, under_way
from races import Actor
from whole_group import (
    back,
    force_down,
    forward,
    half_way,
    homes,
    move_group,
    moving,
    repair,
    sound_world,
    state,
    three,
)


@pytest.fixture
def world() -> Iterator[World]:
    with sound_world() as world:
        yield world


def status(world: World, group: str) -> str:
    return str(world.store.read_now(group_status.look, group)["status"])


def run_alone(world: World, server: str, host: str) -> None:
    """This member's conductor and that host, until the member waits."""
    while world.move(part := under_way(world, server))["state"] == "running":
        world.step(part)
        world.obey(host)


def test_who_was_made_anew_elsewhere_finds_its_old_host_fenced_until_the_group_has_arrived(
    world: World,
) -> None:
    group, servers = half_way(world)
    force_down(world, "node1")
    forward(world, group)
    run_alone(world, servers[0], "node2")
    assert homes(world, servers) == {"node2"}
    with pytest.raises(WrongState, match="is fenced"):
        back(world, group)
    world.restart_agent("node1")
    for _ in range(2):
        with pytest.raises(Malformed, match="force up"):
            world.store.write_now(hosts.unfence, world.host_id("node1"))
        world.attend()
    world.settle()
    assert state(world) == ("done", "node2")
    assert world.ground.states("node1") == {}
    assert_quiet(world)


def test_so_does_who_was_made_anew_where_it_came_from_while_the_group_settles(world: World) -> None:
    group, servers = half_way(world)
    force_down(world, "node2")
    back(world, group)
    for server in servers[1:]:
        run_alone(world, server, "node1")
    world.restart_agent("node2")
    world.attend()
    assert state(world) == ("settling", "node1")
    with pytest.raises(Malformed, match="are being evacuated"):
        world.store.write_now(hosts.unfence, world.host_id("node2"))
    world.settle()
    assert state(world) == ("done", "node1")
    assert world.ground.states("node2") == {}
    assert_quiet(world)


def test_all_that_never_left_a_host_are_let_go_by_the_other_though_theirs_is_fenced(world: World) -> None:
    group, servers = three(world)
    for server in servers:
        world.faults_of["node2"].plan("refuse", verb="prepare", server=server, times=9)
    move_group(world, group, "node2")
    world.settle()
    force_down(world, "node1")
    back(world, group)
    world.settle()
    assert state(world) == ("done", "node1")
    assert moving(world, group) is None
    assert {tuple(holds(world, server).items()) for server in servers} == {(("node1", "home"),)}


def test_who_cannot_give_up_its_old_host_is_seen_and_sent_on(world: World) -> None:
    group, servers = three(world)
    world.runner.settings = with_settings(tries_max=5)
    world.faults_of["node1"].plan("refuse", verb="discard", server=servers[0], times=99)
    move_group(world, group, "node2")
    part = under_way(world, servers[0])
    for _ in range(200):
        for move in world.unfinished():
            world.step(move)
        for host in ("node1", "node2"):
            world.obey(host)
        world.attend()
        if world.move(part)["attempt"]:  # it is tried again, a little later
            world.pass_time(world.settings.retry_last_s + 1)
        if world.move(part)["state"] == "stuck":
            break
    assert (world.move(part)["state"], state(world)[0]) == ("stuck", "settling")
    assert status(world, group) == "held"
    (kept,) = [m for m in world.store.read_now(group_status.look, group)["members"] if m["status"] == "held"]
    assert kept["reason"] == "a host could not remove what it holds of the server"
    assert kept["hosts"] == {"node1": "a fault was planned"}
    with pytest.raises(WrongState, match="arrived"):
        back(world, group)
    repair(world)
    forward(world, group)
    world.settle()
    assert state(world) == ("done", "node2")
    assert_quiet(world)


def test_a_host_that_is_let_act_again_while_a_member_is_sent_is_no_dead_host(postgresql_url: str) -> None:
    world = World(hosts=0, url=postgresql_url)
    for name in ("node1", "node2", "node3"):
        world.add_host(name, vcpus=8, memory_mb=8192)
    group, servers = half_way(world)
    force_down(world, "node1")
    operator = Actor(world.store, together.forward, group, world.by(), stop="INSERT INTO action").reached()
    world.silent.clear()
    world.restart_agent("node1")
    world.store.write_now(hosts.unfence, world.host_id("node1"))
    operator.end()
    part = world.move(under_way(world, servers[0]))
    assert (host_status(world, "node1"), part["kind"]) == ("up", "live-migration")
    world.close()


def test_a_claim_that_goes_between_two_looks_is_not_found(postgresql_url: str) -> None:
    world = World(hosts=2, url=postgresql_url)
    server = world.boot("web-1")
    (claim,) = world.claims(server)
    looking = Actor(world.store, claims.find, claim.id, stop="claim JOIN host").reached()
    world.store.write_now(claims.release, claim.id)
    assert looking.end() is None
    world.close()
