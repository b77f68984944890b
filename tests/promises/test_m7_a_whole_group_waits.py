"""M7, G2: a whole group waits for a host, holds nothing until it has one, and keeps its turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from berthold.errors import NoValidHost, Refused, WrongState
from berthold.lab.judge import judge
from berthold.lab.world import LARGE, World, now
from berthold.ledger import hosts
from berthold.moves import abort, begin, group_placing, group_status, group_waiting, marks, placing
from by_hand import (
    assert_quiet,
    ended,
    evacuate,
    events,
    holds,
    lose,
    outcome,
    shown,
    step_until,
    under_way,
    why,
)
from whole_group import back, forward, homes, moving

NAMES = ("db-1", "db-2")


@pytest.fixture
def world() -> Iterator[World]:
    """A group of two lives on node1; node2 has room for two, node3 for one."""
    world = World(hosts=0)
    for name, vcpus in (("node1", 8), ("node2", 2), ("node3", 1)):
        world.add_host(name, vcpus=vcpus, memory_mb=8192)
    yield world
    assert world.problems() == []
    assert judge(world.rows("history")) == []
    world.close()


@pytest.fixture
def group(world: World) -> str:
    group = world.group("affinity", name="db")
    for name in NAMES:
        world.boot(name, group, host="node1")
    return group


def server(world: World, name: str) -> str:
    return str(next(row["id"] for row in world.rows("server") if row["name"] == name))


def move(
    world: World, group: str, seconds: float = 60.0, host: str | None = None, admin: bool = False
) -> str:
    """What the API does with the request; the group move's id."""
    by = begin.By("user", "project", f"req-{seconds:g}", is_admin=admin, wait_s=seconds)
    return now(group_placing.move_group(world.store, world.runner.watch, world.settings, group, by, host))


def status(world: World, group: str) -> str:
    return str(world.store.read_now(group_status.look, group)["status"])


def reason(world: World, group: str) -> str:
    return str(world.store.read_now(group_status.look, group)["reason"])


def leader(world: World) -> str:
    """The move of the member that waits for all."""
    (found,) = [row["id"] for row in world.moves() if row["group_move_id"] and row["state"] == "running"]
    return str(found)


def waits_for(world: World, move: str) -> set[str]:
    names = {world.host_id(name): name for name in world.agents}
    return {names[row["host_id"]] for row in world.rows("queue") if row["move_id"] == move}


def room_may_come(world: World, host: str = "node2") -> str:
    """A server fills the host, and is being deleted; the delete, with which nobody goes on."""
    old = world.boot("old", flavor=LARGE, host=host)
    deleted = world.delete(old)
    step_until(world, deleted, "let volumes go")
    return deleted


def let_it_end(world: World, move: str) -> None:
    while move in world.unfinished():
        world.step(move)
        for name in world.agents:
            world.obey(name)


def waiting(world: World, group: str, **more: object) -> str:
    """The group waits for room on node2; the delete that is in its way."""
    deleted = room_may_come(world)
    move(world, group, **more)  # type: ignore[arg-type]
    world.step(leader(world))
    assert waits_for(world, leader(world)) == {"node2"}
    return deleted


# -- For what it waits --------------------------------------------------------------------


def test_it_waits_for_room_and_holds_nothing_meanwhile(world: World, group: str) -> None:
    deleted = room_may_come(world)
    before = world.picture()
    move(world, group)
    world.step(leader(world))
    assert waits_for(world, leader(world)) == {"node2"}
    assert world.picture() == before
    assert (status(world, group), moving(world, group)) == ("waiting", None)
    assert "1 host: capacity" in reason(world, group)
    assert shown(world, server(world, "db-2")) == ("ACTIVE", None), "only one waits for all"
    let_it_end(world, deleted)
    world.settle()
    assert status(world, group) == "done"
    assert homes(world, [server(world, name) for name in NAMES]) == {"node2"}
    assert_quiet(world)


def test_it_waits_for_a_member_that_is_busy(world: World, group: str) -> None:
    reboot = world.store.write_now(begin.begin, "reboot", server(world, "db-1"), world.by(), {})
    move(world, group)
    assert world.move(leader(world))["server_id"] == server(world, "db-2")
    world.step(leader(world))
    assert waits_for(world, leader(world)) == {"node2"}
    assert "group rule" in reason(world, group)
    let_it_end(world, reboot)
    world.settle()
    assert status(world, group) == "done"
    assert homes(world, [server(world, name) for name in NAMES]) == {"node2"}


def test_where_all_are_busy_it_looks_for_a_host_as_soon_as_one_is_not(world: World, group: str) -> None:
    for name in NAMES:
        world.store.write_now(begin.begin, "reboot", server(world, name), world.by(), {})
    move(world, group)
    assert not world.attend()
    assert (status(world, group), world.rows("queue")) == ("waiting", [])
    assert "as soon as one" in reason(world, group)
    world.settle()
    assert status(world, group) == "done"


