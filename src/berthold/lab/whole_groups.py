"""Races about groups that move as a whole (G2), as data: against each other, and against whatever else may be
done to the group and to its members."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from berthold.errors import Failure
from berthold.lab.racers import Racer, carry_out, creating, deleting_group, moving
from berthold.lab.scenarios import Racers, Results, Scenario, at_line, members, nobody_in_error, step_and_obey
from berthold.lab.world import PROJECT, USER, World
from berthold.ledger import group_moves, moves
from berthold.ledger.store import Tx
from berthold.moves import begin, together

BY = begin.By(USER, PROJECT, "req-whole-group")
TOLD_NO = frozenset({"WrongState", "Refused"})


# -- Racers -------------------------------------------------------------------------------


def arriving(part: str, whole: str) -> Racer:
    """The last member's conductor and whoever attends to the group: its last lines, and what is due then."""

    async def race(world: World) -> str:
        await carry_out(world, part)
        await world.store.write(together.tend, whole)
        return await world.store.read(_state, whole)

    return race


def _state(tx: Tx, whole: str) -> str:
    return str(group_moves.find(tx, whole)["state"])


def saying(word: Callable[..., str], group: str, *more: str) -> Racer:
    """An operator's word on a group, `word(tx, group, by, *more)`: that it shall move, go on, or go back."""

    async def race(world: World) -> str:
        try:
            await world.store.write(word, group, BY, *more)
        except Failure as no:
            return type(no).__name__
        return "accepted"

    return race


# -- Stages -------------------------------------------------------------------------------


def pair(world: World) -> tuple[str, list[str]]:
    return members(world, 2, "affinity")


def elsewhere(world: World) -> list[str]:
    """The hosts where nobody lives."""
    homes = {world.home(row["id"]) for row in world.rows("server")}
    return [name for name in world.agents if name not in homes]


def two_operators(world: World) -> Racers:
    group, _ = pair(world)
    one, two = (saying(together.begin, group, world.host_id(name)) for name in elsewhere(world))
    return {"one": one, "two": two}


def against(other: Callable[[str, list[str]], Racer]) -> Callable[[World], Racers]:
    """Somebody asks for the whole group's move while something else is asked for."""

    def stage(world: World) -> Racers:
        group, servers = pair(world)
        operator = saying(together.begin, group, world.host_id(elsewhere(world)[0]))
        return {"group move": operator, "other": other(group, servers)}

    return stage


def on_the_way(other: Callable[[str, list[str]], Racer]) -> Callable[[World], Racers]:
    """The second member arrives, the first waits for it, and something else is asked for."""

    def stage(world: World) -> Racers:
        group, (a, b) = pair(world)
        whole = world.store.write_now(together.begin, group, BY, world.host_id(elsewhere(world)[0]))
        first, last = (_part(world, server) for server in (a, b))
        at_line(world, last, "move ports")
        while first in world.unfinished():
            step_and_obey(world, first)
        return {"group move": arriving(last, whole), "other": other(group, [a, b])}

    return stage


def giving_up(other: Callable[[str, list[str]], Racer]) -> Callable[[World], Racers]:
    """All have arrived; the first gives up its old host, and something else is asked for."""

    def stage(world: World) -> Racers:
        racers = on_the_way(other)(world)
        parts = [row["id"] for row in world.moves() if row["group_move_id"]]
        while not world.attend():
            for part in parts:
                if part in world.unfinished():
                    world.step(part)
        (first,) = (_part(world, row["id"]) for row in world.rows("server") if row["name"] == "web-1")
        return {"group move": partial(carry_out, move_id=first), "other": racers["other"]}

    return stage


def _part(world: World, server: str) -> str:
    move = world.store.read_now(moves.unfinished, server)
    assert move is not None, f"nothing is under way for {server}"
    return str(move["id"])


def two_words(world: World) -> Racers:
    """One member cannot go; one operator lets it go on, another takes all back."""
    group, (a, _) = pair(world)
    target = elsewhere(world)[0]
    world.faults_of[target].plan("refuse", verb="prepare", server=a)
    world.store.write_now(together.begin, group, BY, world.host_id(target))
    world.settle()
    return {"forward": saying(together.forward, group), "back": saying(together.back, group)}


# -- What must be true at the end ---------------------------------------------------------


