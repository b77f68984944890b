"""C-a04: an explicit target host sidesteps the rule.

The story (a blog post of 2016 about Nova's anti-affinity; apache/cloudstack 5378): an operator
names the host that a member is to move to. Named hosts skip the scheduler, so the member lands
beside another one; or the name is taken for advice, and the server goes somewhere else.

Right: refused, with the server where it was and never sent elsewhere; a lawful host that is
named is taken (M8). What prevents it: the scheduler treats a named host as one more filter, and
the ledger grants a seat or does not, whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from by_hand import (
    MakeWorld,
    choosing,
    come_back,
    ended,
    evacuate,
    guest,
    holds,
    lose,
    outcome,
    shown,
    under_way,
    why,
)


@pytest.mark.parametrize("kind", ["live_migrate", "migrate"])
def test_an_unlawful_host_is_refused_and_a_lawful_one_taken(make_world: MakeWorld, kind: str) -> None:
    world = make_world(node1=4, node2=4, node3=64)
    group = world.group("anti-affinity")
    one, _ = world.boot("one", group, host="node1"), world.boot("two", group, host="node2")
    begin: Callable[..., str] = getattr(world, kind)

    unlawful = begin(one, host="node2")
    world.settle()
    assert ended(world, unlawful) == "error"
    assert outcome(world, unlawful) == "Error"
    assert "Anti-affinity instance group policy was violated" in why(world, unlawful)
    assert shown(world, one) == ("ACTIVE", None)
    assert holds(world, one) == {"node1": "home"}
    assert guest(world, "node3", one) is None

    begin(one, host="node3")
    world.settle()
    assert world.home(one) == "node3"


@pytest.mark.parametrize("kind", ["live_migrate", "migrate"])
def test_a_named_host_that_was_lawful_when_it_was_chosen(make_world: MakeWorld, kind: str) -> None:
    world = make_world(node1=4, node2=4, node3=64)
    group = world.group("anti-affinity")
    one = world.boot("one", group, host="node1")
    move = getattr(world, kind)(one, host="node2")
    turn = choosing(world, move)
    two = world.create("two", group, host="node2")
    choosing(world, under_way(world, two)).end()
    turn.end()
    world.settle()
    assert (world.home(one), world.home(two)) == ("node1", "node2")
    assert ended(world, move) == "error"
    assert shown(world, one) == ("ACTIVE", None)


def test_an_evacuation_to_a_named_host_obeys_it_too(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4, node3=64)
    group = world.group("anti-affinity")
    one, _ = world.boot("one", group, host="node1"), world.boot("two", group, host="node2")
    lose(world, "node1")
    unlawful = evacuate(world, one, "node2")
    world.settle()
    assert ended(world, unlawful) == "error"
    assert "Anti-affinity instance group policy was violated" in why(world, unlawful)
    assert (shown(world, one), holds(world, one)) == (("ACTIVE", None), {"node1": "home"})
    evacuate(world, one, "node3")
    world.settle()
    assert world.home(one) == "node3"
    come_back(world, "node1")
    assert holds(world, one) == {"node3": "home"}
