"""C-a01: one request for several servers packs anti-affine members together.

The story (Launchpad nova 1781710): a user asks for two servers of one anti-affinity group in a
single request. The scheduler chose a host for each of them from the same picture, in which the
group was still empty, and both landed on the host it liked best.

Right: one server on each host; if there are more servers than hosts, the rest fail for that
reason. What prevents it: each server is a move of its own and takes a seat (G1) when it claims,
so a choice that was made from an old picture is refused and the next candidate is offered.
"""

from __future__ import annotations

import itertools

import pytest

from berthold.lab.world import PROJECT, SMALL, USER, World
from berthold.moves import begin
from by_hand import MakeWorld, choosing, events, outcome, preferred, shown, under_way


def create_together(world: World, group: str, *names: str) -> tuple[list[str], list[str]]:
    """One request for several servers; their ids and their creates."""
    wishes = [begin.NewServer(PROJECT, USER, name, SMALL, group_id=group) for name in names]
    servers = world.store.write_now(begin.create_servers, world.by(), wishes)
    return servers, [under_way(world, server) for server in servers]


@pytest.mark.parametrize("first", [0, 1])
def test_both_choose_the_same_host_and_one_of_them_gets_the_other(make_world: MakeWorld, first: int) -> None:
    world = make_world(node1=64, node2=4)
    group = world.group("anti-affinity")
    servers, creates = create_together(world, group, "one", "two")
    assert [preferred(world, create)[0] for create in creates] == ["node1", "node1"]

    turns = [choosing(world, create) for create in creates]
    turns[first].end()
    turns[1 - first].end()
    assert world.problems() == []
    world.settle()

    assert world.home(servers[first]) == "node1"
    assert world.home(servers[1 - first]) == "node2"
    assert [shown(world, server) for server in servers] == [("ACTIVE", None)] * 2
    for create in creates:
        assert events(world, create) == [
            ("conductor_build_instances", "Success"),
            ("compute__do_build_and_run_instance", "Success"),
        ]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_third_of_three_on_two_hosts_fails_and_says_why(
    make_world: MakeWorld, order: tuple[int, ...]
) -> None:
    world = make_world(node1=64, node2=4)
    group = world.group("anti-affinity")
    servers, creates = create_together(world, group, "one", "two", "three")
    turns = [choosing(world, create) for create in creates]
    for number in order:
        turns[number].end()
        assert world.problems() == []
    world.settle()

    loser = servers[order[2]]
    assert sorted(str(world.home(server)) for server in servers) == ["None", "node1", "node2"]
    assert shown(world, loser) == ("ERROR", None)
    assert world.claims(loser) == []
    fault = world.server(loser)["fault"]["message"]
    assert fault.startswith("No valid host was found.")
    assert "Anti-affinity instance group policy was violated" in fault
    assert "node" not in fault, "an owner is not told the names of hosts"
    assert outcome(world, creates[order[2]]) == "Error"
