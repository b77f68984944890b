"""G2: an affinity group whose host has died is evacuated member by member, and stays together.

While the members go one by one, the group moves: nobody joins, and whoever follows goes where the
first went. A claim that was left behind keeps capacity and gives up its place.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from berthold.errors import Refused
from berthold.lab.judge import judge
from berthold.lab.world import World
from berthold.ledger import hosts
from by_hand import choosing, ended, evacuate, holds, host_status, lose, why


@pytest.fixture
def world() -> Iterator[World]:
    world = World(hosts=0)
    world.add_host("node1", vcpus=8)
    yield world
    assert world.problems() == []
    assert judge(world.rows("history")) == []
    world.close()


def together(world: World, *sizes: int) -> tuple[str, list[str]]:
    """A group of three on node1, which has died, and further hosts of these sizes."""
    group = world.group("affinity")
    servers = [world.boot(f"db-{number}", group) for number in range(3)]
    for number, vcpus in enumerate(sizes):
        world.add_host(f"node{number + 2}", vcpus=vcpus)
    lose(world, "node1")
    return group, servers


def moving(world: World, group: str) -> str | None:
    (found,) = [row["moving"] for row in world.rows("server_group") if row["id"] == group]
    return None if found is None else str(found)


def test_all_are_evacuated_at_once_to_one_host(world: World) -> None:
    group, servers = together(world, 4, 4, 4)
    late = [choosing(world, evacuate(world, server)) for server in servers]
    for each in reversed(late):
        each.end()
        assert world.problems() == []
    world.settle()
    (home,) = {world.home(server) for server in servers}
    assert home != "node1"
    assert moving(world, group) is None
    more = world.boot("db-3", group)
    assert world.home(more) == home
    world.restart_agent("node1")
    world.settle()
    assert {tuple(holds(world, server).items()) for server in servers} == {((home, "home"),)}


def test_a_member_follows_later_and_meanwhile_nobody_joins(world: World) -> None:
    group, (one, two, three) = together(world, 4, 8)
    evacuate(world, one)
    world.settle()
    (home,) = {world.home(one)} - {"node1"}
    assert world.problems() == []
    with pytest.raises(Refused, match="moving"):
        world.create("db-3", group)
    for server in (two, three):
        assert moving(world, group) is not None
        evacuate(world, server)
        world.settle()
        assert world.home(server) == home
    assert moving(world, group) is None


def test_where_the_first_went_there_is_no_room_for_the_next(world: World) -> None:
    group, (one, two, _) = together(world, 1, 4)
    evacuate(world, one, "node2")
    world.settle()
    move = evacuate(world, two)
    world.settle()
    assert (ended(world, move), world.home(two)) == ("error", "node1")
    assert "No valid host" in why(world, move)
    assert moving(world, group) is not None


def test_the_first_fails_and_the_group_is_at_rest_again(world: World) -> None:
    group, (one, *_) = together(world, 4)
    world.faults_of["node2"].plan("refuse", verb="spawn")
    before = world.picture()
    move = evacuate(world, one)
    world.settle()
    assert ended(world, move) == "error"
    assert world.picture() == before
    assert moving(world, group) is None


def test_the_host_returns_with_members_that_were_not_evacuated_and_they_follow(world: World) -> None:
    group, (one, two, three) = together(world, 4, 8)
    evacuate(world, one, "node2")
    world.settle()
    world.restart_agent("node1")
    world.settle()
    assert host_status(world, "node1") == "up"
    assert (holds(world, one), holds(world, two)) == ({"node2": "home"}, {"node1": "home"})
    refused = world.migrate(two, "node3")
    world.settle()
    assert (ended(world, refused), world.home(two)) == ("error", "node1")
    for server in (two, three):
        world.migrate(server)
        world.settle()
        world.confirm(server)
        world.settle()
        assert world.home(server) == "node2"
    assert moving(world, group) is None


def test_the_members_that_stayed_are_deleted_and_the_rest_is_the_group(world: World) -> None:
    group, (one, two, three) = together(world, 4)
    evacuate(world, one)
    world.settle()
    for server in (two, three):
        world.delete(server)
        world.settle()
    assert moving(world, group) is None
    assert world.home(world.boot("db-3", group)) == "node2"
    world.restart_agent("node1")
    world.settle()
    world.store.write_now(hosts.remove, world.host_id("node1"))
    del world.agents["node1"]
