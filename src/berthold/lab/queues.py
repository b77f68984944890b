"""Races of those who may wait for a place (M7): in order, never in a circle, and nobody for ever.

What a step comes to is told apart by `places`: a mover was placed, waits in the queue, or was told no.
"""

from __future__ import annotations

from collections.abc import Callable

from berthold.lab.racers import Racer, beginning, creating, deleting_group, stepping
from berthold.lab.scenarios import (
    Racers,
    Results,
    Scenario,
    at_line,
    capacity,
    members,
    nobody_in_error,
    placed_by,
)
from berthold.lab.whole_groups import against, ends_in, giving_up, on_the_way, saying, settled
from berthold.lab.world import LARGE, PROJECT, USER, World
from berthold.moves import begin, group_waiting, together

PATIENCE_S = 60.0
PLACED, WAITS, TOLD_NO = "placed", "waits", "told no"


def places(world: World) -> dict[str, str]:
    """What came of each move that looked for a place, by its server's name."""
    names = {row["id"]: row["name"] for row in world.rows("server")}
    waiting = {row["move_id"] for row in world.rows("queue")}
    found = {}
    for move in world.moves():
        if move["state"] == "undoing":
            found[names[move["server_id"]]] = TOLD_NO
        elif move["state"] == "running" and move["target_id"]:
            found[names[move["server_id"]]] = PLACED
        elif move["id"] in waiting:
            found[names[move["server_id"]]] = WAITS
    return found


def in_the_end(world: World) -> list[str]:
    """Once everything has had its time nobody waits any more: each was given a place or an answer."""
    world.settle(stride_s=PATIENCE_S / 6)
    wrong = [f"{row['move_id']} still waits for {row['host_id']}" for row in world.rows("queue")]
    return wrong + world.problems()


def comes_to(*ends: str) -> Callable[[World, Results], list[str]]:
    """The movers came to these ends, whoever to which; nobody ends in ERROR."""

    def expect(world: World, results: Results) -> list[str]:
        found = places(world)
        wrong = [] if sorted(found.values()) == sorted(ends) else [f"{found}, {dict(results)}"]
        return wrong + nobody_in_error(world) + in_the_end(world)

    return expect


def patient_members(count: int) -> Callable[[World], Racers]:
    """Members of one group that all want to leave their hosts, and may wait for another."""

    def stage(world: World) -> Racers:
        _, servers = members(world, count)
        world.patience = PATIENCE_S
        return placed_by(world, *(world.live_migrate(server) for server in servers))

    return stage


def patient_creates(world: World) -> Racers:
    """Three that want the room that is there for one, and that one may yet give back."""
    world.patience = PATIENCE_S
    return capacity(world)


def one_place_comes_free(late_s: float) -> Callable[[World], Racers]:
    """A member leaves its host, for which another waits; a third comes later, and may wait or not."""

    def stage(world: World) -> Racers:
        _, (leaver, first, late) = members(world, 3)
        leaving = at_line(world, world.live_migrate(leaver), "release source")
        begun = []
        for server, world.patience in ((first, PATIENCE_S), (late, late_s)):
            begun.append(world.live_migrate(server))
        world.step(begun[0])
        return {"leaver": stepping(leaving), **placed_by(world, *begun)}

    return stage


def lone_member(world: World) -> Racers:
    """The only member of an affinity group leaves while another joins, which may wait."""
    group, (only,) = members(world, 1, "affinity")
    leaving = placed_by(world, world.live_migrate(only))
    return {**leaving, "second member": creating("web-2", group, patience=PATIENCE_S)}


def joining(group: str, servers: list[str]) -> Racer:
    """A new member that may wait until the group has arrived."""
    return creating("web-3", group, patience=PATIENCE_S)


# -- A whole group waits ------------------------------------------------------------------


def leading(world: World, group: str) -> str:
    """The group waits for a host; the move of the member that does so for all."""
    by = begin.By(USER, PROJECT, f"req-{group}", wait_s=PATIENCE_S)
    whole = world.store.write_now(group_waiting.ask, group, by, None)
    (lead,) = [row["id"] for row in world.moves() if row["group_move_id"] == whole]
    return str(lead)


def group_and_late(world: World) -> Racers:
    """Room comes free for which a whole group waits; somebody who came later wants it too, and may wait."""
    large = {**LARGE, "ram": 512}
    old = world.boot("old", flavor={**large, "vcpus": 4})
    group, _ = members(world, 2, "affinity")
    leaving = at_line(world, world.delete(old), "bury")
    lead = leading(world, group)
    world.step(lead)
    world.patience = PATIENCE_S
    late = world.create("late", flavor={**large, "vcpus": 3})
    (begun,) = [row["id"] for row in world.moves() if row["server_id"] == late]
    world.lease(leaving)
    return {"leaver": stepping(leaving), **placed_by(world, lead, begun)}


