"""C-b03: accepted moves do not count as under way.

The story (Launchpad nova 1845146): a live migration has been accepted and its destination
claimed, but its record still says "accepted", a state that the host's periodic audit did not
count as a move in progress. The audit set the claim aside, somebody else was given the room, and
the migration arrived on a host that was full.

Right: whoever comes later is refused, whatever the audit does. What makes it so: the claim is the
place; it is written with the move's first step and only given up by the move itself (M1). What an
agent reports about its guests changes no claim.
"""

from __future__ import annotations

from berthold.agent.protocol import Report
from berthold.lab.world import LARGE, World, now
from by_hand import MakeWorld, choosing, ended, holds, shown, used


def audit(world: World, host: str) -> None:
    """The host's agent reports what really runs there; then it restarts and registers anew."""
    agent = world.agents[host]
    assert agent.welcome is not None
    report = Report(agent.welcome.host, agent.welcome.epoch, agent.driver.guests())
    now(world.door.report(report))
    world.restart_agent(host)
    now(world.door.tick())


def test_its_room_is_taken_from_the_first_moment(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=2)
    one = world.boot("one", host="node1", flavor=LARGE)
    move = world.live_migrate(one)
    choosing(world, move).end()
    assert ended(world, move) == "accepted"
    audit(world, "node2")
    assert holds(world, one) == {"node1": "home", "node2": "target"}
    assert used(world, "node2") == 2

    two = world.boot("two", host="node2", flavor=LARGE)
    assert shown(world, two) == ("ERROR", None)
    assert "1 host: capacity" in world.server(two)["fault"]["message"]
    assert world.home(one) == "node2"
    assert ended(world, move) == "completed"
    assert used(world, "node1") == 0


def test_its_seat_is_taken_from_the_first_moment(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4)
    group = world.group("anti-affinity")
    one = world.boot("one", group, host="node1")
    move = world.live_migrate(one)
    choosing(world, move).end()
    assert ended(world, move) == "accepted"
    audit(world, "node2")

    two = world.boot("two", group, host="node2")
    assert shown(world, two) == ("ERROR", None)
    assert "Anti-affinity instance group policy was violated" in world.server(two)["fault"]["message"]
    assert world.home(one) == "node2"
    assert world.home(world.boot("three", group)) == "node1"
