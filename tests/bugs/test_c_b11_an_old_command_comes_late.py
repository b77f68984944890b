"""C-b11, C-b15, C-b20: a create and its deletion cross.

The stories: a worker that crashed after it had told a host to start a server, and before it had
written that down, repeats the step when it resumes, after the user has deleted the server
(oxidecomputer/omicron issue 2209). A server whose builder died after claiming cannot be deleted,
or comes back when the builder resumes (Launchpad nova 1859496). A delete that arrives between the
guest's start and the last write is undone by that write (nova 1831771, 1914777).

Right: deleted is deleted. No claim, no guest, no quota, no member is left, and nothing reappears.
What makes it so: delete supersedes (M3): it ends the standing move in the transaction that begins
it, so that the old worker's every write is refused; and a host does not do what is older than the
latest it has begun for that server.
"""

from __future__ import annotations

import pytest

from berthold.errors import NotFound, Stale
from berthold.lab.world import now
from berthold.moves.create import CREATE
from by_hand import (
    Halfway,
    MakeWorld,
    choosing,
    ended,
    guest,
    members,
    project,
    shown,
    step_until,
    under_way,
    used,
)

LINES = [line.name for line in CREATE.lines]
GONE = {"instances": 0, "cores": 0, "ram": 0}


def test_a_host_does_not_start_what_it_was_told_to_discard(make_world: MakeWorld) -> None:
    world = make_world(node1=4)
    one = world.create("one")
    create = under_way(world, one)
    step_until(world, create, "spawn", obey=False)
    (spawn,) = world.asks("node1")
    world.delete(one)
    world.settle()
    assert guest(world, "node1", one) is None

    late = now(world.agents["node1"].do(spawn))
    assert not late.ok
    assert "superseded" in late.reason
    now(world.door.answer(late))
    world.settle()
    assert guest(world, "node1", one) is None
    assert shown(world, one) == ("DELETED", None)


@pytest.mark.parametrize("line", LINES)
def test_deleted_at_every_line_while_the_builder_is_dead(make_world: MakeWorld, line: str) -> None:
    world = make_world(node1=4)
    group = world.group("anti-affinity")
    one = world.create("one", group)
    create = under_way(world, one)
    step_until(world, create, line)
    lease = world.lease(create)
    world.kill_conductor()
    world.delete(one)
    world.settle()

    with pytest.raises(Stale):
        now(world.runner.step(lease))
    assert shown(world, one) == ("DELETED", None)
    assert ended(world, create) == "cancelled"
    assert world.claims(one) == []
    assert used(world, "node1") == 0
    assert members(world, group) == []
    assert {what: project(world)[what] for what in GONE} == GONE
    two = world.boot("two", group)
    assert world.home(two) == "node1"


@pytest.mark.parametrize("transaction", ["ask_line", "write_line"])
def test_deleted_when_only_the_builders_last_writes_are_missing(
    make_world: MakeWorld, transaction: str
) -> None:

    world = make_world(node1=4)
    one = world.create("one")
    create = under_way(world, one)
    step_until(world, create, "spawn" if transaction == "ask_line" else "settle")
    if transaction == "ask_line":
        world.obey("node1")
    assert guest(world, "node1", one) == ("running", 1)
    last = Halfway(world, create).until(transaction)
    delete = world.delete(one)
    assert world.delete(one) == delete, "asked twice it is one delete"
    with pytest.raises(Stale):
        last.end()
    world.settle()
    assert shown(world, one) == ("DELETED", None)
    assert guest(world, "node1", one) is None
    assert world.claims(one) == []
    with pytest.raises(NotFound):
        world.delete(one)


def test_the_builder_that_was_about_to_claim_claims_nothing(make_world: MakeWorld) -> None:
    world = make_world(node1=4)
    one = world.create("one")
    turn = choosing(world, under_way(world, one))
    world.delete(one)
    with pytest.raises(Stale):
        turn.end()
    world.settle()
    assert used(world, "node1") == 0
    assert shown(world, one) == ("DELETED", None)
