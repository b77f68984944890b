"""C-b21: the same server is moved twice at once.

The story (oxidecomputer/omicron PR 10479): two requests to move or start one server reach two
API workers at the same instant. Both look, both see an idle server, both begin. Two reservations
are made, two records say "in progress", and what the loser had begun belongs to nobody.

Right: one is accepted and the other is a conflict (M3); one claim on one destination, one record
under way, nothing left of the loser. What prevents it: whoever begins a move holds the server's
row first, and an index allows a server one unfinished move.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from berthold.errors import NotFound, Stale, WrongState
from berthold.lab.world import SMALL
from berthold.ledger.store import Store
from berthold.moves import begin
from by_hand import MakeWorld, choosing, ended, holds
from clouds import PROJECT, USER, cloud


def test_the_second_is_a_conflict_at_every_moment_of_the_first(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4, node3=4)
    one = world.boot("one", host="node1")
    move = world.live_migrate(one, "node2")
    while world.unfinished():
        for again in (world.live_migrate, world.migrate, world.resize):
            with pytest.raises(WrongState) as conflict:
                again(one)
            assert str(conflict.value.message).endswith("while it is in task_state migrating")
        world.step(move)
        for name in world.agents:
            world.obey(name)
    assert [row["id"] for row in world.rows("move") if row["kind"] == "live-migration"] == [move]
    assert holds(world, one) == {"node2": "home"}


def test_two_conductors_work_on_one_move_and_one_of_them_writes(make_world: MakeWorld) -> None:
    """The other kind of twice: a conductor that slept wakes while another does its work."""
    world = make_world(node1=4, node2=16, node3=4)
    one = world.boot("one", host="node1")
    move = world.live_migrate(one)
    sleeper = choosing(world, move)
    world.kill_conductor()  # for the others its lease is over
    choosing(world, move).end()
    assert holds(world, one) == {"node1": "home", "node2": "target"}
    before = world.picture()
    with pytest.raises(Stale):
        sleeper.end()
    assert world.picture() == before
    world.settle()
    assert holds(world, one) == {"node2": "home"}
    assert ended(world, move) == "completed"


@pytest.mark.parametrize("rivals", [2, 8])
def test_requests_at_the_same_instant_on_a_real_database(store: Store, tmp_path: Path, rivals: int) -> None:
    async def story() -> None:
        async with cloud(store, tmp_path, node1=4, node2=4, node3=4) as it:
            wish = begin.NewServer(PROJECT, USER, "one", SMALL, host="node1")
            (one,) = await it.write(begin.create_servers, it.by(), [wish])
            await it.rest()
            answers = await asyncio.gather(
                *(
                    it.write(begin.begin, "live-migration", one, it.by(), {"host": None})
                    for _ in range(rivals)
                ),
                return_exceptions=True,
            )
            accepted = [answer for answer in answers if isinstance(answer, str)]
            refused = [answer for answer in answers if isinstance(answer, WrongState)]
            assert (len(accepted), len(refused)) == (1, rivals - 1), answers
            await it.rest()
            migrations = [row for row in await it.rows("move") if row["kind"] == "live-migration"]
            assert [(row["id"], row["state"]) for row in migrations] == [(accepted[0], "done")]
            claims = await it.rows("claim")
            assert [claim["role"] for claim in claims] == ["home"]
            assert (await it.homes())["one"] in ("node2", "node3")
            assert len(await it.rows("action")) == 2, "the loser leaves no action behind"
            assert await it.problems() == []

    asyncio.run(story())


def test_deletes_at_the_same_instant_are_one_delete(store: Store, tmp_path: Path) -> None:
    async def story() -> None:
        async with cloud(store, tmp_path, node1=4) as it:
            (one,) = await it.write(
                begin.create_servers, it.by(), [begin.NewServer(PROJECT, USER, "one", SMALL)]
            )
            answers = await asyncio.gather(
                *(it.write(begin.begin, "delete", one, it.by(), {}) for _ in range(5)), return_exceptions=True
            )
            assert all(isinstance(answer, str | NotFound) for answer in answers), answers
            await it.rest()
            deletes = [row for row in await it.rows("move") if row["kind"] == "delete"]
            assert [row["state"] for row in deletes] == ["done"]
            assert await it.rows("claim") == []
            assert await it.problems() == []

    asyncio.run(story())
