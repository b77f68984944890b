"""What one does with a server on an ordinary day, and what is refused with which words."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from berthold.agent.protocol import Beat, Progress
from berthold.errors import Malformed, NotAllowed, NotFound, Unavailable, WrongState
from berthold.lab.furniture import add_volume
from berthold.lab.world import World, now, with_settings
from berthold.ledger import hosts, moves
from berthold.moves import abort, begin, look, marks
from berthold.moves.status import fault_of, migration_status
from berthold.records import progress


@pytest.fixture
def world() -> Iterator[World]:
    made = World(hosts=3, settings=with_settings(retry_first_s=0.1, retry_last_s=0.2, tries_max=3))
    yield made
    made.close()


def do(world: World, kind: str, server: str, **wish: Any) -> str:
    return world.store.write_now(begin.begin, kind, server, world.by(), wish)


def shown(world: World, server: str) -> tuple[str, str, str | None, int]:
    status = world.status(server)
    return status.status, status.vm_state, status.task_state, status.power_state


ADMIN = begin.By("root", "admin", "req-admin", is_admin=True)

# The move, what shows while it is under way, and what shows afterwards.
DAY = [
    ("stop", ("ACTIVE", "active", "powering-off", 1), ("SHUTOFF", "stopped", None, 4)),
    ("hard-reboot", ("SHUTOFF", "stopped", "rebooting_hard", 4), ("ACTIVE", "active", None, 1)),
    ("stop", ("ACTIVE", "active", "powering-off", 1), ("SHUTOFF", "stopped", None, 4)),
    ("start", ("SHUTOFF", "stopped", "powering-on", 4), ("ACTIVE", "active", None, 1)),
    ("reboot", ("REBOOT", "active", "rebooting", 1), ("ACTIVE", "active", None, 1)),
    ("hard-reboot", ("HARD_REBOOT", "active", "rebooting_hard", 1), ("ACTIVE", "active", None, 1)),
    ("pause", ("ACTIVE", "active", "pausing", 1), ("PAUSED", "paused", None, 3)),
    ("unpause", ("PAUSED", "paused", "unpausing", 3), ("ACTIVE", "active", None, 1)),
]


def test_a_day_in_the_life_of_a_server(world: World) -> None:
    server = world.boot("a")
    for kind, during, afterwards in DAY:
        do(world, kind, server)
        assert shown(world, server) == during
        world.settle()
        assert shown(world, server) == afterwards
        assert world.problems() == []
    done = [row["action"] for row in sorted(world.rows("action"), key=lambda row: row["number"])]
    assert done == ["create", "stop", "reboot", "stop", "start", "reboot", "reboot", "pause", "unpause"]
    told = [row["event"] for row in sorted(world.rows("event"), key=lambda row: row["number"])]
    assert told[-len(DAY) :] == [f"compute_{action}_instance" for action in done[1:]]
    assert {row["result"] for row in world.rows("event")} == {"Success"}


@pytest.mark.parametrize(
    ("condition", "kinds"),
    [
        ("active", ["start", "unpause"]),
        ("stopped", ["stop", "reboot", "pause", "unpause", "live-migration"]),
        ("paused", ["start", "stop", "reboot", "pause"]),
    ],
)
def test_what_a_server_cannot_do_now_is_a_conflict(world: World, condition: str, kinds: list[str]) -> None:
    server = world.boot("a")
    if condition != "active":
        do(world, {"stopped": "stop", "paused": "pause"}[condition], server)
        world.settle()
    for kind in kinds:
        with pytest.raises(WrongState, match=f"instance {server} while it is in vm_state {condition}"):
            do(world, kind, server)


# -- Volumes ------------------------------------------------------------------------------


def attach(world: World, server: str, volume: str, **more: Any) -> Any:
    return world.store.write_now(begin.attach_volume, server, world.by(), volume, **more)


def devices(world: World, server: str) -> list[str]:
    return [volume["device"] for volume in world.server(server)["volumes"]]


def test_a_device_name_is_free_and_a_freed_one_is_given_again(world: World) -> None:
    server = world.boot("a", image_id="cirros")
    volumes = [add_volume(world, f"v{number}") for number in range(4)]
    for volume in volumes[:3]:
        attach(world, server, volume)
        world.settle()
    assert devices(world, server) == ["/dev/vdb", "/dev/vdc", "/dev/vdd"]
    world.store.write_now(begin.detach_volume, server, world.by(), volumes[1])
    world.settle()
    assert attach(world, server, volumes[3])["device"] == "/dev/vdc"
    world.settle()
    assert sorted(devices(world, server)) == ["/dev/vdb", "/dev/vdc", "/dev/vdd"]


def test_a_device_name_that_is_asked_for_is_kept_or_refused(world: World) -> None:
    server = world.boot("a", image_id="cirros")
    one, two = add_volume(world, "one"), add_volume(world, "two")
    assert attach(world, server, one, device="sdf")["device"] == "/dev/sdf"
    world.settle()
    for taken in ("/dev/vda", "/dev/vdf"):
        with pytest.raises(WrongState, match=f"The supplied device path \\({taken}\\) is in use"):
            attach(world, server, two, device=taken)
    with pytest.raises(Malformed, match="is invalid"):
        attach(world, server, two, device="/etc/passwd")


def test_of_two_racers_for_a_device_one_waits(world: World) -> None:
    server = world.boot("a", image_id="cirros")
    attach(world, server, add_volume(world, "one"))
    with pytest.raises(WrongState, match="vm_state active and its attach-volume is under way"):
        attach(world, server, add_volume(world, "two"))


def test_a_volume_that_another_server_has_is_refused_without_a_trace(world: World) -> None:
    one, two = world.boot("a", image_id="cirros"), world.boot("b", image_id="cirros")
    volume = add_volume(world)
    attach(world, one, volume)
    world.settle()
    before = world.picture()
    attach(world, two, volume)
    world.settle()
    assert world.picture() == before
    assert world.status(two).status == "ACTIVE"
    told = max(world.rows("event"), key=lambda row: row["number"])
    assert (told["event"], told["result"]) == ("compute_attach_volume", "Error")
    assert "it cannot be attached" in told["details"]
    with pytest.raises(Malformed, match="is already attached to instance"):
        attach(world, one, volume)


def test_what_was_undone_can_be_attached_later_and_a_late_call_cannot(world: World) -> None:
    server = world.boot("a", image_id="cirros")
    volume = add_volume(world)
    world.faults_of["node1"].plan("refuse", verb="attach_volume")
    world.faults_of["node2"].plan("refuse", verb="attach_volume")
    world.faults_of["node3"].plan("refuse", verb="attach_volume")
    attach(world, server, volume)
    (undone,) = world.unfinished()
    world.settle()
    assert world.move(undone)["state"] == "undone"
    late = world.companions.neighbours.volumes.attach(volume, server, undone, device="/dev/vdb")
    with pytest.raises(WrongState):
        now(late)
    world.faults_of[world.home(server) or ""].forget()
    attach(world, server, volume)
    world.settle()
    assert devices(world, server) == ["/dev/vdb"]


def test_the_disk_that_a_server_boots_from_stays(world: World) -> None:
    server = world.boot("a", volumes=[{"volume_id": add_volume(world), "boot_index": 0}])
    (volume,) = world.server(server)["volumes"]
    with pytest.raises(Malformed, match="Cannot detach a root device volume"):
        world.store.write_now(begin.detach_volume, server, world.by(), volume["volume_id"])
    with pytest.raises(NotFound, match="is not attached to volume nothing"):
        world.store.write_now(begin.detach_volume, server, world.by(), "nothing")


# -- Locks and states ---------------------------------------------------------------------


def test_a_locked_server_obeys_admins_only(world: World) -> None:
    server = world.boot("a")
    world.store.write_now(marks.lock, server, world.by(), "do not touch")
    assert world.server(server)["locked_reason"] == "do not touch"
    for kind in ("stop", "delete", "live-migration"):
        with pytest.raises(WrongState, match=f"Instance {server} is locked"):
            do(world, kind, server)
    world.store.write_now(begin.begin, "stop", server, ADMIN, {})
    world.settle()
    world.store.write_now(marks.unlock, server, world.by())
    do(world, "start", server)
    world.settle()
    assert world.status(server).status == "ACTIVE"
    assert world.server(server)["details"] == {}


def test_an_admins_lock_is_not_its_owners_to_open(world: World) -> None:
    server = world.boot("a")
    world.store.write_now(marks.lock, server, ADMIN)
    world.store.write_now(marks.lock, server, world.by(), "mine too")
    with pytest.raises(NotAllowed):
        world.store.write_now(marks.unlock, server, world.by())
    world.store.write_now(marks.unlock, server, ADMIN)
    assert not world.server(server)["locked"]


def test_a_reset_says_what_a_server_is_and_leaves_its_claim(world: World) -> None:
    server = world.boot("a")
    claims = world.claims(server)
    world.store.write_now(marks.reset_state, server, "error")
    assert shown(world, server)[:2] == ("ERROR", "error")
    with pytest.raises(WrongState):
        do(world, "live-migration", server)
    world.store.write_now(marks.reset_state, server, "active")
    assert world.claims(server) == claims
    world.store.write_now(marks.reset_state, server, "error")
    do(world, "hard-reboot", server)
    world.settle()
    assert shown(world, server) == ("ACTIVE", "active", None, 1)
    assert world.problems() == []


def test_a_reset_never_lies(world: World) -> None:
    server = world.boot("a")
    world.resize(server)
    with pytest.raises(WrongState, match="wait until it has ended"):
        world.store.write_now(marks.reset_state, server, "error")
    world.settle()
    with pytest.raises(WrongState, match="confirm or revert it first"):
        world.store.write_now(marks.reset_state, server, "active")
    world.confirm(server)
    world.settle()
    do(world, "stop", server)
    world.settle()
    with pytest.raises(WrongState, match="it is stopped; start it instead"):
        world.store.write_now(marks.reset_state, server, "active")
    nowhere = world.boot("b", host="node1", flavor={**world.server(server)["flavor"], "vcpus": 99})
    assert world.status(nowhere).status == "ERROR"
    with pytest.raises(WrongState, match="it is on no host"):
        world.store.write_now(marks.reset_state, nowhere, "active")
    with pytest.raises(WrongState, match="it is on no host"):
        do(world, "hard-reboot", nowhere)


# -- Moves that are stuck -----------------------------------------------------------------


def stuck_delete(world: World) -> tuple[str, str]:
    server = world.boot("a")
    for faults in world.faults_of.values():
        faults.plan("refuse", verb="discard", times=99, reason="the disk does not let go")
    move = do(world, "delete", server)
    world.settle()
    return server, move


def test_a_stuck_move_shows_why_and_goes_on_when_it_is_told_to(world: World) -> None:
    server, move = stuck_delete(world)
    assert world.move(move)["state"] == "stuck"
    assert world.status(server).status == "ERROR"
    fault = fault_of(world.server(server), world.move(move))
    assert (fault["code"], fault["message"]) == (500, "a host could not remove what it holds of the server")
    assert "could not discard: the disk does not let go" in fault["details"]
    world.store.write_now(moves.unstick, move)
    world.settle()
    assert world.move(move)["state"] == "stuck", "nothing was repaired"
    for faults in world.faults_of.values():
        faults.forget()
    world.store.write_now(moves.unstick, move)
    assert world.move(move)["failure"] == {}
    world.settle()
    assert world.status(server).status == "DELETED"
    assert world.problems() == []


def test_a_move_that_got_stuck_on_its_way_back_goes_on_back(world: World) -> None:
    server = world.boot("a")
    before = world.picture()
    for faults in world.faults_of.values():
        faults.plan("refuse", verb="send", times=1, reason="no bandwidth")
        faults.plan("refuse", verb="discard", times=99, reason="the disk does not let go")
    move = world.live_migrate(server, host=None if world.home(server) != "node1" else "node2")
    world.settle()
    assert world.move(move)["state"] == "stuck"
    for faults in world.faults_of.values():
        faults.forget()
    world.store.write_now(moves.unstick, move)
    before_that = world.move(move)["failure"]["message"]
    assert (world.move(move)["state"], before_that) == (
        "undoing",
        "a host could not send the server's memory",
    )
    world.settle()
    assert world.status(server).status == "ACTIVE"
    if world.move(move)["state"] == "undone":
        assert world.picture() == before
    assert world.problems() == []


def test_only_what_is_stuck_can_be_resumed(world: World) -> None:
    world.boot("a")
    with pytest.raises(WrongState, match="is done, not stuck"):
        world.store.write_now(moves.unstick, world.moves()[0]["id"])
    with pytest.raises(NotFound):
        world.store.write_now(moves.unstick, "nothing")


# -- The console --------------------------------------------------------------------------


def test_the_console_is_read_beside_whatever_else_goes_on(world: World) -> None:
    server = world.boot("web")
    do(world, "reboot", server)
    asked = world.store.write_now(look.ask_console, server, 3)
    world.settle()
    text = look.output_of(server, world.store.read_now(look.seen, asked))
    assert text.split("\n")[-1] == "web login:"
    assert len(text.split("\n")) == 3
    assert world.status(server).status == "ACTIVE"


def test_a_console_that_nobody_answers_for_is_unavailable_and_leaves_nothing(world: World) -> None:
    server = world.boot("web")
    asks = world.rows("ask")
    with pytest.raises(Unavailable, match="does not answer"):
        asyncio.run(look.console(world.store, server, None, wait_s=0.0))
    assert world.rows("ask") == asks
    world.store.write_now(hosts.fence, world.host_id(world.home(server) or ""))
    with pytest.raises(Unavailable):
        world.store.write_now(look.ask_console, server, None)


# -- Aborting -----------------------------------------------------------------------------


def migrating(world: World, line: str) -> tuple[str, str]:
    """A live migration of which that line is next, its asks unanswered."""
    server = world.boot("a")
    move = world.live_migrate(server)
    for _ in range(20):
        if world.move(move)["line"] == ["claim", "check", "prepare", "send"].index(line):
            return server, move
        world.step(move)
        if world.move(move)["line"] != ["claim", "check", "prepare", "send"].index(line):
            for name in world.agents:
                world.obey(name)
    raise AssertionError(f"never came to {line}")


def stop_it(world: World, server: str, move: str, **more: Any) -> None:
    world.store.write_now(abort.abort, server, world.move(move)["number"], world.by(), **more)


def cancelled(world: World) -> dict[str, Any]:
    action = next(row for row in world.rows("action") if row["action"] == "live_migration_cancel")
    event = next(row for row in world.rows("event") if row["action"] == action["number"])
    return {"event": event["event"], "result": event["result"], "message": action["message"]}


@pytest.mark.parametrize("line", ["prepare", "send"])
def test_an_aborted_migration_leaves_no_trace(world: World, line: str) -> None:
    server, move = migrating(world, line)
    home = world.home(server)
    stop_it(world, server, move)
    stop_it(world, server, move)
    world.step(move)
    world.settle()
    assert world.move(move)["state"] == "undone"
    assert migration_status(world.move(move)) == "cancelled"
    assert shown(world, server) == ("ACTIVE", "active", None, 1)
    assert world.home(server) == home
    assert [name for name in world.agents if world.ground.states(name)] == [home]
    assert world.problems() == []
    assert cancelled(world) == {
        "event": "compute_live_migration_abort",
        "result": "Success",
        "message": None,
    }


@pytest.mark.parametrize("heard", [True, False], ids=["its answer was heard", "its answer is on its way"])
def test_an_abort_that_comes_when_the_guest_has_moved_comes_too_late(world: World, heard: bool) -> None:
    server, move = migrating(world, "send")
    home = world.home(server) or ""
    (ask,) = world.asks(home)
    answer = now(world.agents[home].do(ask))
    if heard:
        now(world.door.answer(answer))
    stop_it(world, server, move)
    world.settle()
    assert migration_status(world.move(move)) == "completed"
    assert world.home(server) != home
    assert world.ground.runners(server) == [world.home(server)]
    assert world.problems() == []
    assert cancelled(world)["result"] == "Error"


def test_an_abort_is_carried_out_by_whoever_works_on_the_move_next(world: World) -> None:
    server, move = migrating(world, "send")
    stop_it(world, server, move)
    world.kill_conductor()
    world.step(move)
    world.settle()
    assert migration_status(world.move(move)) == "cancelled"
    assert world.problems() == []


def test_only_a_migration_that_can_turn_back_is_aborted(world: World) -> None:
    server = world.boot("a")
    with pytest.raises(WrongState, match="Cannot 'abort live migration'"):
        world.store.write_now(abort.abort, server, 1, world.by())
    move = world.live_migrate(server)
    number = world.move(move)["number"]
    with pytest.raises(NotFound):
        world.store.write_now(abort.abort, server, number + 1, world.by())
    with pytest.raises(Malformed, match=r"is accepted\. Cannot abort live migration"):
        stop_it(world, server, move)
    while world.move(move)["line"] < 4:
        world.step(move)
        for name in world.agents:
            world.obey(name)
    with pytest.raises(Malformed, match="is post-migrating"):
        stop_it(world, server, move)
    world.settle()
    with pytest.raises(WrongState):
        stop_it(world, server, move)


def test_before_2_65_only_a_running_migration_is_aborted(world: World) -> None:
    server, move = migrating(world, "prepare")
    with pytest.raises(Malformed, match="is preparing"):
        stop_it(world, server, move, only=frozenset({"running"}))


# -- Progress -----------------------------------------------------------------------------


def test_a_migration_tells_how_far_it_has_come_while_it_is_under_way(world: World) -> None:
    server, move = migrating(world, "send")
    home = world.home(server) or ""
    (ask,) = world.asks(home)
    far = Progress(1000, 400, 600)
    other = next(name for name in world.agents if name != home)
    for name, told in ((home, far), (other, Progress(1, 1, 1))):
        epoch = world.agents[name].welcome
        assert epoch is not None
        now(world.door.heartbeat(Beat(epoch.host, epoch.epoch, {ask.id: told})))
        now(world.door.tick())
        row = world.store.read_now(progress.of, [move])[move]
        assert (row["memory_total_bytes"], row["memory_processed_bytes"]) == (1000, 400)
    world.settle()
    welcome = world.agents[home].welcome
    assert welcome is not None
    now(world.door.heartbeat(Beat(welcome.host, welcome.epoch, {ask.id: far})))
    now(world.door.tick())
    assert world.store.read_now(progress.of, [move]) == {}
