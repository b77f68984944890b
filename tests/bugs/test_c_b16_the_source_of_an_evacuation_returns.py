"""C-b01, C-b08, C-b12, C-b14, C-b16, C-b17, C-b23: a host that was evacuated comes back, or does not.

The stories: the host returns while the rebuild is under way and starts its old guest (Launchpad
nova 1764883, 2085975); it is forced up with evacuated guests still there (1922053); a server that
was evacuated and then deleted keeps it from starting (1794996, 1687479); a host that never returns
can never be removed (1829479); an audit in the middle of it drops claims (1896463); a host that
returns under another name destroys all its guests (1471887); a live migration's source dies at its
very end and both hosts run the guest (kubevirt 13112, 16622).

Right: as long as the host has not said that a guest is gone, the claim that was left there stays, and
the host takes nothing. What it left is removed when it returns, and nothing else ever is. What
makes it so: the ask to remove it is written with the claim, waits for the host's next epoch, and
its answer alone releases the claim (M1, M5).
"""

from __future__ import annotations

import msgspec
import pytest
from structlog.testing import capture_logs

from berthold.agent.daemon import Daemon
from berthold.agent.protocol import Fenced, Guest, Hello, Report, Take
from berthold.errors import Malformed, NotFound, Refused, WrongState
from berthold.lab.world import World, now
from berthold.ledger import hosts
from berthold.moves import begin, left
from by_hand import (
    MakeWorld,
    ended,
    evacuate,
    guest,
    holds,
    host_status,
    lose,
    shown,
    step_until,
    under_way,
    used,
)


def dead(make_world: MakeWorld) -> tuple[World, str]:
    """A server on node1, which has died."""
    world = make_world(node1=4, node2=4)
    one = world.boot("one", world.group("anti-affinity"), host="node1")
    lose(world, "node1")
    return world, one


@pytest.mark.parametrize(
    "line", ["claim target", "rebuild on target", "leave source behind", "move ports", "settle"]
)
def test_it_returns_while_the_rebuild_is_under_way(make_world: MakeWorld, line: str) -> None:
    world, one = dead(make_world)
    move = evacuate(world, one)
    step_until(world, move, line)
    world.restart_agent("node1")
    while world.obey("node1"):
        pass
    with pytest.raises(Malformed, match="being evacuated"):
        world.store.write_now(hosts.unfence, world.host_id("node1"))
    if line in ("claim target", "rebuild on target"):
        assert guest(world, "node1", one) == ("stopped", 1), "it may still be the only copy"
    world.settle()
    assert shown(world, one) == ("ACTIVE", None)
    assert holds(world, one) == {"node2": "home"}
    assert world.ground.runners(one) == ["node2"]
    assert guest(world, "node1", one) is None
    assert ended(world, move) == "completed"
    if host_status(world, "node1") == "fenced":  # it was back before there was anything to clean
        world.store.write_now(hosts.unfence, world.host_id("node1"))
        world.settle()
    assert host_status(world, "node1") == "up"


def test_it_cannot_be_forced_up_before_it_is_clean(make_world: MakeWorld) -> None:
    world, one = dead(make_world)
    move = evacuate(world, one)
    world.settle()
    assert ended(world, move) == "done"
    with pytest.raises(Malformed, match="not yet removed"):
        world.store.write_now(hosts.unfence, world.host_id("node1"))
    assert (used(world, "node1"), used(world, "node2")) == (1, 1)
    world.restart_agent("node1")
    assert host_status(world, "node1") == "cleaning"
    two = world.create("two", host="node1")
    world.step(world.moves()[-1]["id"])
    assert holds(world, two) == {}, "a host that cleans takes nothing"
    world.settle()
    assert host_status(world, "node1") == "up"
    assert ended(world, move) == "completed"
    assert used(world, "node1") == 0


def test_the_server_was_deleted_meanwhile(make_world: MakeWorld) -> None:
    world, one = dead(make_world)
    evacuate(world, one)
    world.settle()
    world.delete(one)
    world.settle()
    assert shown(world, one) == ("DELETED", None)
    assert holds(world, one) == {"node1": "left"}
    world.restart_agent("node1")
    world.settle()
    assert world.rows("claim") == []
    assert world.rows("seat") == []
    assert guest(world, "node1", one) is None
    assert host_status(world, "node1") == "up"


def test_a_server_that_was_deleted_on_its_dead_host_is_removed_there_too(make_world: MakeWorld) -> None:
    world, one = dead(make_world)
    world.store.write_now(hosts.fence, world.host_id("node1"))
    world.delete(one)
    world.settle()
    assert shown(world, one) == ("DELETED", None)
    assert holds(world, one) == {"node1": "left"}
    world.restart_agent("node1")
    world.settle()
    assert (world.rows("claim"), guest(world, "node1", one)) == ([], None)


