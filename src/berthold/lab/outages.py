"""More races as data: hosts that die and return, and servers that come off the shelf."""

from __future__ import annotations

from collections.abc import Callable

from berthold.lab.racers import Racer, asking, returning
from berthold.lab.scenarios import Racers, Results, Scenario, members, nobody_in_error, placed_by, wins
from berthold.lab.world import World
from berthold.ledger import hosts
from berthold.moves import left, shelf


def lose(world: World, host: str) -> None:
    """The machine fails: its guests stop, and nobody hears of it any more."""
    world.ground.power_off(host)
    world.silent.add(host)
    world.pass_time(world.settings.silent_after_s + 1)


def evacuate(world: World, server: str, host: str | None = None) -> str:
    """Ask for the server's evacuation; the move's id."""
    return world.store.write_now(
        left.evacuate, server, world.by(), silent_since=silent_since(world), host=host
    )


def silent_since(world: World) -> float:
    return world.clock.now() - world.settings.silent_after_s


def evacuating(world: World, server: str) -> Racer:
    """The server's host has died, and an operator asks for the server's evacuation."""
    lose(world, home(world, server))
    world.silent.clear()  # nobody hears it as long as no time passes
    return asking(left.evacuate, server, silent_since=silent_since(world))


def home(world: World, server: str) -> str:
    """The name of the host on which the server lives."""
    return world.home(server) or ""


def shelve(world: World, server: str) -> str:
    """Put the server on the shelf, on no host; its id."""
    world.store.write_now(shelf.shelve, server, world.by())
    world.settle()
    return server


# -- Many at once --------------------------------------------------------------------------


def three_unshelves(world: World) -> Racers:
    """Three members of an anti-affinity group come off the shelf, each with a conductor of its own."""
    group = world.group("anti-affinity")
    servers = [shelve(world, world.boot(f"web-{number}", group)) for number in range(3)]
    return placed_by(
        world, *(world.store.write_now(shelf.unshelve, server, world.by()) for server in servers)
    )


def two_hosts_down(world: World) -> Racers:
    """Three members, and two of their hosts have died."""
    _, (a, b, _) = members(world, 3)
    for server in (a, b):
        lose(world, home(world, server))
    return placed_by(world, evacuate(world, a), evacuate(world, b))


# -- A host returns ------------------------------------------------------------------------


def the_source_returns(*, fenced: bool) -> Callable[[World], Racers]:
    """A server's host has died, and returns as the server is evacuated. `fenced`: an operator has
    forced it down; else it is only silent, and may be heard before anybody has done anything."""

    def stage(world: World) -> Racers:
        _, (a, _) = members(world, 2)
        dead = home(world, a)
        operator = evacuating(world, a)
        if fenced:
            world.store.write_now(hosts.fence, world.host_id(dead))
        return {"operator": operator, "source": returning(dead)}

    return stage


def evacuated_or_alive(world: World, results: Results) -> list[str]:
    """The server lives in one place, with nothing of it elsewhere; its old host is as good as any once it
    is clean. If that was heard first there was no evacuation."""
    if results["operator"] not in ("done", "Malformed"):
        return [f"results: {dict(results)}"]
    world.settle()
    for row in world.rows("host"):
        if row["status"] == "fenced":
            world.store.write_now(hosts.unfence, row["id"])
    world.settle()
    wrong = [f"{row['name']} is {row['status']}" for row in world.rows("host") if row["status"] != "up"]
    for row in world.rows("server"):
        guests = [name for name in world.agents if row["id"] in world.ground.states(name)]
        if guests != [world.home(row["id"])] or len(world.claims(row["id"])) != 1:
            wrong.append(f"{row['name']}: guests on {guests}, claims {world.claims(row['id'])}")
    return wrong + world.problems() + nobody_in_error(world)


# Where all racers are alike one of them is held.
OUTAGES = (
    Scenario(
        "three unshelves on two hosts",
        2,
        three_unshelves,
        wins(at_least=2, at_most=2),
        unpruned=False,
        held="mover 1",
    ),
    Scenario("two hosts down, one is free", 4, two_hosts_down, wins(at_least=1, at_most=1), held="mover 1"),
    Scenario("two hosts down, two are free", 5, two_hosts_down, wins(at_least=2, at_most=2), held="mover 1"),
    *(
        Scenario(
            f"a {state} host returns as it is evacuated",
            3,
            the_source_returns(fenced=state == "fenced"),
            evacuated_or_alive,
            unpruned=False,
        )
        for state in ("silent", "fenced")
    ),
)
