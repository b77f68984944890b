"""C-a02: two live migrations meet on the only free host.

The story (Launchpad nova 1821755): three hosts, two members of an anti-affinity group on the
first two. Both are live-migrated at once. Each request asks the scheduler, each is shown the
third host as free, and both servers end up on it, against their group's policy. The repair of
2021 checks once more on the destination, under a lock of that host's process, which leaves other
gaps, and can leave both requests refused because each saw the other.

Right: at no instant do two members share a host, moves in flight included. Exactly one move wins
(M7). The other server is where it was, ACTIVE, and its migration says why it failed.

What prevents it: the claim of the destination *is* the check. A member's claim references a seat
of which the group has one per host, and a unique constraint gives it to one of them (G1).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from by_hand import MakeWorld, choosing, ended, events, holds, outcome, preferred, shown, told, why


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("die", [False, True])
def test_both_have_chosen_before_either_writes(make_world: MakeWorld, first: int, die: bool) -> None:
    world = make_world(node1=4, node2=4)
    group = world.group("anti-affinity")
    servers = [world.boot("one", group, host="node1"), world.boot("two", group, host="node2")]
    world.add_host("node3")
    moves = [world.live_migrate(server) for server in servers]
    assert [preferred(world, move) for move in moves] == [["node3"], ["node3"]]

    turns = [choosing(world, move) for move in moves]
    turns[first].end()
    assert holds(world, servers[first]) == {f"node{first + 1}": "home", "node3": "target"}
    if die:
        turns[1 - first].drop()
        world.kill_conductor()
    else:
        turns[1 - first].end()
    assert world.problems() == []
    while world.unfinished():
        for move in world.unfinished():
            world.step(move)
            assert world.problems() == []
        for name in world.agents:
            world.obey(name)
            assert world.problems() == []

    winner, loser = servers[first], servers[1 - first]
    won, lost = moves[first], moves[1 - first]
    assert holds(world, winner) == {"node3": "home"}
    assert ended(world, won) == "completed"
    assert outcome(world, won) is None
    assert holds(world, loser) == {f"node{2 - first}": "home"}
    assert shown(world, loser) == ("ACTIVE", None)
    assert ended(world, lost) == "error"
    assert events(world, lost) == [("conductor_live_migrate_instance", "Error")]
    assert outcome(world, lost) == "Error"
    assert told(world, lost) == [why(world, lost)]
    assert why(world, lost).startswith("No valid host was found.")
    assert "Anti-affinity instance group policy was violated" in why(world, lost)


def test_the_loser_may_go_where_the_winner_came_from(make_world: MakeWorld) -> None:
    """The source is free the moment the move is over: nobody has to wait for a slow view."""
    world = make_world(node1=4, node2=4)
    group = world.group("anti-affinity")
    one, two = world.boot("one", group, host="node1"), world.boot("two", group, host="node2")
    world.add_host("node3")
    world.live_migrate(one)
    world.settle()
    assert world.home(one) == "node3"

    again = world.live_migrate(two)
    assert preferred(world, again) == ["node1"]
    world.settle()
    assert world.home(two) == "node1"
    assert ended(world, again) == "completed"


@pytest.mark.parametrize("kinds", [("live", "cold"), ("cold", "live"), ("cold", "resize")])
def test_it_is_the_same_for_every_pair_of_kinds(make_world: MakeWorld, kinds: tuple[str, str]) -> None:
    world = make_world(node1=4, node2=4)
    group = world.group("anti-affinity")
    servers = [world.boot("one", group, host="node1"), world.boot("two", group, host="node2")]
    world.add_host("node3")
    begin: dict[str, Callable[[str], str]] = {
        "live": world.live_migrate,
        "cold": world.migrate,
        "resize": world.resize,
    }
    moves = [begin[kind](server) for kind, server in zip(kinds, servers, strict=True)]

    turns = [choosing(world, move) for move in moves]
    for turn in turns:
        turn.end()
        assert world.problems() == []
    world.settle()

    assert [world.home(server) for server in servers] == ["node3", "node2"]
    assert ended(world, moves[0]) == ("completed" if kinds[0] == "live" else "finished")
    assert ended(world, moves[1]) == "error"
    assert shown(world, servers[1]) == ("ACTIVE", None)
