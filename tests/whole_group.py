"""What the tests of whole-group moves share: an affinity group of three on node1 of three hosts, and
what an operator says to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from berthold.lab.judge import judge
from berthold.lab.world import World
from berthold.ledger import hosts
from berthold.moves import begin, together
from by_hand import lose


@contextmanager
def sound_world() -> Iterator[World]:
    """Three hosts with room for all; at the end no promise is or ever was broken."""
    world = World({"node1": 8, "node2": 8, "node3": 8})
    yield world
    assert world.problems() == []
    assert judge(world.rows("history")) == []
    world.close()


def three(world: World, stopped: tuple[int, ...] = ()) -> tuple[str, list[str]]:
    """The group and its members; those with a number in `stopped` are shut off."""
    group = world.group("affinity", name="db")
    servers = [world.boot(f"db-{number}", group, host="node1") for number in (1, 2, 3)]
    for number in stopped:
        world.store.write_now(begin.begin, "stop", servers[number], world.by(), {})
        world.settle()
    return group, servers


def move_group(world: World, group: str, host: str) -> str:
    """Ask for the whole group's move to that host; its id."""
    return world.store.write_now(together.begin, group, world.by(), world.host_id(host))


def half_way(world: World, stopped: tuple[int, ...] = ()) -> tuple[str, list[str]]:
    """The first could not go and is held on node1; the others wait on node2."""
    group, servers = three(world, stopped)
    world.faults_of["node2"].plan("refuse", verb="prepare", server=servers[0], times=50)
    move_group(world, group, "node2")
    world.settle()
    assert [world.home(server) for server in servers] == ["node1", "node2", "node2"]
    assert state(world) == ("moving", "node2")
    assert world.problems() == []
    repair(world)
    return group, servers


def repair(world: World) -> None:
    for faults in world.faults_of.values():
        faults.forget()


def forward(world: World, group: str) -> None:
    world.store.write_now(together.forward, group, world.by())


def back(world: World, group: str) -> None:
    world.store.write_now(together.back, group, world.by())


def state(world: World) -> tuple[str, str]:
    """The latest group move's state, and the name of the host that it heads for."""
    whole = max(world.rows("group_move"), key=lambda row: row["created_at"])
    return whole["state"], next(name for name in world.agents if world.host_id(name) == whole["goal_id"])


def moving(world: World, group: str) -> str | None:
    """What the group says that it moves for."""
    (found,) = [row["moving"] for row in world.rows("server_group") if row["id"] == group]
    return None if found is None else str(found)


def homes(world: World, servers: list[str]) -> set[str | None]:
    return {world.home(server) for server in servers}


def force_down(world: World, host: str) -> None:
    """The host is lost, and an operator says so."""
    lose(world, host)
    world.store.write_now(hosts.fence, world.host_id(host))
