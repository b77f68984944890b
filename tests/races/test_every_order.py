"""The races of `lab/scenarios.py`, in every order of their transactions, in memory.

After each transaction every promise is asked again and the history is judged; at the end of
each order the right ones have won. The counts of what was run are printed (`pytest -rP`).
"""

from __future__ import annotations

import pytest

from berthold.lab.choices import Choices, every_path, replayed
from berthold.lab.deletions import GROUP_GOES
from berthold.lab.explore import Broken, Explorer, every_order, random_orders
from berthold.lab.judge import judge
from berthold.lab.outages import OUTAGES
from berthold.lab.queues import QUEUES
from berthold.lab.scenarios import SCENARIOS, Scenario, always, claim_claim, creates
from berthold.lab.strategies import scheduler_only, unguarded_metadata
from berthold.lab.whole_groups import WHOLE_GROUPS
from berthold.lab.world import World

ALL = (*SCENARIOS, *OUTAGES, *GROUP_GOES, *QUEUES, *WHOLE_GROUPS)
PRUNED = [pytest.param(scenario, id=scenario.name) for scenario in ALL if not scenario.unpruned]
UNPRUNED = [pytest.param(scenario, id=scenario.name) for scenario in ALL if scenario.unpruned]


def run(scenario: Scenario, *, prune: bool) -> None:
    world = World(hosts=scenario.hosts)
    try:
        racers = scenario.stage(world)
        found = every_order(world, racers, always, scenario.expect, prune=prune)
        print(f"{scenario.name}: {found}")
        assert found.orders
    finally:
        world.close()


@pytest.mark.parametrize("scenario", PRUNED)
def test_every_order_but_for_states_already_seen(scenario: Scenario) -> None:
    run(scenario, prune=True)


@pytest.mark.parametrize("scenario", UNPRUNED)
def test_every_order_to_its_end(scenario: Scenario) -> None:
    run(scenario, prune=False)


def test_the_strategy_of_the_bug_is_beaten_and_the_story_names_both_servers_and_the_host() -> None:
    """`scheduler-only`: two movers both find the third host free, and both claim it."""
    with scheduler_only():
        world = World(hosts=3, tables=unguarded_metadata())
        explorer = Explorer(world, claim_claim(world), broken)
        homes = {world.home(row["id"]) for row in world.rows("server")}
        (free,) = set(world.agents) - homes
        with pytest.raises(Broken) as found:
            explorer.explore()
        story = str(found.value)
        assert "G1 at event" in story
        assert all(row["id"] in story for row in world.rows("server"))
        assert world.host_id(free) in story
        assert "mover 1 " in story
        assert "mover 2 " in story
        with pytest.raises(Broken) as again:
            Explorer(world, explorer.actors, broken).play(replayed(found.value.schedule))
        assert str(again.value) == story
        world.close()


def test_first_members_of_an_affinity_group_land_apart_with_the_strategy_of_the_bug() -> None:
    """R3."""
    with scheduler_only():
        world = World(hosts=3, tables=unguarded_metadata())
        explorer = Explorer(world, creates(3, "affinity")(world), broken)
        with pytest.raises(Broken, match="G2 at event"):
            explorer.explore()
        world.close()


def broken(world: World) -> list[str]:
    return [str(finding) for finding in judge(world.rows("history"))]


def test_orders_by_chance_follow_from_their_seed() -> None:
    world = World(hosts=3)
    racers = claim_claim(world)
    first, again = (random_orders(Explorer(world, racers, always), 1, 3) for _ in range(2))
    assert str(first) == str(again)
    world.close()


def test_every_path_through_some_choices_is_taken_once() -> None:
    def choose(choices: Choices) -> tuple[str, int]:
        first = choices.pick(["a", "b"], "letter")
        return first, choices.pick([1, 2, 3] if first == "b" else [1], "number")

    paths = []
    for choices in every_path():
        paths.append(choose(choices))
        assert choose(replayed(choices.schedule())) == paths[-1]
    assert paths == [("a", 1), ("b", 1), ("b", 2), ("b", 3)]