def test_who_joins_meanwhile_goes_with_the_others(world: World, group: str) -> None:
    """Its group is open as long as it waits; the new member is busy until it runs."""
    world.add_host("node4", vcpus=3)
    room_may_come(world, "node4")
    move(world, group, host="node4")
    late_member = world.create("db-3", group)
    world.settle()
    assert status(world, group) == "done"
    assert homes(world, [*(server(world, name) for name in NAMES), late_member]) == {"node4"}


@pytest.mark.parametrize("at_rest", ["paused", "stuck", "fenced", "no room"])
def test_what_is_at_rest_is_not_waited_for(world: World, group: str, at_rest: str) -> None:
    if at_rest == "paused":
        world.store.write_now(begin.begin, "pause", server(world, "db-1"), world.by(), {})
        world.settle()
    elif at_rest == "fenced":
        lose(world, "node1")
        world.store.write_now(hosts.fence, world.host_id("node1"))
    elif at_rest == "no room":
        world.boot("old", host="node2")
    else:
        world.store.write_now(begin.begin, "reboot", server(world, "db-1"), world.by(), {})
        stuck(world, under_way(world, server(world, "db-1")))
    with pytest.raises((WrongState, NoValidHost), match=placing.NO_USE):
        move(world, group)
    assert world.rows("group_move") == []


def stuck(world: World, move: str) -> None:
    world.store.write_now(
        lambda tx: tx.exec_driver_sql(
            'UPDATE move SET state = \'stuck\', failure = \'{"was": "running", "before": {}}\''
            f" WHERE id = '{move}'"
        )
    )


def test_a_group_that_waits_or_is_on_its_way_is_not_asked_twice(world: World, group: str) -> None:
    deleted = waiting(world, group)
    for seconds in (0.0, 60.0):
        with pytest.raises(WrongState, match="waits for a host already"):
            move(world, group, seconds)
    with pytest.raises(WrongState, match="goes by itself"):
        forward(world, group)
    let_it_end(world, deleted)
    world.step(leader(world))
    with pytest.raises(WrongState, match="on its way already"):
        move(world, group)
    world.settle()


# -- How long, and for whom ---------------------------------------------------------------


def test_it_waits_no_longer_than_it_said_and_leaves_no_trace(world: World, group: str) -> None:
    deleted = room_may_come(world)
    before = world.picture()
    move(world, group, 5.0)
    lead = leader(world)
    for _ in range(6):
        world.step(lead)
        world.pass_time(1.0)
    while lead in world.unfinished():
        world.step(lead)
    assert world.attend()
    assert status(world, group) == "refused"
    assert "It has waited 5 s for a place" in reason(world, group)
    assert (why(world, lead), outcome(world, lead)) == (reason(world, group), "Error")
    assert events(world, lead) == [("berthold_wait_for_place", "Error")]
    assert world.picture() == before
    with pytest.raises(WrongState, match="given no host"):
        back(world, group)
    let_it_end(world, deleted)
    world.settle()
    assert homes(world, [server(world, name) for name in NAMES]) == {"node1"}
    move(world, group, 0.0)
    world.settle()
    assert status(world, group) == "done"


def test_where_all_stay_busy_it_ends_in_time_too(world: World, group: str) -> None:
    for name in NAMES:
        world.store.write_now(begin.begin, "reboot", server(world, name), world.by(), {})
    move(world, group, 5.0)
    world.pass_time(6.0)
    assert world.attend()
    assert status(world, group) == "refused"
    assert "could look for a host" in reason(world, group)
    world.settle()


def test_the_member_that_waits_for_all_is_deleted_and_another_does_so_in_the_time_that_is_left(
    world: World, group: str
) -> None:
    deleted = waiting(world, group, host="node2")
    first = leader(world)
    world.pass_time(10.0)
    world.delete(world.move(first)["server_id"])
    assert world.attend()
    second = leader(world)
    assert second != first
    assert world.move(second)["wish"]["wait_s"] == pytest.approx(50.0)
    let_it_end(world, deleted)
    world.settle()
    assert status(world, group) == "done"
    assert world.home(server(world, "db-2")) == "node2"
    assert_quiet(world)


def test_all_are_deleted_and_it_is_over(world: World, group: str) -> None:
    waiting(world, group)
    for name in NAMES:
        world.delete(server(world, name))
    world.settle()
    assert status(world, group) == "refused"
    assert_quiet(world)


def test_its_group_is_deleted(world: World, group: str) -> None:
    waiting(world, group)
    lead = leader(world)
    world.delete_group(group)
    world.settle()
    assert "group was deleted" in why(world, lead)
    assert {row["state"] for row in world.rows("group_move")} == {"done"}
    assert homes(world, [server(world, name) for name in NAMES]) == {"node1"}
    assert_quiet(world)


@pytest.mark.parametrize("how", ["back", "abort"])
def test_it_is_taken_back(world: World, group: str, how: str) -> None:
    waiting(world, group)
    lead = world.move(leader(world))
    if how == "back":
        back(world, group)
    else:
        world.store.write_now(abort.abort, lead["server_id"], lead["number"], world.by())
    world.settle()
    assert status(world, group) == "refused"
    assert ended(world, lead["id"]) == "cancelled"
    assert homes(world, [server(world, name) for name in NAMES]) == {"node1"}
    assert_quiet(world)