def the_group_first(world: World, results: Results) -> list[str]:
    found = places(world)
    wrong = [f"{found}, {dict(results)}"] if found.get("late") != WAITS else []
    return wrong + in_the_end(world) + settled(world, results)


def looking_for_all(other: Callable[[str, list[str]], Racer]) -> Callable[[World], Racers]:
    """There is a host for a group that waits, and as its places are claimed something else is asked for."""

    def stage(world: World) -> Racers:
        group, servers = members(world, 2, "affinity")
        lead = leading(world, group)
        leader = world.move(lead)["server_id"]
        (follower,) = set(servers) - {leader}
        return {**placed_by(world, lead), "other": other(group, [leader, follower])}

    return stage


def two_groups(world: World) -> Racers:
    """Two groups of one, each of which fills its host and wants the other's."""
    leads = []
    for _ in range(2):
        group = world.group("affinity")
        world.boot(f"web-{group}", group, flavor={**LARGE, "vcpus": 4, "ram": 512})
        leads.append(group)
    return placed_by(world, *(leading(world, group) for group in leads))


def joined(*allowed: tuple[str, str]) -> Callable[[World, Results], list[str]]:
    """(group move, new member) as they may end; then the member lives where the group does."""

    def expect(world: World, results: Results) -> list[str]:
        wrong = ends_in(*allowed)(world, results) + in_the_end(world)
        rows = [row for row in world.rows("server") if row["condition"] != "active"]
        return wrong + [f"{row['name']} is {row['condition']}" for row in rows]

    return expect


def live_together(world: World, results: Results) -> list[str]:
    """Wherever that is: both are there in the end, and well."""
    wrong = in_the_end(world) + nobody_in_error(world)
    homes = {world.home(row["id"]) for row in world.rows("server")}
    return wrong + [f"they live on {sorted(map(str, homes))}, {dict(results)}"] * (len(homes) != 1)


def in_order(late: str) -> Callable[[World, Results], list[str]]:
    """Nobody but the first may have taken the place."""

    def expect(world: World, results: Results) -> list[str]:
        found = places(world)
        right = [{"web-2": first, "web-3": late} for first in (PLACED, WAITS)]
        wrong = [] if found in right else [f"{found}, {dict(results)}"]
        return wrong + nobody_in_error(world) + in_the_end(world)

    return expect


QUEUES = (
    Scenario("two patient movers, one free host", 3, patient_members(2), comes_to(PLACED, WAITS), alike=True),
    Scenario(
        "three patient movers, two free hosts",
        5,
        patient_members(3),
        comes_to(PLACED, PLACED, WAITS),
        False,
        alike=True,
    ),
    Scenario("two that want each other's place", 2, patient_members(2), comes_to(WAITS, TOLD_NO), alike=True),
    Scenario(
        "three that want each other's places",
        3,
        patient_members(3),
        comes_to(WAITS, WAITS, TOLD_NO),
        False,
        alike=True,
    ),
    Scenario(
        "three patient creates, one host's room",
        1,
        patient_creates,
        comes_to(PLACED, WAITS, WAITS),
        False,
        alike=True,
    ),
    Scenario(
        "a place comes free, the next one waits", 4, one_place_comes_free(PATIENCE_S), in_order(WAITS), False
    ),
    Scenario(
        "a lone affinity member leaves while one joins that may wait", 2, lone_member, live_together, False
    ),
    Scenario(
        "a place comes free, the next one does not", 4, one_place_comes_free(0), in_order(TOLD_NO), False
    ),
    Scenario(
        "a whole group moves while one joins that may wait",
        2,
        against(joining),
        joined(("accepted", "running"), ("WrongState", "done"), ("accepted", "done")),
        False,
    ),
    Scenario(
        "the last member arrives while one joins that may wait",
        2,
        on_the_way(joining),
        joined(("settling", "running"), ("settling", "done")),
        False,
    ),
    Scenario(
        "a member gives up its old host while one joins that may wait",
        2,
        giving_up(joining),
        joined(("done", "running"), ("done", "done")),
        False,
    ),
    Scenario(
        "room comes free for a whole group, the next one waits", 2, group_and_late, the_group_first, False
    ),
    Scenario(
        "two groups that want each other's host", 2, two_groups, comes_to(WAITS, TOLD_NO), False, alike=True
    ),
    Scenario(
        "a host for a whole group while a member reboots",
        2,
        looking_for_all(lambda group, servers: beginning("reboot", servers[1])),
        settled,
        False,
    ),
    Scenario(
        "a host for a whole group while it is taken back",
        2,
        looking_for_all(lambda group, servers: saying(together.back, group)),
        settled,
        False,
    ),
    Scenario(
        "a host for a whole group while the member is deleted that waits for all",
        2,
        looking_for_all(lambda group, servers: beginning("delete", servers[0])),
        settled,
        False,
    ),
    Scenario(
        "a host for a whole group while the group is deleted",
        2,
        looking_for_all(lambda group, servers: deleting_group(group)),
        settled,
        False,
    ),
)
