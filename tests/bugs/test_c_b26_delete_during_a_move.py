"""C-b26, C-e02: a server is deleted while it moves.

The stories (Launchpad nova 1848343: the move fails after the delete, and its roll-back gives a
claim to a server that no longer exists; 1387543, 1392527, CVE-2015-3241 and CVE-2015-3280: the
copying goes on after the delete, so that anybody can fill the hosts' disks for nothing by resizing
and deleting).

Right: with the delete all work on the move ends; afterwards no guest, file, claim, seat or record
in progress is left on any host, and the quota is whole. What makes it so: delete supersedes the
move, takes its claims over and asks every claimed host to discard, and only then gives them up
(M1, M3).
"""

from __future__ import annotations

import pytest

from berthold.errors import Stale
from berthold.lab.world import World, now
from berthold.moves.live_migrate import LIVE_MIGRATION
from berthold.moves.resize import CONFIRM_RESIZE, RESIZE, REVERT_RESIZE
from by_hand import MakeWorld, ended, holds, project, shown, step_until

STAGES = [
    (kind, line.name)
    for kind, book in (("live_migrate", LIVE_MIGRATION), ("migrate", RESIZE), ("resize", RESIZE))
    for line in (book.lines[:-1] if book is RESIZE else book.lines)
]
HOSTS = ("node1", "node2")


def assert_nothing_is_left(world: World, server: str, move: str) -> None:
    assert shown(world, server) == ("DELETED", None)
    assert ended(world, move) == "cancelled"
    for table in ("claim", "seat", "group_place"):
        assert world.rows(table) == [], table
    assert [world.ground.states(host) for host in HOSTS] == [{}, {}]
    assert {row["used"] for row in world.rows("inventory")} == {0}
    assert dict(project(world)) == {"instances": 0, "cores": 0, "ram": 0, "server_groups": 1}
    assert world.problems() == []


@pytest.mark.parametrize(("kind", "line"), STAGES)
def test_at_every_line(make_world: MakeWorld, kind: str, line: str) -> None:
    world = make_world(node1=4, node2=4)
    one = world.boot("one", world.group("anti-affinity"), host="node1")
    move = getattr(world, kind)(one)
    step_until(world, move, line)
    lease = world.lease(move)
    late = [(name, ask) for name in HOSTS for ask in world.asks(name)]
    world.delete(one)
    for name, ask in late:  # what the hosts had been told before, they hear first
        now(world.door.answer(now(world.agents[name].do(ask))))
    with pytest.raises(Stale):
        now(world.runner.step(lease))
    world.settle()
    assert_nothing_is_left(world, one, move)


@pytest.mark.parametrize("line", ["prepare target", "copy disk", "start on target"])
def test_while_a_failed_move_is_walked_back(make_world: MakeWorld, line: str) -> None:
    world = make_world(node1=4, node2=4)
    one = world.boot("one", world.group("anti-affinity"), host="node1")
    host, verb = {
        "prepare target": ("node2", "prepare"),
        "copy disk": ("node1", "send_disk"),
        "start on target": ("node2", "start"),
    }[line]
    world.faults_of[host].plan("refuse", verb=verb)
    move = world.resize(one)
    while world.move(move)["state"] == "running":
        world.step(move)
        for name in HOSTS:
            world.obey(name)
    world.delete(one)
    world.settle()
    assert_nothing_is_left(world, one, move)


@pytest.mark.parametrize("book", [CONFIRM_RESIZE, REVERT_RESIZE], ids=["confirm", "revert"])
def test_while_a_resize_is_confirmed_or_reverted(make_world: MakeWorld, book: object) -> None:
    for number in range(2 if book is CONFIRM_RESIZE else len(REVERT_RESIZE.lines)):
        world = make_world(node1=4, node2=4)
        one = world.boot("one", world.group("anti-affinity"), host="node1")
        move = world.resize(one)
        world.settle()
        (world.confirm if book is CONFIRM_RESIZE else world.revert)(one)
        while world.move(move)["line"] < number:
            world.step(move)
            for name in HOSTS:
                world.obey(name)
        world.delete(one)
        world.settle()
        assert_nothing_is_left(world, one, move)


def test_in_verify_resize_while_the_sources_agent_restarts(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4)
    one = world.boot("one", world.group("anti-affinity"), host="node1")
    move = world.resize(one)
    world.settle()
    world.silent.add("node1")
    delete = world.delete(one)
    world.settle()
    assert shown(world, one)[1] == "deleting"
    assert holds(world, one) == {"node1": "source", "node2": "home"}, "node1 has not said that it is gone"
    assert ended(world, delete) != "completed"
    world.restart_agent("node1")
    world.settle()
    assert_nothing_is_left(world, one, move)


def test_twenty_rounds_of_create_resize_delete_leave_nothing(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4)
    world.group("anti-affinity")
    for number in range(20):
        one = world.boot(f"server{number}", host="node1")
        move = world.resize(one)
        step_until(world, move, "copy disk", obey=True)
        if number % 2:
            world.obey("node1")
        world.delete(one)
        world.settle()
        assert_nothing_is_left(world, one, move)
