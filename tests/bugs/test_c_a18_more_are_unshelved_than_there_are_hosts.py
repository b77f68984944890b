"""C-a18, C-b21 (unshelve), C-b25, C-b27: servers come off the shelf, several at once, and not all can.

The stories: members of an anti-affinity group that are unshelved at once share a host (measured on
Nova 34.0.0 in ten trials of ten), or a batch blocks itself by the hosts that each remembers
(CloudStack 5527, 6002); an unshelve that fails on its host leaves the server without image, with a
claim or in error (Launchpad nova 1713796, 1862633, 1627694, 1934094); the periodic audit drops the
claim of an unshelve in flight (2025480); two requests for one server both go on (omicron 10479).

Right: what fits comes up, each on a host of its own; the rest stays on the shelf and says why. What
makes it so: to unshelve is to claim a place anew, under every rule (R2), and a failed one leaves no
trace (M6).
"""

from __future__ import annotations

import itertools

import pytest

from berthold.errors import Malformed, Unavailable, WrongState
from berthold.lab.furniture import add_image, add_network
from berthold.lab.world import World
from berthold.moves import shelf
from by_hand import (
    MakeWorld,
    choosing,
    guest,
    holds,
    outcome,
    shown,
    step_until,
    told,
    under_way,
    used,
)
from mishaps import neighbours


def shelve(world: World, server: str, **more: bool) -> None:
    world.store.write_now(shelf.shelve, server, world.by(), **more)
    world.settle()


def unshelve(world: World, server: str, **where: str | None) -> str:
    return world.store.write_now(shelf.unshelve, server, world.by(), where)


def on_shelf(make_world: MakeWorld, policy: str = "anti-affinity") -> tuple[World, list[str]]:
    """Three members, all last on node1, and two hosts."""
    world = make_world(node1=4)
    web = world.group(policy)
    servers = []
    for name in ("one", "two", "three"):
        servers.append(world.boot(name, web, image_id=add_image(world)))
        shelve(world, servers[-1])
    world.add_host("node2")
    return world, servers


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_two_of_three_come_up_and_the_third_says_why(make_world: MakeWorld, order: tuple[int, ...]) -> None:
    world, servers = on_shelf(make_world)
    moves = [unshelve(world, server) for server in servers]
    halfway = [choosing(world, move) for move in moves]  # all have chosen, none has written
    for number in order:
        halfway[number].end()
    world.settle()
    states = [shown(world, server) for server in servers]
    assert sorted(states) == [("ACTIVE", None), ("ACTIVE", None), ("SHELVED_OFFLOADED", None)]
    assert {world.home(server) for server in servers} == {"node1", "node2", None}
    lost = states.index(("SHELVED_OFFLOADED", None))
    assert holds(world, servers[lost]) == {}
    assert outcome(world, moves[lost]) == "Error"
    assert "No valid host" in told(world, moves[lost])[0]
    assert "group rule" in told(world, moves[lost])[0]
    assert world.server(servers[lost])["details"]["shelved_image_id"] in {
        row["id"] for row in world.rows("image")
    }
    assert world.problems() == []
    world.add_host("node3")
    unshelve(world, servers[lost])
    world.settle()
    assert world.home(servers[lost]) == "node3"
    assert not [row for row in world.rows("image") if row["name"].endswith("-shelved")]


def test_members_of_an_affinity_group_come_up_on_one_host(make_world: MakeWorld) -> None:
    world, servers = on_shelf(make_world, "affinity")
    halfway = [choosing(world, unshelve(world, server)) for server in servers]
    for each in halfway:
        each.end()
    world.settle()
    assert len({world.home(server) for server in servers}) == 1
    assert [shown(world, server) for server in servers] == [("ACTIVE", None)] * 3


def test_of_two_requests_for_one_server_one_is_accepted(make_world: MakeWorld) -> None:
    world, (one, *_) = on_shelf(make_world)
    move = unshelve(world, one)
    with pytest.raises(WrongState, match="unshelv"):
        unshelve(world, one)
    world.settle()
    assert len([claim for claim in world.rows("claim") if claim["server_id"] == one]) == 1
    assert world.move(move)["state"] == "done"