def one_accepted(world: World, results: Results) -> list[str]:
    refused = [result for result in results.values() if result in TOLD_NO]
    wrong = [] if sorted(results.values()) == sorted(["accepted", *refused]) and refused else [str(results)]
    return wrong + settled(world, results)


def back_has_the_last_word(world: World, results: Results) -> list[str]:
    """Back is always possible; forward is refused once all are on their way back."""
    told = (results["forward"], results["back"])
    wrong = [] if told in (("accepted", "accepted"), ("WrongState", "accepted")) else [str(results)]
    (whole,) = world.rows("group_move")
    wrong += [] if whole["goal_id"] == whole["source_id"] else ["it does not go back"]
    return wrong + settled(world, results)


def ends_in(*allowed: tuple[Any, Any]) -> Callable[[World, Results], list[str]]:
    """(group move, other) as they may end."""

    def expect(world: World, results: Results) -> list[str]:
        told = (results["group move"], results["other"])
        return ([] if told in allowed else [str(told)]) + settled(world, results)

    return expect


def settled(world: World, results: Results) -> list[str]:
    """Once everything has ended nobody is in ERROR, the group is in one place and at rest."""
    world.settle()
    wrong = nobody_in_error(world, results) + world.problems()
    homes = {world.home(row["id"]) for row in world.rows("server") if row["group_id"]} - {None}
    wrong += [f"the group lives on {sorted(map(str, homes))}"] * (len(homes) > 1)
    wrong += [f"group {row['id']} still moves" for row in world.rows("server_group") if row["moving"]]
    return wrong + [
        f"group move {row['id']} is {row['state']}"
        for row in world.rows("group_move")
        if row["state"] != "done"
    ]


WHOLE_GROUPS = (
    Scenario("two whole moves of one group", 3, two_operators, one_accepted, plain=False, alike=True),
    Scenario("forward against back", 2, two_words, back_has_the_last_word, plain=False),
    Scenario(
        "a whole group moves while one joins",
        2,
        against(lambda group, servers: creating("web-3", group)),
        ends_in(("accepted", "Refused"), ("WrongState", "done"), ("accepted", "done")),
        False,
        plain=False,
    ),
    Scenario(
        "a whole group moves while a member moves alone",
        3,
        against(lambda group, servers: moving("live-migration", servers[0])),
        ends_in(("accepted", "WrongState"), ("WrongState", "undone"), ("accepted", "undone")),
        False,
        plain=False,
    ),
    Scenario(
        "a whole group moves while a member goes",
        2,
        against(lambda group, servers: moving("delete", servers[0])),
        ends_in(("accepted", "done"), ("WrongState", "done")),
        False,
        plain=False,
    ),
    Scenario(
        "a whole group moves while it is deleted",
        2,
        against(lambda group, servers: deleting_group(group)),
        ends_in(("accepted", "deleted"), ("NotFound", "deleted")),
        plain=False,
    ),
    Scenario(
        "the last member arrives while the first is deleted",
        2,
        on_the_way(lambda group, servers: moving("delete", servers[0])),
        ends_in(("settling", "done"), ("done", "done")),
        False,
        plain=False,
    ),
    Scenario(
        "the last member arrives and is deleted",
        2,
        on_the_way(lambda group, servers: moving("delete", servers[1])),
        ends_in(("settling", "done"), ("done", "done")),
        False,
        plain=False,
    ),
    Scenario(
        "the last member arrives while all are taken back",
        2,
        on_the_way(lambda group, servers: saying(together.back, group)),
        ends_in(("settling", "WrongState"), ("moving", "accepted")),
        plain=False,
    ),
    Scenario(
        "the last member arrives while its group is deleted",
        2,
        on_the_way(lambda group, servers: deleting_group(group)),
        ends_in(("settling", "deleted"), ("scattered", "deleted")),
        plain=False,
    ),
    Scenario(
        "a member gives up its old host and is deleted",
        2,
        giving_up(lambda group, servers: moving("delete", servers[0])),
        ends_in(("done", "done"), ("superseded", "done")),
        False,
        plain=False,
    ),
    Scenario(
        "a member gives up its old host while its group is deleted",
        2,
        giving_up(lambda group, servers: deleting_group(group)),
        ends_in(("done", "deleted")),
        False,
        plain=False,
    ),
)
