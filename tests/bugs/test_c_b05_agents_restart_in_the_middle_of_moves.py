"""C-b05, C-b06: agents restart in the middle of moves.

The stories (Launchpad nova 1319797, 1330503: the agent that starts removes guests whose record
names another host, and so destroys what is half-way between two hosts; 1389127: a destination
that dies in the first stage of a resize leaves the server in it for ever).

Right: nothing of a guest is removed on either side; what was under way goes on, and a resize can
still be confirmed or reverted. What makes it so: an agent that starts removes nothing by itself,
but is asked again what it had not answered, at its new epoch (M4, M5).
"""

from __future__ import annotations

import pytest

from berthold.agent.faults import Died
from berthold.moves.live_migrate import LIVE_MIGRATION
from berthold.moves.resize import RESIZE
from by_hand import MakeWorld, ended, events, guest, holds, project, shown, step_until

LIVE = [line.name for line in LIVE_MIGRATION.lines]
COLD = [line.name for line in RESIZE.lines[:-1]]


@pytest.mark.parametrize("host", ["node1", "node2"])
@pytest.mark.parametrize("line", LIVE)
def test_a_live_migration_goes_on(make_world: MakeWorld, line: str, host: str) -> None:
    world = make_world(node1=4, node2=4)
    one = world.boot("one", world.group("anti-affinity"), host="node1")
    move = world.live_migrate(one)
    step_until(world, move, line)
    world.restart_agent(host)
    assert world.ground.runners(one) in (["node1"], ["node2"])
    world.settle()
    assert holds(world, one) == {"node2": "home"}
    assert guest(world, "node2", one) == ("running", 1)
    assert guest(world, "node1", one) is None
    assert shown(world, one) == ("ACTIVE", None)
    assert ended(world, move) == "completed"


@pytest.mark.parametrize("host", ["node1", "node2"])
@pytest.mark.parametrize("line", COLD)
@pytest.mark.parametrize("word", ["confirm", "revert"])
def test_a_resize_goes_on_and_its_owner_has_the_last_word(
    make_world: MakeWorld, line: str, host: str, word: str
) -> None:
    world = make_world(node1=4, node2=4)
    one = world.boot("one", host="node1")
    move = world.resize(one)
    step_until(world, move, line)
    world.restart_agent(host)
    world.settle()
    assert shown(world, one) == ("VERIFY_RESIZE", None)
    assert holds(world, one) == {"node1": "source", "node2": "home"}
    world.restart_agent(host)
    assert guest(world, "node1", one) == ("stopped", 1)
    assert guest(world, "node2", one) == ("running", 2)
    getattr(world, word)(one)
    world.restart_agent(host)
    world.settle()
    kept = ("node2", 2) if word == "confirm" else ("node1", 1)
    assert holds(world, one) == {kept[0]: "home"}
    assert guest(world, kept[0], one) == ("running", kept[1])
    assert project(world)["cores"] == kept[1]
    assert ended(world, move) == ("confirmed" if word == "confirm" else "reverted")


@pytest.mark.parametrize("kind", ["die before", "die after"])
def test_the_destination_dies_in_the_first_stage_and_comes_back(make_world: MakeWorld, kind: str) -> None:
    world = make_world(node1=4, node2=4)
    one = world.boot("one", host="node1")
    move = world.resize(one)
    step_until(world, move, "prepare target")
    world.faults_of["node2"].plan(kind, verb="prepare")  # type: ignore[arg-type]
    with pytest.raises(Died):
        world.obey("node2")
    world.restart_agent("node2")
    world.settle()
    assert shown(world, one) == ("VERIFY_RESIZE", None)
    assert ended(world, move) == "finished"
    assert ("compute_prep_resize", "Success") in events(world, move)


def test_the_destination_dies_in_the_first_stage_and_stays_away_for_long(make_world: MakeWorld) -> None:
    """The server runs on, where and as it was; when the destination is back it is cleaned."""
    world = make_world(node1=4, node2=4)
    one = world.boot("one", host="node1")
    before = world.picture()
    move = world.resize(one)
    step_until(world, move, "prepare target")
    world.silent.add("node2")
    world.pass_time(11.0)
    world.settle()
    assert guest(world, "node1", one) == ("running", 1)
    world.restart_agent("node2")
    world.settle()
    assert world.picture() == before
    assert shown(world, one) == ("ACTIVE", None)
    assert ended(world, move) == "error"
