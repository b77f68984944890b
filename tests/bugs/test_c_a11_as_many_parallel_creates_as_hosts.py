"""C-a11: as many parallel creates as hosts, all in one anti-affinity group.

The story (terraform-provider-openstack issue 1165): a plan creates three members of an
anti-affinity group in parallel on three hosts. Each request is sent to the same best host; the
losers are refused there, and with few or no retries left some servers end in ERROR although a
host stands empty.

Right: all three are ACTIVE on three hosts. What makes it so: a lost race costs the loser one
candidate, not one try out of a small budget; of racers one always wins, and the others are
offered their next candidate (M7).
"""

from __future__ import annotations

import itertools

import pytest

from by_hand import MakeWorld, choosing, events, preferred, shown, under_way


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_all_three_want_the_same_host(make_world: MakeWorld, order: tuple[int, ...]) -> None:
    world = make_world(node1=64, node2=16, node3=4)
    group = world.group("anti-affinity")
    servers = [world.create(name, group) for name in ("one", "two", "three")]
    creates = [under_way(world, server) for server in servers]
    assert [preferred(world, create)[0] for create in creates] == ["node1"] * 3

    turns = [choosing(world, create) for create in creates]
    for number in order:
        turns[number].end()
        assert world.problems() == []
    world.settle()

    assert [world.home(servers[number]) for number in order] == ["node1", "node2", "node3"]
    assert [shown(world, server) for server in servers] == [("ACTIVE", None)] * 3
    for create in creates:
        assert [result for _, result in events(world, create)] == ["Success", "Success"]


@pytest.mark.parametrize("seed", range(5))
def test_ten_members_on_ten_equal_hosts(make_world: MakeWorld, seed: int) -> None:
    """More racers than any retry budget: every one has chosen before the first one writes."""
    world = make_world(seed=seed, **{f"node{number}": 4 for number in range(1, 11)})
    group = world.group("anti-affinity")
    servers = [world.create(f"member{number}", group) for number in range(10)]
    turns = [choosing(world, under_way(world, server)) for server in servers]
    for turn in turns:
        turn.end()
        assert world.problems() == []
    world.settle()
    assert len({world.home(server) for server in servers}) == 10
    assert {shown(world, server) for server in servers} == {("ACTIVE", None)}