def test_its_conductor_dies_and_another_one_goes_on(world: World, group: str) -> None:
    deleted = waiting(world, group)
    world.kill_conductor()
    let_it_end(world, deleted)
    world.settle()
    assert status(world, group) == "done"


def test_its_host_is_lost_and_its_members_can_be_evacuated(world: World, group: str) -> None:
    waiting(world, group)
    lead = leader(world)
    world.add_host("node5", vcpus=8)
    lose(world, "node1")
    world.store.write_now(hosts.fence, world.host_id("node1"))
    while lead in world.unfinished():
        world.step(lead)
    world.attend()
    assert "is fenced: evacuate it" in why(world, lead)
    for name in NAMES:
        evacuate(world, server(world, name))
    world.settle()
    (lives,) = homes(world, [server(world, name) for name in NAMES])
    assert lives not in ("node1", None)


def test_a_locked_member_goes_if_an_admin_said_so(world: World, group: str) -> None:
    world.store.write_now(marks.lock, server(world, "db-1"), world.by(), None)
    deleted = room_may_come(world)
    with pytest.raises(WrongState, match="is locked"):
        move(world, group)
    move(world, group, admin=True)
    world.step(leader(world))
    let_it_end(world, deleted)
    world.settle()
    assert status(world, group) == "done"


# -- Not in a circle; first come, first served --------------------------------------------


def test_a_member_that_waits_itself_is_not_waited_for(world: World, group: str) -> None:
    world.delete(server(world, "db-2"))
    world.boot("small", host="node3")
    room_may_come(world)
    world.patience = 60.0
    alone = world.live_migrate(server(world, "db-1"))
    world.step(alone)
    assert waits_for(world, alone) == {"node2"}
    with pytest.raises(WrongState, match=placing.IN_A_CIRCLE):
        move(world, group)
    world.settle()
    assert ended(world, alone) == "completed"


def test_nobody_waits_for_a_group_that_waits(world: World, group: str) -> None:
    """Its homes are not about to be free: whoever wants room there is told no."""
    world.boot("large", flavor={**LARGE, "vcpus": 6}, host="node1")
    waiting(world, group)
    world.patience = 60.0
    late = world.create("late", host="node1")
    world.step(under_way(world, late))
    assert placing.IN_A_CIRCLE in why(world, under_way(world, late))
    world.settle()


def test_who_waits_for_room_does_not_pass_a_group_that_came_first(world: World, group: str) -> None:
    deleted = waiting(world, group)
    world.patience = 60.0
    late = world.create("late", host="node2")
    world.step(under_way(world, late))
    let_it_end(world, deleted)
    world.step(under_way(world, late))
    assert world.claims(late) == [], "there is room for it, but the group came first"
    lead = leader(world)
    world.step(lead)
    assert holds(world, server(world, "db-1")) == {"node1": "home", "node2": "target"}
    world.settle()
    assert status(world, group) == "done"


def test_a_group_that_may_wait_does_not_pass_who_came_first(world: World, group: str) -> None:
    deleted = room_may_come(world)
    world.patience = 60.0
    first = world.create("first", host="node2")
    world.step(under_way(world, first))
    let_it_end(world, deleted)
    move(world, group, 60.0)
    assert status(world, group) == "waiting", "there is room, but somebody came first"
    world.step(leader(world))
    world.step(under_way(world, first))
    assert holds(world, first) == {"node2": "target"}
    world.settle()
    assert status(world, group) == "refused"
    assert "2 hosts: capacity" in reason(world, group)
    (member,) = world.store.read_now(group_status.look, group)["members"]
    assert (member["status"], sorted(member["hosts"])) == ("stayed", ["node1", "node2", "node3"])


def test_a_group_that_would_not_wait_takes_what_is_free(world: World, group: str) -> None:
    deleted = room_may_come(world)
    world.patience = 60.0
    first = world.create("first", host="node2")
    world.step(under_way(world, first))
    let_it_end(world, deleted)
    move(world, group, 0.0)
    assert status(world, group) == "moving"
    world.settle()


def test_it_is_refused_at_once_if_it_may_not_wait_and_told_that_it_could(world: World, group: str) -> None:
    room_may_come(world)
    with pytest.raises(NoValidHost, match="a group move may wait for it"):
        move(world, group, 0.0)
    assert world.rows("group_move") == []
    world.settle()


def test_of_two_requests_at_once_one_waits(world: World, group: str) -> None:
    """The second looks while there is none yet; the row says that there is one."""
    room_may_come(world)
    by = world.by()
    world.store.write_now(group_waiting.ask, group, by, None)
    with pytest.raises((Refused, WrongState), match="waits"):
        world.store.write_now(group_waiting.ask, group, by, None)
    world.settle()
