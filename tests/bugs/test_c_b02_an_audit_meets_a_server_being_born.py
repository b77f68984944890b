"""C-b02: an audit removes the claim of a server that is being born.

The story (Launchpad nova 1729371): a create has claimed its host, and the server's record does not
say so yet. The host's periodic audit finds a claim of a server that is not there and removes it.
The next create is given the same room, and the host is overfilled.

Right: the claim is still there, and whoever comes later is refused. What makes it so: the server's
record comes first and its claim refers to it, so there is no claim of nobody; and what an agent
reports removes no claim, ever (M1).
"""

from __future__ import annotations

import pytest

from berthold.agent.protocol import Report
from berthold.lab.world import LARGE, World, now
from by_hand import Halfway, MakeWorld, choosing, guest, holds, shown, under_way, used


def audit(world: World, host: str) -> None:
    """The host's agent says what really runs there, and then registers anew."""
    agent = world.agents[host]
    assert agent.welcome is not None
    now(world.door.report(Report(agent.welcome.host, agent.welcome.epoch, agent.driver.guests())))
    world.restart_agent(host)
    now(world.door.tick())


@pytest.mark.parametrize("claimed", [False, True])
def test_the_host_is_audited_beside_the_claim(make_world: MakeWorld, claimed: bool) -> None:
    world = make_world(node1=2)
    one = world.create("one", world.group("anti-affinity"), flavor=LARGE)
    create = choosing(world, under_way(world, one))
    if claimed:
        create.end()
        audit(world, "node1")
    else:
        audit(world, "node1")
        create.end()  # the host is at another epoch by now, so it is looked at and chosen again
    assert guest(world, "node1", one) is None
    assert holds(world, one) == {"node1": "target"}
    assert used(world, "node1") == 2

    two = world.create("two", flavor=LARGE)
    world.step(under_way(world, two))
    world.settle()
    assert shown(world, two) == ("ERROR", None)
    assert "capacity" in world.server(two)["fault"]["message"]
    assert shown(world, one) == ("ACTIVE", None)
    assert holds(world, one) == {"node1": "home"}


def test_it_is_audited_at_every_line(make_world: MakeWorld) -> None:
    world = make_world(node1=2)
    one = world.create("one", flavor=LARGE)
    create = under_way(world, one)
    Halfway(world, create).end()
    while world.unfinished():
        audit(world, "node1")
        assert used(world, "node1") == 2
        assert world.problems() == []
        world.step(create)
        world.obey("node1")
    assert holds(world, one) == {"node1": "home"}
