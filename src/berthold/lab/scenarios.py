"""The races that must come out right, as data: who races, on what, and what must be true at the end.

One list for all engines. In memory the explorer tries every order at the grain of
transactions; on PostgreSQL real connections race, and each is held inside its transactions
while the others run. `stage` furnishes a world and gives the racers; `expect` gives what is
wrong with how it ended, beyond the promises, which must hold at every instant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from berthold.lab.judge import judge
from berthold.lab.racers import Racer, claiming, continuing, creating, deleting_group, moving, stepping
from berthold.lab.world import LARGE, PROJECT, USER, World
from berthold.ledger import servers
from berthold.ledger.store import Tx
from berthold.moves.status import line_of

Results = Mapping[str, Any]
Racers = Mapping[str, Racer]


@dataclass(frozen=True)
class Scenario:
    """A race. `unpruned`: few enough orders to run each of them to its end. `held`: who alone is held
    inside transactions on PostgreSQL; else each racer is in turn, or the first of them if all do
    `alike`. `plain`: there are claims that the twin takes."""

    name: str
    hosts: int
    stage: Callable[[World], Racers]
    expect: Callable[[World, Results], Sequence[str]]
    unpruned: bool = True
    held: str | None = None
    plain: bool = True
    alike: bool = False


def always(world: World) -> list[str]:
    """What must never be: a broken promise now, or at any instant of the history."""
    return [*world.problems(), *(str(finding) for finding in judge(world.rows("history")))]


# -- What must be true at the end ----------------------------------------------------------


def wins(*, at_least: int, at_most: int) -> Callable[[World, Results], list[str]]:
    """So many racers got a place; nobody ends in ERROR."""

    def expect(world: World, results: Results) -> list[str]:
        won = [name for name, result in results.items() if result in ("running", "done", "waiting")]
        wrong = [] if at_least <= len(won) <= at_most else [f"{won} won, of {dict(results)}"]
        return wrong + nobody_in_error(world)

    return expect


def nobody_in_error(world: World, _: Results | None = None) -> list[str]:
    return [
        f"{row['name']} is in ERROR"
        for row in world.rows("server")
        if world.status(row["id"]).status == "ERROR"
    ]


def one_accepted(world: World, results: Results) -> list[str]:
    """C-b21: of two wishes for one server one is accepted, the other is told that it may not be."""
    wrong = (
        [] if sorted(results.values()) == ["WrongState", "at check target"] else [f"results: {dict(results)}"]
    )
    return wrong + nobody_in_error(world)


def all_gone(world: World, results: Results) -> list[str]:
    """The server was deleted, whatever it was doing, and holds nothing anywhere."""
    held = [row["server_id"] for row in world.rows("claim")]
    guests = [name for name in world.agents if world.ground.states(name)]
    wrong = [] if results["delete"] == "done" else [f"results: {dict(results)}"]
    return wrong + [f"still held: {held}, {guests}"] * bool(held or guests)


# -- Stages --------------------------------------------------------------------------------


def members(world: World, count: int, policy: str = "anti-affinity") -> tuple[str, list[str]]:
    group = world.group(policy)
    return group, [world.boot(f"web-{number}", group) for number in range(1, count + 1)]


def placed_by(world: World, *begun: str) -> Racers:
    """The conductors of these moves, each about to claim a place."""
    for move_id in begun:
        world.lease(move_id)
    return {f"mover {number}": stepping(move_id) for number, move_id in enumerate(begun, 1)}


def claim_claim(world: World) -> Racers:
    _, (a, b) = members(world, 2)
    return placed_by(world, world.live_migrate(a), world.live_migrate(b))


def three_claims(world: World) -> Racers:
    _, servers = members(world, 3)
    return placed_by(world, *(world.live_migrate(server) for server in servers))


def live_and_cold(world: World) -> Racers:
    _, (a, b, c) = members(world, 3)
    return placed_by(world, world.live_migrate(a), world.migrate(b), world.resize(c, LARGE))


def bare_claims(count: int) -> Callable[[World], Racers]:
    """Members that are nowhere; each looks and then claims."""

    def stage(world: World) -> Racers:
        group = world.group("anti-affinity")

        def nowhere(tx: Tx, name: str) -> str:
            flavor = {"vcpus": 1, "ram": 0}
            made = servers.create(
                tx, project_id=PROJECT, group_id=group, flavor=flavor, user_id=USER, name=name
            )
            servers.change(tx, made, condition="shelved_offloaded")
            return made

        made = [world.store.write_now(nowhere, f"web-{number}") for number in range(count)]
        return {f"claimer {number}": claiming(server) for number, server in enumerate(made, 1)}

    return stage


def apart(winners: int) -> Callable[[World, Results], list[str]]:
    """So many claimers have a host, each another one; the rest were refused."""

    def expect(world: World, results: Results) -> list[str]:
        won = [result for result in results.values() if result != "refused"]
        return [] if len(set(won)) == len(won) == winners else [f"results: {dict(results)}"]

    return expect


def creates(count: int, policy: str | None = None, **wishes: Any) -> Callable[[World], Racers]:
    """New servers, in a group with that policy or in none, each with a conductor of its own."""

    def stage(world: World) -> Racers:
        group = world.group(policy) if policy else None
        begun = []
        for number in range(count):
            world.create(f"web-{number}", group, **wishes)
            begun.append(world.unfinished()[-1])
        return placed_by(world, *begun)

    return stage


# Three that want the last room of one kind; no group.
capacity = creates(3, flavor={**LARGE, "vcpus": 4, "ram": 512})


def step_and_obey(world: World, move_id: str) -> None:
    """One step of the move, and whatever agents are asked then."""
    world.step(move_id)
    for host in world.agents:
        world.obey(host)


def at_line(world: World, move_id: str, name: str) -> str:
    """Step the move until the line is the next to do."""
    while line_of(world.move(move_id)).name != name:
        step_and_obey(world, move_id)
    return move_id


def claim_release(world: World) -> Racers:
    _, (a, b) = members(world, 2)
    leaving = at_line(world, world.live_migrate(a), "release source")
    return {"leaver": stepping(leaving), **placed_by(world, world.live_migrate(b))}


def claim_switch(world: World) -> Racers:
    _, (a, b) = members(world, 2)
    arriving = at_line(world, world.live_migrate(a), "switch home")
    return {"arriver": stepping(arriving, 3), **placed_by(world, world.live_migrate(b))}


def decided(word: str) -> Callable[[World], Racers]:
    def stage(world: World) -> Racers:
        _, (a, b) = members(world, 2)
        world.resize(a)
        world.settle()
        return {word: continuing(word, a), **placed_by(world, world.live_migrate(b))}

    return stage


def confirm_revert(world: World) -> Racers:
    _, (a,) = members(world, 1)
    world.migrate(a)
    world.settle()
    return {"confirm": continuing("confirm", a), "revert": continuing("revert", a)}


def one_ended(world: World, results: Results) -> list[str]:
    wrong = [] if sorted(results.values()) == ["WrongState", "done"] else [f"results: {dict(results)}"]
    return wrong + nobody_in_error(world)


def delete_moving(kind: str, **wish: Any) -> Callable[[World], Racers]:
    def stage(world: World) -> Racers:
        _, (a,) = members(world, 1)
        return {"mover": moving(kind, a, **wish), "delete": moving("delete", a)}

    return stage


def twice(world: World) -> Racers:
    _, (a,) = members(world, 1)
    return {
        "one": moving("live-migration", a, upto="check target"),
        "two": moving("live-migration", a, upto="check target"),
    }


def whole_creates(world: World) -> Racers:
    group = world.group("anti-affinity")
    return {name: creating(name, group) for name in ("web-1", "web-2")}


def group_goes(world: World) -> Racers:
    group, (a, b) = members(world, 2)
    return {
        "owner": deleting_group(group),
        **placed_by(world, world.live_migrate(a), world.live_migrate(b)),
    }


def lone_member(world: World) -> Racers:
    """Affinity: the only member leaves while another is created."""
    group, (a,) = members(world, 1, "affinity")
    movers = placed_by(world, world.live_migrate(a))
    return {**movers, "second member": creating("web-2", group)}


def together(world: World, results: Results) -> list[str]:
    homes = {row["host_id"] for row in world.rows("claim")}
    return [] if len(homes) == 1 else [f"the group lives on {len(homes)} hosts"]


def joined_or_told(world: World, results: Results) -> list[str]:
    """Nobody joins a group that moves, and a group that somebody joined stays; the first is well."""
    told = results["mover 1"], results["second member"]
    wrong = [] if told in (("running", "Refused"), ("undoing", "done"), ("running", "done")) else [str(told)]
    return wrong + [
        f"web-1 is {row['condition']}" for row in world.rows("server") if row["condition"] == "error"
    ]


SCENARIOS = (
    Scenario("two movers, one free host", 3, claim_claim, wins(at_least=1, at_most=1), alike=True),
    Scenario("two movers, two free hosts", 4, claim_claim, wins(at_least=2, at_most=2), alike=True),
    Scenario("three claims, two hosts", 2, bare_claims(3), apart(2), plain=False, alike=True),
    Scenario("three claims, three hosts", 3, bare_claims(3), apart(3), plain=False, alike=True),
    Scenario(
        "three movers, one free host",
        4,
        three_claims,
        wins(at_least=1, at_most=1),
        unpruned=False,
        alike=True,
    ),
    Scenario(
        "three movers, two free hosts",
        5,
        three_claims,
        wins(at_least=2, at_most=2),
        unpruned=False,
        alike=True,
    ),
    Scenario("live, cold and resize, one free host", 4, live_and_cold, wins(at_least=1, at_most=1), False),
    Scenario(
        "four claims, three hosts", 3, bare_claims(4), apart(3), unpruned=False, plain=False, alike=True
    ),
    Scenario(
        "three creates on three hosts",
        3,
        creates(3, "anti-affinity"),
        wins(at_least=3, at_most=3),
        False,
        alike=True,
    ),
    Scenario(
        "three creates, two hosts' room", 2, capacity, wins(at_least=2, at_most=2), unpruned=False, alike=True
    ),
    Scenario(
        "two first members of an affinity group", 3, creates(2, "affinity"), together, plain=False, alike=True
    ),
    Scenario(
        "three first members of an affinity group",
        3,
        creates(3, "affinity"),
        together,
        False,
        plain=False,
        alike=True,
    ),
    Scenario("a claim while its host is released", 3, claim_release, wins(at_least=1, at_most=2)),
    Scenario("a claim while a home is switched", 3, claim_switch, wins(at_least=1, at_most=1), plain=False),
    Scenario(
        "a claim while a resize is confirmed", 3, decided("confirm"), wins(at_least=1, at_most=2), False
    ),
    Scenario("a claim while a resize is reverted", 3, decided("revert"), wins(at_least=1, at_most=2), False),
    Scenario("confirm against revert", 2, confirm_revert, one_ended, plain=False),
    Scenario("delete against a live migration", 2, delete_moving("live-migration"), all_gone, False),
    Scenario("delete against a migration", 2, delete_moving("migration"), all_gone, False),
    Scenario("two live migrations of one server", 2, twice, one_accepted, alike=True),
    Scenario(
        "two whole creates on two hosts", 2, whole_creates, wins(at_least=2, at_most=2), False, alike=True
    ),
    Scenario("the group is deleted under its movers", 4, group_goes, wins(at_least=2, at_most=2)),
    Scenario(
        "a lone affinity member leaves while one joins", 3, lone_member, joined_or_told, False, plain=False
    ),
)
