"""C-b13: stuck in migrating after an unexpected error.

The story (Launchpad nova 1694406, 1662626): a live migration meets an error that nobody planned
for, in the conductor before anything was asked of the source, or in the clean-up at the very end.
The server stays in "migrating" and nothing can be done with it.

Right: before the point of no return the server is ACTIVE where it was and the claim is gone (M6).
After it the line is tried again; at the operator's limit server and migration show an error, at
the true home, and a delete still works. What makes it so: an exception is a failure of the line
like any other.
"""

from __future__ import annotations

from typing import Any

import pytest

from berthold.lab.world import with_settings
from berthold.ledger import claims, inventories
from berthold.moves import placing
from berthold.moves.runner import Runner
from by_hand import MakeWorld, ended, guest, holds, outcome, shown, step_until, why


def bug(*_: Any, **__: Any) -> None:
    raise RuntimeError("dictionary changed size during iteration")


def test_before_the_source_is_called(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world(node1=4, node2=4)
    one = world.boot("one", host="node1")
    before = world.picture()
    move = world.live_migrate(one)
    monkeypatch.setattr(placing, "rank", bug)
    world.settle()
    assert world.picture() == before
    assert shown(world, one) == ("ACTIVE", None)
    assert ended(world, move) == "error"
    assert outcome(world, move) == "Error"
    assert "dictionary" not in why(world, move), "an owner is not shown our mistakes"
    failure = world.move(move)["failure"]
    assert "RuntimeError: dictionary changed size" in failure["traceback"]


def test_while_the_claim_is_written(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the transaction is done by then; none of it is stored."""
    world = make_world(node1=4, node2=4)
    one = world.boot("one", world.group("anti-affinity"), host="node1")
    before = world.picture()
    move = world.live_migrate(one)
    monkeypatch.setattr(inventories, "raise_generation", bug)
    world.step(move)
    monkeypatch.undo()
    world.settle()
    assert world.picture() == before
    assert ended(world, move) == "error"


def test_in_the_clean_up_at_the_very_end(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world(node1=4, node2=4)
    world.settings = with_settings(tries_max=3)
    world.runner = Runner(world.store, world.companions.neighbours, world.settings)
    one = world.boot("one", host="node1")
    move = world.live_migrate(one)
    step_until(world, move, "release source")
    monkeypatch.setattr(claims, "release", bug)
    for _ in range(3):
        assert shown(world, one) == ("MIGRATING", "migrating")
        world.step(move)
        world.pass_time(5.0)
    assert world.move(move)["state"] == "stuck"
    assert shown(world, one) == ("ERROR", None)
    assert ended(world, move) == "error"
    assert holds(world, one) == {"node1": "source", "node2": "home"}
    assert guest(world, "node2", one) == ("running", 1)
    assert world.problems() == []

    monkeypatch.undo()
    world.delete(one)
    world.settle()
    assert shown(world, one) == ("DELETED", None)
    assert world.claims(one) == []
