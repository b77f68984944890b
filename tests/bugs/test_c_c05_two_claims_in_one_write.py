"""C-c05: two parts of one write are checked separately.

The story (Launchpad nova 1778743, placement): a client may write the allocations of two consumers
in one atomic request. Each was compared with what was free before the request, so that together
they took more than there was.

Right: refused as a whole and nothing stored; what fits together is granted together. What makes
it so: a claim adds to the counter before the next one is judged, all in one transaction, and the
counter cannot pass the capacity (C1).
"""

from __future__ import annotations

import pytest

from berthold.errors import Refused
from berthold.lab.world import SMALL, World
from berthold.ledger import claims
from by_hand import MakeWorld, under_way, used

MANY = 9


def wants(world: World, servers: list[str], vcpus: int, host: str = "node1") -> list[claims.Want]:
    return [
        claims.Want(server, world.host_id(host), {"VCPU": vcpus, "MEMORY_MB": 512}, under_way(world, server))
        for server in servers
    ]


def end(world: World, servers: list[str]) -> None:
    for server in servers:
        world.delete(server)
    world.settle()
    assert used(world, "node1") == 0


@pytest.mark.parametrize("order", [1, -1])
def test_three_and_three_of_four_are_refused_as_a_whole(make_world: MakeWorld, order: int) -> None:
    world = make_world(node1=4, node2=4)
    servers = [world.create("one"), world.create("two")]
    before = world.picture()
    history = world.rows("history")
    with pytest.raises(Refused) as refusal:
        world.store.write_now(claims.take, wants(world, servers, 3)[::order])
    assert refusal.value.rule == "C1"
    assert world.picture() == before
    assert world.rows("history") == history
    end(world, servers)


def test_two_and_two_of_four_are_granted(make_world: MakeWorld) -> None:
    world = make_world(node1=4)
    servers = [world.create("one"), world.create("two")]
    taken = world.store.write_now(claims.take, wants(world, servers, 2))
    assert len(set(taken)) == 2
    assert used(world, "node1") == 4
    assert world.problems() == []
    end(world, servers)


def test_the_second_part_may_break_any_rule_and_takes_the_first_with_it(make_world: MakeWorld) -> None:
    """Not only capacity: two members of an anti-affinity group for one host in one write."""
    world = make_world(node1=4, node2=4)
    group = world.group("anti-affinity")
    servers = [world.create("one", group), world.create("two", group)]
    before = world.picture()
    with pytest.raises(Refused) as refusal:
        world.store.write_now(claims.take, wants(world, servers, 1))
    assert refusal.value.rule == "G1"
    assert world.picture() == before

    apart = wants(world, servers[:1], 1) + wants(world, servers[1:], 1, "node2")
    world.store.write_now(claims.take, apart)
    assert world.problems() == []
    end(world, servers)


def test_of_many_in_one_write_the_last_unit_decides(make_world: MakeWorld) -> None:
    world = make_world(node1=MANY - 1)
    servers = [world.create(f"server{number}", flavor=SMALL) for number in range(MANY)]
    before = world.picture()
    with pytest.raises(Refused):
        world.store.write_now(claims.take, wants(world, servers, 1))
    assert world.picture() == before
    world.store.write_now(claims.take, wants(world, servers[:-1], 1))
    assert used(world, "node1") == MANY - 1
    assert world.problems() == []
    end(world, servers)
