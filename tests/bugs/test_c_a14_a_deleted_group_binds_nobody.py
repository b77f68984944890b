"""C-a14: a group is deleted, then its members must move.

The story (Launchpad nova 1890244): a group with members is deleted. The members still carry its
id, and every later move of them fails because the group cannot be found.

Right: the deletion leaves the servers running and ends the rule; later moves succeed as those of
any server, and so does one that is under way at that moment (G4). What makes it so: the members'
claims lose group and seat in the transaction that deletes the group.
"""

from __future__ import annotations

import pytest

from by_hand import MakeWorld, choosing, ended, evacuate, events, holds, lose, project, shown


@pytest.mark.parametrize("kind", ["live_migrate", "migrate", "resize"])
@pytest.mark.parametrize("policy", ["anti-affinity", "affinity", "soft-anti-affinity"])
def test_later_moves_succeed(make_world: MakeWorld, kind: str, policy: str) -> None:
    world = make_world(node1=4, node2=4)
    group = world.group(policy)
    one = world.boot("one", group, host="node1")
    two = world.boot("two", group)
    claims = {server: holds(world, server) for server in (one, two)}
    world.delete_group(group)
    assert {server: holds(world, server) for server in (one, two)} == claims
    assert (world.rows("seat"), world.rows("group_place")) == ([], [])
    assert project(world)["server_groups"] == 0

    move = getattr(world, kind)(one)
    world.settle()
    assert world.home(one) == "node2"
    assert ended(world, move) == ("completed" if kind == "live_migrate" else "finished")
    assert {result for _, result in events(world, move)} == {"Success"}


@pytest.mark.parametrize("policy", ["anti-affinity", "affinity", "soft-anti-affinity"])
def test_members_of_a_dead_host_are_evacuated(make_world: MakeWorld, policy: str) -> None:
    """As it was reported: the group goes, then the host."""
    world = make_world(node1=4)
    group = world.group(policy)
    one = world.boot("one", group)
    two = world.boot("two", group) if policy != "anti-affinity" else one
    world.add_host("node2")
    world.delete_group(group)
    lose(world, "node1")
    moves = {server: evacuate(world, server) for server in dict.fromkeys((one, two))}
    world.settle()
    for server, move in moves.items():
        assert (shown(world, server), world.home(server)) == (("ACTIVE", None), "node2")
        assert ended(world, move) == "done"
    world.restart_agent("node1")
    world.settle()
    assert [ended(world, move) for move in moves.values()] == ["completed"] * len(moves)


def test_an_evacuation_under_way_goes_on_without_the_group(make_world: MakeWorld) -> None:
    world = make_world(node1=4)
    group = world.group("anti-affinity")
    one = world.boot("one", group)
    world.add_host("node2")
    lose(world, "node1")
    turn = choosing(world, evacuate(world, one))
    world.delete_group(group)
    turn.end()
    world.settle()
    assert world.home(one) == "node2"
    world.restart_agent("node1")
    world.settle()


@pytest.mark.parametrize("kind", ["live_migrate", "migrate"])
def test_a_move_that_has_chosen_its_host_goes_on(make_world: MakeWorld, kind: str) -> None:
    world = make_world(node1=4, node2=4)
    group = world.group("anti-affinity")
    one = world.boot("one", group, host="node1")
    move = getattr(world, kind)(one)
    turn = choosing(world, move)
    world.delete_group(group)
    turn.end()
    assert holds(world, one) == {"node1": "home", "node2": "target"}
    world.settle()
    assert world.home(one) == "node2"


def test_what_was_refused_because_of_the_group_is_granted_without_it(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4)
    group = world.group("anti-affinity")
    one, _ = world.boot("one", group, host="node1"), world.boot("two", group, host="node2")
    refused = world.live_migrate(one)
    world.settle()
    assert ended(world, refused) == "error"
    world.delete_group(group)
    world.live_migrate(one)
    world.settle()
    assert world.home(one) == "node2"
    assert shown(world, one) == ("ACTIVE", None)
