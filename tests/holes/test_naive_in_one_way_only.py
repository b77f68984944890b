"""The naive ledgers are naive in one way each: an everyday race breaks none of them.

So what `test_the_holes_of_the_reference.py` finds there is the hole, and not that nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from sqlalchemy import MetaData

import naive
from berthold.lab.explore import every_order
from berthold.lab.judge import judge
from berthold.lab.scenarios import claim_claim, lone_member
from berthold.lab.world import World

HOLES = (
    naive.no_check_on_unshelve,
    naive.no_check_on_revert,
    naive.no_check_between_cells,
    naive.own_host_is_always_lawful,
    naive.a_forced_target_skips_the_rule,
    naive.members_of_one_shard,
)


def judged(world: World) -> list[str]:
    return [str(finding) for finding in judge(world.rows("history"))]


@pytest.mark.parametrize("hole", [pytest.param(each, id=each.__name__) for each in HOLES])
def test_two_movers_and_one_free_host(hole: Callable[[], AbstractContextManager[MetaData]]) -> None:
    with hole() as tables:
        world = World(hosts=3, tables=tables)
        found = every_order(world, claim_claim(world), judged)
        assert found.orders > 1
        world.close()


def test_affinity_is_kept_where_only_soft_policies_are_forgetful() -> None:
    with naive.soft_without_generation() as tables:
        world = World(hosts=3, tables=tables)
        assert every_order(world, lone_member(world), judged).orders
        world.close()