def test_a_host_that_never_returns_is_removed_with_what_it_left(make_world: MakeWorld) -> None:
    world, one = dead(make_world)
    node1 = world.host_id("node1")
    with pytest.raises(WrongState, match="still has servers"):
        world.store.write_now(left.forget_host, node1)
    move = evacuate(world, one)
    step_until(world, move, "move ports")
    with pytest.raises(WrongState, match="migrations"):
        world.store.write_now(left.forget_host, node1)
    world.settle()
    world.store.write_now(left.forget_host, node1)
    assert holds(world, one) == {"node2": "home"}
    assert "node1" not in {row["name"] for row in world.rows("host")}
    assert ended(world, move) == "completed"
    with pytest.raises(NotFound):
        world.store.write_now(left.forget_host, node1)
    del world.agents["node1"]


def test_a_refusal_to_remove_is_asked_again(make_world: MakeWorld) -> None:
    world, one = dead(make_world)
    evacuate(world, one)
    world.settle()
    world.faults_of["node1"].plan("refuse", verb="discard")
    world.restart_agent("node1")
    world.settle()
    assert (host_status(world, "node1"), holds(world, one)["node1"]) == ("cleaning", "left")
    report(world, "node1")
    report(world, "node1")  # what is asked already is not asked twice
    assert len(world.asks("node1")) == 1
    world.settle()
    assert (host_status(world, "node1"), holds(world, one)) == ("up", {"node2": "home"})


def report(world: World, name: str) -> None:
    welcome = world.agents[name].welcome
    assert welcome is not None
    said = Report(welcome.host, welcome.epoch, world.agents[name].driver.guests())
    now(world.door.report(said))


def test_nothing_that_it_says_at_its_old_epoch_is_heard(make_world: MakeWorld) -> None:
    world, one = dead(make_world)
    evacuate(world, one)
    world.settle()
    with pytest.raises(Fenced):
        world.asks("node1")
    assert guest(world, "node1", one) == ("stopped", 1)
    world.restart_agent("node1")
    world.settle()


def test_guests_that_nobody_knows_are_left_alone(make_world: MakeWorld) -> None:
    world, one = dead(make_world)
    here = world.ground.place("node1", one)
    assert here is not None
    evacuate(world, one)
    world.settle()
    world.ground.put("node1", _another(here.guest), "stopped", disks=True)
    world.restart_agent("node1")
    with capture_logs() as logs:
        report(world, "node1")
    assert {
        "event": "guest without claim",
        "log_level": "warning",
        "host": "node1",
        "server": "nobody-knows-it",
        "state": "stopped",
    } in logs
    world.settle()
    assert world.ground.states("node1") == {"nobody-knows-it": "stopped"}
    assert host_status(world, "node1") == "up"
    world.ground.remove("node1", "nobody-knows-it")


def _another(known: Guest) -> Guest:
    return msgspec.structs.replace(known, server="nobody-knows-it")


def test_another_machine_under_its_name_is_refused_while_servers_are_claimed_there(
    make_world: MakeWorld,
) -> None:
    world, one = dead(make_world)
    evacuate(world, one)
    world.settle()
    hello = world.agents["node1"].driver.hello()
    stranger = Hello(name="node1", key="another", inventory=hello.inventory)
    with pytest.raises(Fenced, match="another machine"):
        now(world.door.register(stranger))
    world.restart_agent("node1")
    world.settle()
    assert host_status(world, "node1") == "up"


@pytest.mark.parametrize("is_dead", [False, True], ids=["it is renamed", "it was evacuated, and is renamed"])
def test_a_machine_is_refused_under_another_name_while_servers_are_claimed_on_it(
    make_world: MakeWorld, is_dead: bool
) -> None:
    world, one = dead(make_world) if is_dead else (make_world(node1=4, node2=4), "")
    if is_dead:
        evacuate(world, one)
        world.settle()
    else:
        one = world.boot("one", host="node1")
    before, there = holds(world, one), guest(world, "node1", one)
    renamed = msgspec.structs.replace(world.agents["node1"].driver.hello(), name="node1b")
    with pytest.raises(Fenced, match="registered as node1 and servers are claimed there"):
        now(world.door.register(renamed))
    assert {row["name"] for row in world.rows("host")} == {"node1", "node2"}
    assert (holds(world, one), guest(world, "node1", one)) == (before, there)
    world.restart_agent("node1")
    world.settle()
    world.delete(one)
    world.settle()
    assert now(world.door.register(renamed)).epoch == 1  # with nothing on it, it is a host like any other


