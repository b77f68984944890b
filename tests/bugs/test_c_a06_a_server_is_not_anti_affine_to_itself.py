"""C-a06: a server counts against itself.

The story (Launchpad nova 1558532): a site allows a resize to stay on its host. A member of an
anti-affinity group is resized, no other host is free, and its own host is refused: the group has
a member there already, namely the server that is to be resized.

Right: it is resized where it is; so are confirm, revert and whatever goes wrong on the way. What
makes it so: a member has one seat on a host however many claims it has there (G1), both sizes
stay claimed until the owner has decided, and the asks to "the other host" fall away. A migration
is a wish to leave, so the setting does not let it stay.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from berthold.errors import NotFound
from berthold.lab.world import SMALL, World, with_settings
from berthold.ledger import servers
from by_hand import (
    MakeWorld,
    choosing,
    ended,
    events,
    guest,
    holds,
    operators_read,
    outcome,
    preferred,
    project,
    shown,
    step_until,
    used,
    why,
)

STAY = with_settings(resize_on_same_host=True)


def only_its_own_host(make_world: MakeWorld) -> tuple[World, str, str]:
    """Two hosts, a member of one anti-affinity group on each."""
    world = make_world(settings=STAY, node1=4, node2=4)
    group = world.group("anti-affinity")
    return world, world.boot("one", group, host="node1"), world.boot("two", group, host="node2")


def test_it_is_resized_where_it_is_and_confirmed(make_world: MakeWorld) -> None:
    world, one, _ = only_its_own_host(make_world)
    resize = world.resize(one)
    assert preferred(world, resize) == ["node1"]
    world.settle()

    assert shown(world, one) == ("VERIFY_RESIZE", None)
    assert holds(world, one) == {"node1": "home source"}
    assert used(world, "node1") == 1 + 2, "both sizes are claimed until the owner has decided"
    assert guest(world, "node1", one) == ("running", 2)
    assert ended(world, resize) == "finished"

    world.confirm(one)
    world.settle()
    assert shown(world, one) == ("ACTIVE", None)
    assert holds(world, one) == {"node1": "home"}
    assert used(world, "node1") == 2
    assert guest(world, "node1", one) == ("running", 2)
    assert world.server(one)["flavor"]["name"] == "large"
    assert ended(world, resize) == "confirmed"
    assert project(world)["cores"] == 2 + 1


def test_a_revert_gives_the_old_size_back(make_world: MakeWorld) -> None:
    world, one, _ = only_its_own_host(make_world)
    before = world.picture()
    resize = world.resize(one)
    world.settle()
    world.revert(one)
    world.settle()

    assert shown(world, one) == ("ACTIVE", None)
    assert guest(world, "node1", one) == ("running", 1)
    assert ended(world, resize) == "reverted"
    assert events(world, resize)[-2:] == [
        ("compute_revert_resize", "Success"),
        ("compute_finish_revert_resize", "Success"),
    ]
    after = world.picture()
    assert after.keys() == before.keys()
    for table in after.keys() - {"claim"}:
        assert after[table] == before[table], table


@pytest.mark.parametrize("verb", ["stop", "start"])
def test_if_the_host_cannot_the_server_is_as_it_was(make_world: MakeWorld, verb: str) -> None:
    world, one, _ = only_its_own_host(make_world)
    before = world.picture()
    world.faults_of["node1"].plan("refuse", verb=verb, server=one, reason="the hypervisor says no")
    resize = world.resize(one)
    world.settle()

    assert shown(world, one) == ("ACTIVE", None)
    assert guest(world, "node1", one) == ("running", 1)
    assert world.picture() == before
    assert ended(world, resize) == "error"
    assert outcome(world, resize) == "Error"
    assert "the hypervisor says no" in operators_read(world, resize)


@pytest.mark.parametrize("line", ["claim target", "prepare target", "stop guest", "start on target"])
def test_the_agent_may_die_at_every_line(make_world: MakeWorld, line: str) -> None:
    world, one, _ = only_its_own_host(make_world)
    resize = world.resize(one)
    step_until(world, resize, line)
    world.restart_agent("node1")
    world.kill_conductor()
    world.settle()
    if shown(world, one) == ("VERIFY_RESIZE", None):
        world.revert(one)
        world.settle()
    assert shown(world, one) == ("ACTIVE", None)
    assert guest(world, "node1", one) == ("running", 1)
    assert world.server(one)["flavor"] == SMALL


def test_a_stopped_server_is_resized_where_it_is_and_stays_stopped(make_world: MakeWorld) -> None:
    world, one, _ = only_its_own_host(make_world)
    place = world.ground.place("node1", one)
    assert place is not None
    world.ground.put("node1", place.guest, "stopped", disks=True)
    world.store.write_now(lambda tx: servers.change(tx, one, condition="stopped"))
    world.resize(one)
    world.settle()
    assert shown(world, one) == ("VERIFY_RESIZE", None)
    world.confirm(one)
    world.settle()

    assert shown(world, one) == ("SHUTOFF", None)
    assert world.ground.states("node1") == {one: "stopped"}
    assert used(world, "node1") == 2


def test_what_does_not_fit_beside_the_old_size_is_refused_for_want_of_room(make_world: MakeWorld) -> None:
    """Until the owner has decided there must be a way back, so both sizes must fit."""
    world, one, _ = only_its_own_host(make_world)
    resize = world.resize(one, {**SMALL, "id": "3", "name": "huge", "vcpus": 4, "ram": 2048})
    world.settle()
    assert shown(world, one) == ("ACTIVE", None)
    assert ended(world, resize) == "error"
    assert "hosts: capacity" in why(world, resize)
    assert project(world)["cores"] == 2


def test_deleted_while_it_awaits_its_owners_word_nothing_is_left(make_world: MakeWorld) -> None:
    world, one, _ = only_its_own_host(make_world)
    world.resize(one)
    world.settle()
    world.delete(one)
    world.settle()
    assert shown(world, one) == ("DELETED", None)
    assert used(world, "node1") == 0
    assert guest(world, "node1", one) is None
    with pytest.raises(NotFound):
        world.confirm(one)


@pytest.mark.parametrize("kind", ["live_migrate", "migrate"])
def test_a_migration_never_stays_on_its_host(make_world: MakeWorld, kind: str) -> None:
    world, one, _ = only_its_own_host(make_world)
    begin: Callable[[str], str] = getattr(world, kind)
    move = begin(one)
    assert preferred(world, move) == []
    world.settle()
    assert ended(world, move) == "error"
    assert "1 host: source host" in why(world, move)

    world.add_host("node3")
    again = begin(one)
    choosing(world, again).end()
    assert holds(world, one) == {"node1": "home", "node3": "target"}
    world.settle()
    assert world.home(one) == "node3"
