"""`berthold group move`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from berthold.cli import group_move
from berthold.lab.world import World
from berthold.ledger import hosts
from berthold.moves import begin
from commands import Berthold


@pytest.fixture
def group(world: World) -> str:
    """An affinity group: db-1 and db-2 on node1."""
    group = world.group("affinity", name="db")
    for name in ("db-1", "db-2"):
        world.boot(name, group, host="node1")
    world.pass_time(time.time() - world.clock.now())
    return group


def hold(berthold: Berthold, data: Path, world: World, group: str) -> None:
    world.faults_of["node2"].plan("refuse", verb="prepare", times=1, reason="the disk [sdb] is full")
    assert berthold("group", "move", group, "--to", "node2", "--data", data).status == 0
    world.settle()


def test_a_group_goes_to_the_best_host(berthold: Berthold, data: Path, world: World, group: str) -> None:
    ran = berthold("group", "move", group, "--data", data)
    assert (ran.status, ran.error) == (0, "")
    assert "node1 -> node2: moving" in ran.line("Group move")
    assert "on node1  moving" in ran.line("db-1")
    world.settle()
    ran = berthold("group", "move", group, "--show", "--data", data)
    assert ran.line("Group move").endswith(": done")
    assert "on node2  done" in ran.line("db-2")


@pytest.mark.parametrize(("word", "ends"), [("--resume", "done"), ("--back", "returned")])
def test_a_group_that_is_held_says_why_and_goes_either_way(
    berthold: Berthold, data: Path, world: World, group: str, word: str, ends: str
) -> None:
    hold(berthold, data, world, group)
    ran = berthold("group", "move", group, "--show", "--watch", "--data", data)
    assert ran.status == 1
    assert ran.line("Group move").endswith(": held")
    assert ran.line("node2: the disk [sdb] is full")
    assert ran.line("Repair what keeps it")
    assert "It is on its way: the whole group moves" in berthold("group", "show", group, "--data", data).text
    assert berthold("group", "move", group, word, "--data", data).status == 0
    world.settle()
    assert (
        berthold("group", "move", group, "--watch", "--show", "--data", data)
        .line("Group move")
        .endswith(ends)
    )


def test_whoever_watches_is_told_what_is_waited_for(
    berthold: Berthold, data: Path, world: World, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert berthold("group", "move", group, "--to", "node2", "--data", data).status == 0
    world.silent.add("node2")
    world.settle()
    looks = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == group_move.QUIET_LOOKS + 3:
            world.silent.clear()
            world.settle()

    monkeypatch.setattr(time, "sleep", sleep)
    ran = berthold("group", "move", group, "--show", "--watch", "--data", data)
    assert ran.status == 0
    for name in ("db-1", "db-2"):
        assert ran.line(f"The live-migration of {name} is at", "it waits for a host's answer")
    assert ran.text.count("it waits for a host's answer") == 2
    assert ran.line("Group move").endswith(": done")


def test_whoever_watches_sees_a_held_group_until_all_of_it_stands_still(
    berthold: Berthold, data: Path, world: World, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.faults_of["node2"].plan("refuse", verb="prepare", times=1)
    assert berthold("group", "move", group, "--to", "node2", "--data", data).status == 0
    world.silent.add("node1")
    world.settle()
    shown = berthold("group", "move", group, "--show", "--data", data)
    assert shown.line("Group move").endswith(": held")
    assert shown.text.count("on node1  moving") == 1, "the other is still on its way"

    def sleep(seconds: float) -> None:
        world.silent.clear()
        world.settle()

    monkeypatch.setattr(time, "sleep", sleep)
    ran = berthold("group", "move", group, "--show", "--watch", "--data", data)
    assert ran.status == 1
    assert ran.line("Group move").endswith(": held")
    assert ran.text.count("on node2  arrived") == 1


def test_a_group_waits_until_its_members_have_nothing_else_to_do(
    berthold: Berthold, data: Path, world: World, group: str
) -> None:
    one = next(row["id"] for row in world.rows("server") if row["name"] == "db-1")
    world.store.write_now(begin.begin, "reboot", one, world.by(), {})
    ran = berthold("group", "move", group, "--data", data)
    assert (ran.status, "the reboot of db-1" in ran.error) == (1, True)
    ran = berthold("group", "move", group, "--wait", "60", "--data", data)
    assert (ran.status, ran.error) == (0, "")
    assert "node1 -> ?: waiting" in ran.line("Group move")
    world.settle()
    ran = berthold("group", "move", group, "--show", "--data", data)
    assert ran.line("Group move").endswith("node1 -> node2: done")


def test_no_host_for_all_is_told_host_by_host(
    berthold: Berthold, data: Path, world: World, group: str
) -> None:
    world.store.write_now(hosts.set_disabled, world.host_id("node2"), True)
    ran = berthold("group", "move", group, "--data", data)
    assert ran.status == 1
    assert "No valid host was found" in ran.error
    assert "node2: host state: the host was disabled by an operator" in ran.error
    assert "node1: " in ran.error
    ran = berthold("group", "move", group, "--to", "node2", "--data", data)
    assert "node2: host state: the host was disabled by an operator" in ran.error
    assert "node1: " not in ran.error, "nobody asked for that one"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--to", "node9"), "node9 could not be found"),
        (("--to", "node1"), "can't be the same"),
        (("--to", "node2", "--back"), "Only one of"),
        (("--wait", "9", "--show"), "--wait goes with"),
        (("--resume",), "was never moved"),
        (("--show",), "was never moved"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_one_sentence(
    berthold: Berthold, data: Path, group: str, words: tuple[str, ...], why: str
) -> None:
    ran = berthold("group", "move", group, *words, "--data", data)
    assert ran.status == 1
    assert why in ran.error


def test_a_group_that_is_not_there(berthold: Berthold, data: Path, world: World) -> None:
    ran = berthold("group", "move", "gone", "--data", data)
    assert (ran.status, ran.error) == (1, "Instance group gone could not be found.")
