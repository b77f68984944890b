"""More races as data: a group is deleted under every kind of move (G4)."""

from __future__ import annotations

from collections.abc import Callable

from berthold.lab.furniture import add_volume
from berthold.lab.outages import evacuating, shelve
from berthold.lab.racers import Racer, asking, continuing, creating, deleting_group, moving
from berthold.lab.scenarios import Racers, Results, Scenario, nobody_in_error
from berthold.lab.world import LARGE, World
from berthold.moves import shelf


def parked(world: World, server: str) -> str:
    """The server waits for its owner's word on a resize."""
    world.resize(server)
    world.settle()
    return server


# What may be under way with a member when its group goes.
UNDER_WAY: dict[str, Callable[[World, str, str], Racer]] = {
    "create": lambda world, group, server: creating("web-3", group),
    "live migration": lambda world, group, server: moving("live-migration", server),
    "migration": lambda world, group, server: moving("migration", server),
    "resize": lambda world, group, server: moving("resize", server, flavor=dict(LARGE)),
    "confirm": lambda world, group, server: continuing("confirm", parked(world, server)),
    "revert": lambda world, group, server: continuing("revert", parked(world, server)),
    "evacuation": lambda world, group, server: evacuating(world, server),
    "shelve": lambda world, group, server: asking(shelf.shelve, server),
    "unshelve": lambda world, group, server: asking(shelf.unshelve, shelve(world, server)),
    "rebuild": lambda world, group, server: moving("rebuild", server, image_id="other"),
    "delete": lambda world, group, server: moving("delete", server),
}


def boot(world: World, group: str, names: list[str]) -> list[str]:
    """Members that boot from volumes: the lab takes orders back, and cannot take back that an image was
    made."""
    volumes = [[{"volume_id": add_volume(world), "boot_index": 0}] for _ in names]
    return [world.boot(name, group, volumes=each) for name, each in zip(names, volumes, strict=True)]


def group_goes(policy: str, members: int, *under_way: str) -> Callable[[World], Racers]:
    """Its owner deletes the group while as many of its members move as there are moves here."""

    def stage(world: World) -> Racers:
        group = world.group(policy)
        servers = boot(world, group, [f"web-{number}" for number in range(1, members + 1)])
        movers = {
            move: UNDER_WAY[move](world, group, server)
            for move, server in zip(under_way, servers, strict=False)
        }
        return {"owner": deleting_group(group), **movers}

    return stage


DONE = ("done",)
ENDS = {
    "owner": ("deleted",),
    "create": ("done", "NotFound"),  # a server cannot be made in a group that went
    "migration": ("waiting",),
    "resize": ("waiting",),
}


def ungrouped(world: World, results: Results) -> list[str]:
    """The moves ended as if there had never been a group, and nothing speaks of one any more."""
    wrong = [f"{name}: {result}" for name, result in results.items() if result not in ENDS.get(name, DONE)]
    for table in ("server_group", "seat", "group_place"):
        wrong += [f"{table} holds {row}" for row in world.rows(table)]
    wrong += [f"claim follows {row['rule']}" for row in world.rows("claim") if row["rule"] != "none"]
    return wrong + nobody_in_error(world)


MEMBERS = {"affinity": 1, "anti-affinity": 2}
GROUP_GOES = tuple(
    Scenario(f"the {policy} group goes, {move}", 3, group_goes(policy, members, move), ungrouped, False)
    for policy, members in MEMBERS.items()
    for move in UNDER_WAY
)
# For real connections: many at once.
CLAIMING = ("create", "live migration", "resize", "evacuation", "unshelve")
GIVING_UP = ("confirm", "revert", "shelve", "rebuild", "delete")
GROUP_GOES_UNDER_MANY = tuple(
    Scenario(name, 8, group_goes(policy, members, *moves), ungrouped, held="owner", plain=plain)
    for name, policy, members, moves, plain in (
        ("the group goes as five claim", "anti-affinity", 5, CLAIMING, True),
        ("the group goes as five give up", "anti-affinity", 5, GIVING_UP, False),
        *((f"the affinity group goes, {move}", "affinity", 1, (move,), False) for move in CLAIMING[:2]),
    )
)
