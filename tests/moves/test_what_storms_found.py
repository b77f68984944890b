"""Faults that storms found (`lab/storm`), each by the shortest way there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from berthold.errors import Refused
from berthold.lab.furniture import add_volume
from berthold.lab.world import PROJECT, World, now, with_settings
from berthold.ledger import hosts, schema
from berthold.moves import begin, together
from berthold.moves.create import volume_name
from berthold.moves.status import line_of
from by_hand import evacuate, host_status, lose, step_until


@pytest.fixture
def world() -> Iterator[World]:
    made = World(hosts=3, settings=with_settings(retry_first_s=0.1, retry_last_s=0.2, tries_max=3))
    yield made
    assert made.problems() == []
    made.close()


def test_an_undo_that_a_fenced_host_was_asked_for_dies_with_its_epoch(world: World) -> None:
    """M5: a migration turned back and asked its source to start the guest again; then the source was
    fenced, so nobody waited for that, and the server was evacuated. When the source returned it did as
    it was asked, and the guest ran twice."""
    one = world.boot("one", host="node1")
    move = world.migrate(one)
    step_until(world, move, "stop guest")
    lose(world, "node1")
    while world.move(move)["state"] == "running":  # until it has given up on node1
        world.step(move)
        world.pass_time(1.0)
    assert [ask["verb"] for ask in world.rows("ask") if ask["state"] == "open"] == ["start"]
    world.store.write_now(hosts.fence, world.host_id("node1"))
    world.settle()
    assert world.move(move)["state"] == "undone"
    evacuate(world, one)
    world.settle()
    world.restart_agent("node1")
    world.settle()
    assert world.ground.runners(one) == [world.home(one)]


@pytest.mark.parametrize("kind", ["rebuild", "hard-reboot", "rescue", "start"])
def test_a_stopped_server_that_was_migrated_is_all_there(world: World, kind: str) -> None:
    """M6: its guest was still called incoming on its new host, where it could be started and nothing else."""
    one = world.boot("one", image_id="cirros")
    world.store.write_now(begin.begin, "stop", one, world.by(), {})
    world.settle()
    world.migrate(one)
    world.settle()
    world.confirm(one)
    world.settle()
    home = world.home(one)
    assert home is not None
    world.ground.power_off(home)  # a copied disk is no less there afterwards
    assert world.ground.states(home) == {one: "stopped"}
    world.store.write_now(begin.begin, kind, one, world.by(), {"image_id": "cirros"})
    world.settle()
    assert {move["state"] for move in world.moves()} == {"done"}


def test_a_target_that_loses_power_before_it_starts_the_guest_lets_the_migration_turn_back(
    world: World,
) -> None:
    """M6: nothing was left there that could be stopped, so the way back was stuck for ever."""
    one = world.boot("one", host="node1", image_id="cirros")
    move = world.migrate(one, "node2")
    step_until(world, move, "start on target")
    lose(world, "node2")
    while world.move(move)["state"] == "running" and not world.move(move)["facts"].get("locating"):
        world.step(move)
        world.pass_time(1.0)
    world.restart_agent("node2")
    world.settle()
    assert (world.move(move)["state"], world.home(one)) == ("undone", "node1")
    assert (world.status(one).status, world.ground.runners(one)) == ("ACTIVE", ["node1"])


@pytest.mark.parametrize("line", ["take volume", "attach to guest", "note volume"])
def test_a_server_that_is_deleted_while_it_gets_a_volume_gives_it_back(world: World, line: str) -> None:
    """M3: the delete did not know of the volume, which stayed in use by nobody."""
    one, volume = world.boot("one", image_id="cirros"), add_volume(world)
    world.store.write_now(begin.attach_volume, one, world.by(), volume)
    step_until(world, world.unfinished()[0], line)
    world.delete(one)
    world.settle()
    assert [row["status"] for row in world.rows("volume")] == ["available"]


def test_a_volume_that_is_being_made_for_a_create_is_not_given_to_another_server(world: World) -> None:
    """M6: it was `available` before it was attached. Somebody gave it to a server, the create was undone,
    and the volume went from under that server, which went on naming it."""
    other = world.boot("other", image_id="cirros")
    one = world.create("one", volumes=[{"size": 1, "boot_index": 0}])
    (create,) = world.unfinished()
    step_until(world, create, "make volumes")
    name = volume_name(world.server(one), 0)
    made = now(world.companions.volumes.create(PROJECT, create, name=name, size=1))  # killed before attaching
    world.store.write_now(begin.attach_volume, other, world.by(), made.id)
    (attach,) = set(world.unfinished()) - {create}
    while world.move(attach)["state"] in schema.UNFINISHED:
        world.step(attach)
    world.delete(one)
    world.settle()
    assert (world.move(attach)["state"], world.server(other)["volumes"]) == ("undone", [])
    assert [row["status"] for row in world.rows("volume")] == ["deleted"]


def come_back(world: World, name: str) -> None:
    """The fenced host has power and its agent again, and an operator lets it act."""
    world.restart_agent(name)
    world.store.write_now(hosts.unfence, world.host_id(name))


def test_a_host_that_returns_during_a_delete_still_removes_the_guest(world: World) -> None:
    """M1: the delete had passed over the fenced host; when that was up again before the server was
    buried, its claim was given up, and the guest stayed there with nobody to know of it."""
    one = world.boot("one", host="node1", image_id="cirros")
    lose(world, "node1")
    world.store.write_now(hosts.fence, world.host_id("node1"))
    move = world.delete(one)
    step_until(world, move, "bury")
    come_back(world, "node1")
    while move in world.unfinished():
        world.step(move)
    assert [(row["role"], host_status(world, "node1")) for row in world.rows("claim")] == [
        ("left", "cleaning")
    ]
    world.settle()
    assert (world.rows("claim"), world.ground.states("node1")) == ([], {})
    assert host_status(world, "node1") == "up"


def test_a_target_that_returns_while_its_migration_turns_back_is_cleaned(world: World) -> None:
    """M1: the same for what a migration had prepared there."""
    one = world.boot("one", host="node1", image_id="cirros")
    move = world.migrate(one, "node2")
    step_until(world, move, "stop guest")
    lose(world, "node2")
    world.ground.put("node2", world.ground.place("node1", one).guest, "incoming", disks=False)  # type: ignore[union-attr]
    world.store.write_now(hosts.fence, world.host_id("node2"))
    for faults in world.faults_of.values():
        faults.plan("refuse", verb="stop")
    step_until_undoing(world, move, "claim target")
    come_back(world, "node2")
    world.settle()
    assert world.move(move)["state"] == "undone"
    assert (world.home(one), world.ground.states("node2")) == ("node1", {})
    assert host_status(world, "node2") == "up"


def step_until_undoing(world: World, move: str, line: str) -> None:
    for _ in range(50):
        row = world.move(move)
        if row["state"] == "undoing" and line_of(row).name == line:
            return
        world.step(move)
        for name in world.agents:
            world.obey(name)
    raise AssertionError(f"it never comes back to {line}")


def test_a_group_that_has_just_arrived_is_not_moved_on_before_that_is_written_down(world: World) -> None:
    """G2: its members had settled and its move was not yet done; another was refused by a constraint,
    and whoever asked for it was told of an internal error."""
    group = world.group("affinity")
    world.boot("one", group, host="node1", image_id="cirros")
    world.store.write_now(together.begin, group, world.by(), world.host_id("node2"))
    while world.rows("group_move")[0]["state"] == "moving":
        step_all(world)
        world.attend()
    while world.unfinished():
        step_all(world)
    with pytest.raises(Refused, match="has just arrived") as told:
        world.store.write_now(together.begin, group, world.by(), world.host_id("node3"))
    assert (told.value.rule, told.value.wait) == ("G2", True)
    world.settle()
    world.store.write_now(together.begin, group, world.by(), world.host_id("node3"))
    world.settle()
    assert {row["state"] for row in world.rows("group_move")} == {"done"}


def step_all(world: World) -> None:
    for move in world.unfinished():
        world.step(move)
    for name in world.agents:
        world.obey(name)