@pytest.mark.parametrize("at", ["claim host", "spawn"])
def test_it_fails_and_is_on_the_shelf_as_before(make_world: MakeWorld, at: str) -> None:
    world, (one, *_) = on_shelf(make_world)
    before = world.picture()
    if at == "spawn":
        for name in world.agents:
            world.faults_of[name].plan("refuse", verb="spawn", times=3)
        move = unshelve(world, one)
    else:
        world.boot("big", host="node2", flavor={**world.server(one)["flavor"], "vcpus": 4})
        before = world.picture()
        move = unshelve(world, one, host="node2")
    world.settle()
    assert shown(world, one) == ("SHELVED_OFFLOADED", None)
    assert world.picture() == before
    assert (outcome(world, move), world.move(move)["state"]) == ("Error", "undone")
    for faults in world.faults_of.values():
        faults.forget()
    unshelve(world, one)
    world.settle()
    assert shown(world, one) == ("ACTIVE", None)


def test_the_network_fails_and_it_goes_on_when_that_is_back(make_world: MakeWorld) -> None:
    world = make_world(node1=4)
    network = add_network(world)
    one = world.boot("one", image_id=add_image(world), networks=[{"uuid": network}])
    shelve(world, one)
    move = unshelve(world, one)
    step_until(world, move, "move ports")
    sound = world.runner.neighbours
    _fail_once(world)
    world.settle()
    world.runner.neighbours = sound
    assert (shown(world, one), holds(world, one)) == (("ACTIVE", None), {"node1": "home"})


def _fail_once(world: World) -> None:
    class Stage:
        pass

    stage = Stage()
    stage.world = world  # type: ignore[attr-defined]
    neighbours(Unavailable("planned"), done=False)(stage)  # type: ignore[arg-type]


def test_its_room_is_taken_from_the_first_moment(make_world: MakeWorld) -> None:
    world = make_world(node1=1)
    one = world.boot("one")
    shelve(world, one)
    assert used(world, "node1") == 0
    move = unshelve(world, one)
    step_until(world, move, "spawn")
    for line in ("spawn", "take home", "settle"):
        step_until(world, move, line)
        assert used(world, "node1") == 1
        assert world.problems() == []
    other = world.boot("other")
    assert (shown(world, other)[0], used(world, "node1")) == ("ERROR", 1)


def test_where_to_is_obeyed_and_remembered(make_world: MakeWorld) -> None:
    world, (one, two, _) = on_shelf(make_world)
    unshelve(world, one, host="node2", zone="nova")
    world.settle()
    assert (world.home(one), world.server(one)["zone"]) == ("node2", "nova")
    unshelve(world, two, zone="elsewhere")
    world.settle()
    assert (shown(world, two)[0], world.server(two)["zone"]) == ("SHELVED_OFFLOADED", None)
    with pytest.raises(Malformed, match="could not be found"):
        unshelve(world, two, host="nowhere")
    shelve(world, one)
    unshelve(world, one, zone=None)
    world.settle()
    assert world.server(one)["zone"] is None


def test_one_that_was_not_offloaded_keeps_its_place_and_comes_up_there(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4)
    one = world.boot("one", world.group("anti-affinity"), host="node1", image_id=add_image(world))
    shelve(world, one, offload=False)
    assert (shown(world, one), holds(world, one)) == (("SHELVED", None), {"node1": "home"})
    with pytest.raises(WrongState, match="own host"):
        unshelve(world, one, host="node2")
    unshelve(world, one)
    world.settle()
    assert (shown(world, one), world.home(one)) == (("ACTIVE", None), "node1")
    shelve(world, one, offload=False)
    world.store.write_now(shelf.offload, one, world.by())
    world.settle()
    assert (shown(world, one)[0], guest(world, "node1", one)) == ("SHELVED_OFFLOADED", None)


@pytest.mark.parametrize("offload", [True, False])
def test_one_that_is_deleted_from_the_shelf_leaves_no_image(make_world: MakeWorld, offload: bool) -> None:
    world = make_world(node1=4)
    one = world.boot("one", image_id=add_image(world))
    shelve(world, one, offload=offload)
    world.delete(one)
    world.settle()
    assert [row["name"] for row in world.rows("image")] == ["cirros"]
    assert world.rows("claim") == []


def test_one_that_is_deleted_while_it_is_shelved_or_unshelved(make_world: MakeWorld) -> None:
    world = make_world(node1=4)
    for lines, first in (
        (("stop guest", "make image", "settle", "discard guest"), False),
        (("claim host", "spawn", "take home", "remove image", "settle"), True),
    ):
        for line in lines:
            one = world.boot("one", image_id=add_image(world, "base"))
            if first:
                shelve(world, one)
                unshelve(world, one)
            else:
                world.store.write_now(shelf.shelve, one, world.by())
            step_until(world, under_way(world, one), line)
            world.delete(one)
            world.settle()
            assert (world.rows("claim"), world.ground.states("node1")) == ([], {}), line
            assert {row["name"] for row in world.rows("image")} == {"base"}, line
