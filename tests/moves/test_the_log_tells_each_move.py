"""What an operator reads of a move in the log: one line when it begins and one when it is over, with the
server and the request, so that one `grep` tells what became of either."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from berthold.lab.world import World
from berthold.ledger import moves
from berthold.moves.conductor import Conductor
from berthold.moves.outcome import Outcome


@pytest.fixture
def world() -> Iterator[World]:
    made = World(hosts=2)
    yield made
    made.close()


def conduct(world: World, move: str) -> list[dict[str, Any]]:
    """Conduct the move while all agents obey; what was logged of it."""
    conductor = Conductor(world.store, world.companions.neighbours, world.settings, "this")
    step = conductor.runner.step

    async def step_and_obey(lease: moves.Lease, *seen: object, **told: object) -> Outcome:
        outcome = await step(lease, *seen, **told)  # type: ignore[arg-type]
        if outcome.over:
            conductor.stop()
        elif outcome.wait_s:
            while any(world.obey(name) for name in world.agents):
                pass
            return Outcome(outcome.state)
        return outcome

    conductor.runner.step = step_and_obey  # type: ignore[method-assign]
    with capture_logs() as lines:
        asyncio.run(asyncio.wait_for(conductor.run(), 60))
    return [dict(line) for line in lines if line.get("move") == move]


def test_a_move_begins_and_is_done_on_a_host(world: World) -> None:
    server = world.boot("one", host="node1")
    move = world.live_migrate(server)
    lines = conduct(world, move)
    request = world.move(move)["request_id"]
    assert request
    told = {"server": server, "move": move, "kind": "live-migration", "request": request}
    level = {"log_level": "info"}
    assert lines == [
        {"event": "move begins", **told, **level},
        {"event": "move done", **told, "host": "node2", **level},
    ]


def test_a_resize_waits_for_a_decision_where_it_has_gone(world: World) -> None:
    move = world.resize(world.boot("one", host="node1"))
    lines = conduct(world, move)
    assert [(line["event"], line.get("host")) for line in lines] == [
        ("move begins", None),
        ("move waiting", world.home(world.move(move)["server_id"])),
    ]


def test_what_fails_names_the_request_and_ends_where_it_was(world: World) -> None:
    server = world.boot("one", host="node1")
    world.faults_of["node2"].plan("refuse", verb="prepare", times=9)
    move = world.live_migrate(server)
    lines = conduct(world, move)
    assert {line["request"] for line in lines} == {world.move(move)["request_id"]}
    events = [line["event"] for line in lines]
    assert (events[0], events[-1]) == ("move begins", "move undone")
    assert "line failed" in events
    assert lines[-1]["host"] == "node1"
