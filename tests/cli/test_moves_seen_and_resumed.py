"""`berthold move list` and `berthold move resume`."""

from __future__ import annotations

from pathlib import Path

from berthold.lab.world import World
from berthold.ledger import moves
from berthold.ledger.store import Tx
from commands import Berthold


def stuck(world: World) -> str:
    """A delete that its host refuses until it is stuck; the move's id."""
    server = world.boot("web-1", host="node1")
    world.faults_of["node1"].plan("refuse", verb="discard", times=99, reason="the disk [sdb] does not let go")
    move = world.delete(server)
    world.settle()
    assert world.move(move)["state"] == "stuck"
    return move


def test_a_list_of_nothing_says_so(berthold: Berthold, data: Path) -> None:
    ran = berthold("move", "list", "--data", data)
    assert (ran.status, ran.text) == (0, "Nothing is under way.\n")


def test_a_move_is_one_line_with_server_kind_line_and_owner(
    berthold: Berthold, data: Path, world: World
) -> None:
    server = world.boot("web-1", host="node1")
    move = world.live_migrate(server)
    fresh = berthold("move", "list", "--data", data).line(move)
    assert fresh.split()[1:4] == ["web-1", "live-migration", "running"]
    assert "claim target" in fresh
    assert "nobody" in fresh
    world.step(move)
    world.step(move)
    assert "conductor 0" in berthold("move", "list", "--data", data).line(move)
    world.settle()
    assert "Nothing" in berthold("move", "list", "--data", data).text


def test_what_waits_for_its_owner_has_nobody_who_works_on_it(
    berthold: Berthold, data: Path, world: World
) -> None:
    move = world.resize(world.boot("web-1"))
    world.settle()
    line = berthold("move", "list", "--data", data).line(move)
    assert "waiting" in line
    assert "nobody" not in line


def test_who_waits_for_a_place_is_seen_with_the_hosts_and_who_is_in_the_way(
    berthold: Berthold, data: Path, world: World
) -> None:
    group = world.group("anti-affinity")
    leaving, staying = (world.boot(f"web-{n}", group, host=f"node{n}") for n in (1, 2))
    world.delete(leaving)
    world.patience = 60.0
    move = world.live_migrate(staying)
    world.step(move)
    line = berthold("move", "list", "--data", data).line(move)
    assert "claim target (waits for 1 host)" in line
    assert "nobody" not in line
    assert "node1: group rule: web-1 on the move" in line


def test_the_last_trouble_is_told_while_the_line_is_tried_again_and_when_it_is_stuck(
    berthold: Berthold, data: Path, world: World
) -> None:
    server = world.boot("web-1", host="node1")
    world.faults_of["node1"].plan("refuse", verb="discard", times=99, reason="the disk [sdb] does not let go")
    move = world.delete(server)
    while not world.move(move)["attempt"]:
        world.step(move)
        world.obey("node1")
    again = berthold("move", "list", "--data", data).line(move)
    assert "(try 2)" in again
    assert "could not discard: the disk [sdb] does not let go" in again
    world.settle()
    assert "the disk [sdb] does not let go" in berthold("move", "list", "--data", data).line(move, "stuck")


def test_a_move_that_is_stuck_goes_on_when_it_is_resumed(
    berthold: Berthold, data: Path, world: World
) -> None:
    move = stuck(world)
    world.faults_of["node1"].forget()
    ran = berthold("move", "resume", move, "--data", data)
    assert (ran.status, ran.error) == (0, "")
    world.settle()
    assert world.move(move)["state"] == "done"
    assert world.problems() == []


def test_what_is_not_stuck_is_not_resumed(berthold: Berthold, data: Path, world: World) -> None:
    server = world.boot("web-1")
    move = world.live_migrate(server)
    ran = berthold("move", "resume", move, "--data", data)
    assert ran.status == 1
    assert f"Move {move} is running, not stuck" in ran.error
    assert world.move(move)["state"] == "running"
    world.settle()
    assert "is done, not stuck" in berthold("move", "resume", move, "--data", data).error


def test_an_unknown_move_is_said_to_be_unknown(berthold: Berthold, data: Path) -> None:
    ran = berthold("move", "resume", "web-1", "--data", data)
    assert ran.status == 1
    assert ran.error == "There is no move web-1.\n  what is under way is shown by: berthold move list"


def test_nobody_holds_a_lease_that_is_over(berthold: Berthold, data: Path, world: World) -> None:
    move = world.live_migrate(world.boot("web-1", host="node1"))
    world.step(move)

    def expire(tx: Tx) -> None:
        moves.renew(tx, world.conductor, [world.leases[move]], -1.0)

    world.store.write_now(expire)
    assert "nobody" in berthold("move", "list", "--data", data).line(move)
