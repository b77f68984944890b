"""A whole site was down. What comes back first must not decide that there are no hosts."""

from __future__ import annotations

from berthold.lab.world import World
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