def test_a_machine_that_has_lost_its_key_and_its_name_destroys_nothing(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4)
    one = world.boot("one", host="node1")
    hello = world.agents["node1"].driver.hello()
    renamed = now(world.door.register(msgspec.structs.replace(hello, name="node1b", key="new")))
    with capture_logs() as logs:
        now(world.door.report(Report(renamed.host, renamed.epoch, hello.guests)))
    assert [(log["event"], log["server"]) for log in logs] == [("guest without claim", one)]
    assert [ask for ask in world.rows("ask") if ask["host_id"] == renamed.host] == []
    assert guest(world, "node1", one) == ("running", 1)
    world.store.write_now(hosts.remove, renamed.host)


def test_two_agents_of_one_machine_under_one_name(make_world: MakeWorld) -> None:
    """Started twice by mistake: the later one acts, the earlier is fenced; each ask is done once."""
    world = make_world(node1=4)
    first = world.agents["node1"]
    create = world.create("one", host="node1")
    step_until(world, under_way(world, create), "spawn", obey=False)
    world.step(under_way(world, create))
    (ask,) = world.asks("node1")
    done = now(first.do(ask))
    second = Daemon(world.door, first.driver, world.ground.journal("node1"))
    epoch = now(second.join()).epoch
    assert first.welcome is not None
    assert epoch == first.welcome.epoch + 1
    for said in (world.door.answer(done), world.door.take(Take(done.host, done.epoch, wait=0.0))):
        with pytest.raises(Fenced):
            now(said)
    world.agents["node1"] = second
    world.settle()
    assert (shown(world, create), guest(world, "node1", create)) == (("ACTIVE", None), ("running", 1))
    now(first.join())  # it registers again in its turn, and then the other is not heard
    with pytest.raises(Fenced):
        world.asks("node1")
    world.agents["node1"] = first


def test_a_host_that_is_heard_is_neither_fenced_nor_evacuated(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4)
    one = world.boot("one", host="node1")
    with pytest.raises(Malformed, match="still in use"):
        evacuate(world, one)
    assert host_status(world, "node1") == "up"
    lose(world, "node1")
    with pytest.raises(Malformed, match="same one"):
        evacuate(world, one, "node1")
    assert host_status(world, "node1") == "up"
    with pytest.raises(Malformed, match="could not be found"):
        evacuate(world, one, "nowhere")
    world.silent.clear()
    world.hear()
    here = world.ground.place("node1", one)
    assert here is not None
    now(world.agents["node1"].driver.start(here.guest))


def test_a_host_that_answers_is_alive_whatever_became_of_its_heartbeats(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4)
    one = world.boot("one", host="node1")
    world.silent.add("node1")
    world.store.write_now(begin.begin, "hard-reboot", one, world.by(), {})
    world.step(under_way(world, one))
    (ask,) = world.asks("node1")
    world.pass_time(world.settings.silent_after_s + 1)
    now(world.door.answer(now(world.agents["node1"].do(ask))))
    now(world.door.tick())
    with pytest.raises(Malformed, match="still in use"):
        evacuate(world, one)
    world.silent.clear()
    world.settle()


def test_capacity_on_both_hosts_is_whole_at_every_line(make_world: MakeWorld) -> None:
    world, one = dead(make_world)
    move = evacuate(world, one)
    for line in ("rebuild on target", "leave source behind", "move ports", "settle"):
        step_until(world, move, line)
        assert (used(world, "node1"), used(world, "node2")) == (1, 1), line
        assert world.problems() == []
    world.restart_agent("node1")
    world.settle()
    assert (used(world, "node1"), used(world, "node2")) == (0, 1)


def test_the_source_of_a_live_migration_dies_when_the_guest_has_moved(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4)
    one = world.boot("one", host="node1")
    move = world.live_migrate(one)
    step_until(world, move, "send memory")
    (ask,) = world.asks("node1")
    now(world.agents["node1"].do(ask))  # and it dies before it can say so
    lose(world, "node1")
    world.store.write_now(hosts.fence, world.host_id("node1"))
    world.settle()
    assert (shown(world, one), world.home(one)) == (("ACTIVE", None), "node2")
    assert (ended(world, move), holds(world, one)) == ("completed", {"node1": "left", "node2": "home"})
    world.restart_agent("node1")
    world.settle()
    assert world.ground.runners(one) == ["node2"]
    assert (guest(world, "node1", one), holds(world, one)) == (None, {"node2": "home"})


def test_a_target_must_not_be_one_that_cleans(make_world: MakeWorld) -> None:
    world, one = dead(make_world)
    evacuate(world, one)
    world.settle()
    world.restart_agent("node1")
    with pytest.raises(Refused, match="cleaning"):
        world.store.write_now(hosts.lock, world.host_id("node1"))
    world.settle()
