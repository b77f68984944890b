"""A whole site was down. What comes back first must not decide that there are no hosts."""

from __future__ import annotations

from berthold.lab.world import World
from berthold.ledger import inventories
from berthold.moves.runner import Runner


def a_site_that_was_down(world: World) -> None:
    """Everything is off for an hour; then a conductor starts, before any agent does."""
    world.silent |= set(world.agents)
    world.kill_conductor()
    world.clock.advance(3600.0)
    world.runner = Runner(world.store, world.companions.neighbours, world.settings)


def test_a_create_waits_for_hosts_that_may_still_report() -> None:
    world = World(hosts=2)
    server = world.create("a")
    a_site_that_was_down(world)
    (move,) = world.unfinished()
    outcome = world.step(move)
    assert outcome.later
    assert outcome.state == "running"
    assert world.status(server).status == "BUILD"
    for name in list(world.silent):
        world.restart_agent(name)
    world.settle()
    assert world.status(server).status == "ACTIVE"
    assert world.problems() == []
    world.close()


def test_hosts_that_stay_silent_are_waited_for_only_so_long() -> None:
    world = World(hosts=2)
    server = world.create("a")
    a_site_that_was_down(world)
    world.clock.advance(world.settings.silent_after_s + 1.0)
    world.settle()
    assert world.status(server).status == "ERROR"
    assert "No valid host was found" in world.server(server)["fault"]["message"]
    assert world.problems() == []
    world.close()


def a_cloud_that_stood_still(world: World) -> str:
    """Its database was away for a minute, or its machine was paused: no beat was written meanwhile. Then
    somebody creates a server, before any agent is heard again."""
    world.silent |= set(world.agents)
    world.clock.advance(60.0)
    return world.create("a")


def test_a_create_waits_where_nobody_was_heard_for_a_while() -> None:
    world = World(hosts=2)
    server = a_cloud_that_stood_still(world)
    (move,) = world.unfinished()
    assert world.step(move).later
    # One comes first, and has no room: the other may be heard any moment.
    world.restart_agent("node1")
    world.hear()
    world.store.write_now(inventories.set_inventory, world.host_id("node1"), {})
    world.pass_time(2.0)
    assert world.step(move).later
    world.restart_agent("node2")
    world.settle()
    assert (world.status(server).status, world.home(server)) == ("ACTIVE", "node2")
    assert world.problems() == []
    world.close()


def test_where_everybody_stays_silent_a_create_fails_in_the_end() -> None:
    world = World(hosts=2)
    server = a_cloud_that_stood_still(world)
    (move,) = world.unfinished()
    assert world.step(move).later
    world.clock.advance(3 * world.settings.silent_after_s)
    world.settle()
    assert world.status(server).status == "ERROR"
    assert "No valid host was found" in world.server(server)["fault"]["message"]
    world.close()


def test_where_others_are_heard_a_silent_host_is_not_waited_for() -> None:
    world = World(hosts=2)
    world.silent.add("node2")
    world.clock.advance(60.0)
    world.store.write_now(inventories.set_inventory, world.host_id("node1"), {})
    world.hear()
    server = world.create("a")
    world.settle()
    assert world.status(server).status == "ERROR"
    world.close()
