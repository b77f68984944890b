"""The host that a whole group moves to: proposed for all its members together, granted to all or to none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from berthold.errors import Malformed, NoValidHost, Refused
from berthold.lab.world import World, now
from berthold.ledger import hosts
from berthold.moves import group_placing, together
from whole_group import homes, moving, sound_world, state, three


@pytest.fixture
def world() -> Iterator[World]:
    with sound_world() as world:
        yield world


def move(world: World, group: str, host: str | None = None) -> str:
    """What the API does with the request."""
    return now(
        group_placing.move_group(world.store, world.runner.watch, world.settings, group, world.by(), host)
    )


def test_the_best_host_with_room_for_all_is_taken(world: World) -> None:
    group, servers = three(world)
    for number in range(6):
        world.boot(f"other-{number}", host="node2")
    move(world, group)
    world.settle()
    assert homes(world, servers) == {"node3"}


def test_of_candidates_that_are_lost_the_next_is_taken(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    group, servers = three(world)
    begin = together.begin
    lost: list[object] = []

    def quicker(*args: object) -> str:
        if not lost:
            lost.append(args[3])
            raise Refused("C1", "somebody was quicker")
        return begin(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(together, "begin", quicker)
    move(world, group)
    world.settle()
    (home,) = homes(world, servers)
    assert home is not None
    assert world.host_id(home) not in lost


def test_no_host_says_why_for_each_and_leaves_no_trace(world: World) -> None:
    group, _ = three(world)
    for number in range(6):
        world.boot(f"other-{number}", host="node2")
    world.store.write_now(hosts.set_disabled, world.host_id("node3"), True)
    before = world.picture()
    with pytest.raises(NoValidHost, match="No valid host was found") as nowhere:
        move(world, group)
    assert nowhere.value.reasons == {
        "node1": "source host: the server is to leave this host",
        "node2": "capacity: not enough VCPU for all: wanted 3, free 2 of 8",
        "node3": "host state: the host was disabled by an operator",
    }
    assert world.picture() == before
    assert moving(world, group) is None


def test_a_named_host_is_the_only_one_that_will_do(world: World) -> None:
    group, servers = three(world)
    for name in ("node1", "node9"):
        with pytest.raises(Malformed):
            move(world, group, name)
    world.store.write_now(hosts.set_disabled, world.host_id("node3"), True)
    with pytest.raises(NoValidHost):
        move(world, group, "node3")
    move(world, group, "node2")
    world.settle()
    assert homes(world, servers) == {"node2"}


def test_who_wants_to_be_where_another_member_is_goes_with_it(world: World) -> None:
    group = world.group("affinity")
    one = world.boot("one", group, host="node1")
    two = world.boot("two", group, hints={"same_host": [one]})
    apart = world.boot("apart", host="node2")
    three = world.boot("three", group, hints={"different_host": [apart]})
    move(world, group)
    world.settle()
    assert homes(world, [one, two, three]) == {"node3"}
    assert state(world) == ("done", "node3")
