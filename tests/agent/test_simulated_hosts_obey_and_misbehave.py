"""The simulated driver: every verb twice, the handover, the faults, and that guests outlive all."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from berthold.agent.driver import Driver, Impossible
from berthold.agent.faults import Died, Faults, Pace
from berthold.agent.ground import Doubled, Ground
from berthold.agent.protocol import Guest, Progress, Running
from berthold.agent.simulated import Simulated
from berthold.lab.turns import now as by_hand

WEB = Guest("s-1", "web", vcpus=1, memory_mb=512, disk_gb=1, image="cirros")

DISK = {"volume_id": "v-1", "device": "/dev/vdb"}
NIC = {"id": "p-1", "mac_address": "fa:16:3e:00:00:01"}


def two_hosts() -> tuple[Ground, Simulated, Simulated]:
    ground = Ground()
    return ground, Simulated(ground, "node1"), Simulated(ground, "node2")


def whereabouts(ground: Ground) -> dict[str, dict[str, str]]:
    return {host: ground.states(host) for host in ("node1", "node2") if ground.states(host)}


# What came before, the verb on node1, and how the two hosts look after it, once or twice.
TWICE: dict[str, tuple[list[str], str, dict[str, dict[str, str]]]] = {
    "spawn": ([], "spawn", {"node1": {"s-1": "running"}}),
    "check": ([], "check", {}),
    "prepare": ([], "prepare", {"node1": {"s-1": "incoming"}}),
    "send": (["spawn", "prepare there"], "send", {"node1": {"s-1": "remains"}, "node2": {"s-1": "running"}}),
    "send_disk": (
        ["spawn", "stop", "prepare there"], "send_disk",
        {"node1": {"s-1": "stopped"}, "node2": {"s-1": "stopped"}}),
    "locate": (["spawn"], "locate", {"node1": {"s-1": "running"}}),
    "start": (["spawn", "stop"], "start", {"node1": {"s-1": "running"}}),
    "start of what came": (
        ["spawn", "stop", "prepare there", "send_disk"], "start there",
        {"node1": {"s-1": "stopped"}, "node2": {"s-1": "running"}}),
    "stop": (["spawn"], "stop", {"node1": {"s-1": "stopped"}}),
    "stop of a paused guest": (["spawn", "pause"], "stop", {"node1": {"s-1": "stopped"}}),
    "reboot": (["spawn"], "reboot", {"node1": {"s-1": "running"}}),
    "hard reboot of a stopped guest": (["spawn", "stop"], "reboot hard", {"node1": {"s-1": "running"}}),
    "hard reboot of a paused guest": (["spawn", "pause"], "reboot hard", {"node1": {"s-1": "running"}}),
    "pause": (["spawn"], "pause", {"node1": {"s-1": "paused"}}),
    "unpause": (["spawn", "pause"], "unpause", {"node1": {"s-1": "running"}}),
    "locate of a paused guest": (["spawn", "pause"], "locate", {"node1": {"s-1": "paused"}}),
    "restore to running": (["spawn", "stop"], "restore running", {"node1": {"s-1": "running"}}),
    "restore to stopped": (["spawn"], "restore stopped", {"node1": {"s-1": "stopped"}}),
    "restore to paused": (["spawn", "stop"], "restore paused", {"node1": {"s-1": "paused"}}),
    "attach": (["spawn"], "attach_volume", {"node1": {"s-1": "running"}}),
    "detach": (["spawn", "attach_volume"], "detach_volume", {"node1": {"s-1": "running"}}),
    "detach of what is not attached": (["spawn"], "detach_volume", {"node1": {"s-1": "running"}}),
    "attach of an interface": (["spawn"], "attach_interface", {"node1": {"s-1": "running"}}),
    "detach of an interface": (
        ["spawn", "attach_interface"], "detach_interface", {"node1": {"s-1": "running"}}),
    "console": (["spawn"], "console", {"node1": {"s-1": "running"}}),
    "discard": (["spawn"], "discard", {}),
    "discard of nothing": ([], "discard", {}),
    "discard of a shell": (["prepare"], "discard", {}),
    "discard of remains": (["spawn", "prepare there", "send"], "discard", {"node2": {"s-1": "running"}}),
}  # fmt: skip


def play(word: str, node1: Driver, node2: Driver) -> dict[str, Any]:
    verb, _, how = word.partition(" ")
    driver = node2 if how == "there" else node1
    arguments: dict[str, tuple[Any, ...]] = {
        "send": ("s-1", "node2"), "send_disk": ("s-1", "node2"),
        "locate": ("s-1",), "stop": ("s-1",), "discard": ("s-1",), "pause": ("s-1",), "unpause": ("s-1",),
        "reboot": (WEB, how == "hard"), "restore": (WEB, how), "console": ("s-1", None),
        "attach_volume": ("s-1", DISK), "detach_volume": ("s-1", DISK),
        "attach_interface": ("s-1", NIC), "detach_interface": ("s-1", NIC),
    }  # fmt: skip
    facts: dict[str, Any] = by_hand(getattr(driver, verb)(*arguments.get(verb, (WEB,))))
    return facts


@pytest.mark.parametrize("case", TWICE)
def test_a_verb_that_comes_twice_changes_nothing_the_second_time(case: str) -> None:
    before, word, after = TWICE[case]
    ground, node1, node2 = two_hosts()
    for earlier in before:
        play(earlier, node1, node2)
    play(word, node1, node2)
    assert whereabouts(ground) == after
    play(word, node1, node2)
    assert whereabouts(ground) == after
    assert ground.double_running() == []


IMPOSSIBLE: dict[str, tuple[list[str], str, str]] = {
    "send without a prepared target": (["spawn"], "send", "host node2 was not prepared for s-1"),
    "send of what is not here": (["prepare there"], "send", "s-1 does not run on node1"),
    "send of a stopped guest": (["spawn", "stop", "prepare there"], "send", "s-1 does not run on node1"),
    "disks of a running guest": (
        ["spawn", "prepare there"], "send_disk", "s-1 runs on node1: its disks cannot be copied"),
    "disks to an unprepared host": (
        ["spawn", "stop"], "send_disk", "host node2 was not prepared for s-1"),
    "start of nothing": ([], "start", "s-1 is not on node1"),
    "start without disks": (["prepare"], "start", "the disks of s-1 were not copied to node1"),
    "start of remains": (["spawn", "prepare there", "send"], "start", "s-1 is not on node1"),
    "stop of nothing": ([], "stop", "s-1 is not on node1"),
    "soft reboot of a stopped guest": (
        ["spawn", "stop"], "reboot", "s-1 is stopped on node1: only a hard reboot will do"),
    "reboot of nothing": ([], "reboot hard", "s-1 is not on node1"),
    "pause of a stopped guest": (["spawn", "stop"], "pause", "s-1 is stopped on node1"),
    "unpause of a stopped guest": (["spawn", "stop"], "unpause", "s-1 is stopped on node1"),
    "disks of a paused guest": (
        ["spawn", "pause", "prepare there"], "send_disk", "s-1 runs on node1: its disks cannot be copied"),
    "attach to a shell": (["prepare"], "attach_volume", "s-1 is not on node1"),
    "console of nothing": ([], "console", "s-1 is not on node1"),
    "prepare over a guest": (["spawn"], "prepare", "s-1 is already on node1, running"),
}  # fmt: skip


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_cannot_be_done_is_refused_with_a_reason_and_changes_nothing(case: str) -> None:
    before, word, reason = IMPOSSIBLE[case]
    ground, node1, node2 = two_hosts()
    for earlier in before:
        play(earlier, node1, node2)
    seen = whereabouts(ground)
    with pytest.raises(Impossible) as no:
        play(word, node1, node2)
    assert str(no.value) == reason
    assert whereabouts(ground) == seen


@pytest.mark.parametrize("word", ["spawn", "check", "prepare"])
def test_a_guest_larger_than_the_host_is_refused(word: str) -> None:
    small = Simulated(Ground(), "node1", memory_mb=256)
    with pytest.raises(Impossible, match="node1 has 256 MEMORY_MB, the guest needs 512"):
        play(word, small, small)


def test_a_guest_on_volumes_alone_starts_without_a_copy_of_disks() -> None:
    driver = Simulated(Ground(), "node1")
    on_volumes = Guest("s-1", "web", 1, 512)
    by_hand(driver.prepare(on_volumes))
    by_hand(driver.start(on_volumes))
    assert driver.guests() == [Running("s-1", "running")]


def test_stop_tells_whether_the_guest_ran_and_locate_where_it_is() -> None:
    _, node1, node2 = two_hosts()
    play("spawn", node1, node2)
    assert play("locate", node1, node2) == {"running": True, "present": True}
    assert play("stop", node1, node2) == {"was_running": True}
    assert play("stop", node1, node2) == {"was_running": False}
    assert play("locate", node1, node2) == {"running": False, "present": True}
    assert play("locate there", node1, node2) == {"running": False, "present": False}


def test_a_paused_guest_is_not_started_elsewhere_unseen() -> None:
    ground, node1, node2 = two_hosts()
    play("spawn", node1, node2)
    play("pause", node1, node2)
    assert play("locate", node1, node2) == {"running": True, "present": True}
    play("spawn there", node1, node2)
    assert ground.double_running() == [Doubled("s-1", host="node2", other="node1")]


def test_a_guest_has_the_volumes_that_were_attached_and_no_two_of_one_name() -> None:
    ground, node1, _ = two_hosts()
    by_hand(node1.spawn(WEB))
    by_hand(node1.attach_volume("s-1", DISK))
    with pytest.raises(Impossible, match="s-1 has a /dev/vdb already"):
        by_hand(node1.attach_volume("s-1", {**DISK, "volume_id": "v-2"}))
    here = ground.place("node1", "s-1")
    assert here is not None
    assert here.guest.volumes == [DISK]
    by_hand(node1.detach_volume("s-1", DISK))
    here = ground.place("node1", "s-1")
    assert here is not None
    assert here.guest.volumes == []


def test_an_interface_comes_and_goes_and_the_others_stay() -> None:
    ground, node1, node2 = two_hosts()
    other = {**NIC, "id": "p-2"}
    by_hand(node1.spawn(msgspec.structs.replace(WEB, ports=[other])))

    def ports() -> list[dict[str, Any]]:
        here = ground.place("node1", "s-1")
        assert here is not None
        return here.guest.ports

    by_hand(node1.attach_interface("s-1", NIC))
    assert ports() == [other, NIC]
    by_hand(node1.detach_interface("s-1", other))
    assert ports() == [NIC]
    with pytest.raises(Impossible, match="s-1 is not on node2"):
        by_hand(node2.attach_interface("s-1", NIC))


def test_the_console_grows_with_each_boot_and_shows_as_many_lines_as_one_wants() -> None:
    _, node1, node2 = two_hosts()
    play("spawn", node1, node2)
    once = play("console", node1, node2)["output"].split("\n")
    assert len(once) >= 10
    assert "web" in once[0]
    play("reboot", node1, node2)
    assert play("console", node1, node2)["output"].split("\n") == once * 2
    assert by_hand(node1.console("s-1", 10))["output"].split("\n") == once[-10:]
    assert by_hand(node1.console("s-1", 0)) == {"output": ""}


def test_progress_is_told_while_a_guest_is_being_sent_and_only_then() -> None:
    passed = [0.0]
    ground = Ground()
    node1 = Simulated(
        ground, "node1", pace=Pace({"send": 4.0}), sleep=Steps.sleep, monotonic=lambda: passed[0]
    )
    play("spawn", node1, node1)
    by_hand(Simulated(ground, "node2").prepare(WEB))
    assert node1.progress() == {}
    sending = node1.send("s-1", "node2")
    sending.send(None)
    passed[0] = 1.0
    total = 512 << 20
    assert node1.progress() == {"s-1": Progress(total, total // 4, total - total // 4)}
    passed[0] = 9.0
    assert node1.progress() == {"s-1": Progress(total, total, 0)}
    with pytest.raises(StopIteration):
        sending.send(None)
    assert node1.progress() == {}


class Steps:
    """A sleep that suspends until the test goes on."""

    def __await__(self) -> Any:
        yield

    @staticmethod
    async def sleep(_: float) -> None:
        await Steps()


def test_locate_ends_a_sending_that_is_under_way() -> None:
    ground = Ground()
    node1 = Simulated(ground, "node1", pace=Pace({"send": 1.0}), sleep=Steps.sleep)
    node2 = Simulated(ground, "node2")
    play("spawn", node1, node2)
    play("prepare there", node1, node2)
    sending = node1.send("s-1", "node2")
    sending.send(None)
    assert by_hand(node1.locate("s-1")) == {"running": True, "present": True}
    with pytest.raises(Impossible, match="the sending of s-1 was ended"):
        sending.send(None)
    assert ground.runners("s-1") == ["node1"]


def test_of_two_sendings_only_the_later_one_arrives() -> None:
    ground = Ground()
    node1 = Simulated(ground, "node1", pace=Pace({"send": 1.0}), sleep=Steps.sleep)
    nodes = [Simulated(ground, name) for name in ("node2", "node3")]
    by_hand(node1.spawn(WEB))
    for node in nodes:
        by_hand(node.prepare(WEB))
    first, second = node1.send("s-1", "node2"), node1.send("s-1", "node3")
    first.send(None)
    second.send(None)
    with pytest.raises(Impossible):
        first.send(None)
    with pytest.raises(StopIteration):
        second.send(None)
    assert ground.runners("s-1") == ["node3"]


def test_the_ground_remembers_a_server_that_ran_on_two_hosts_even_when_that_is_over() -> None:
    ground, node1, node2 = two_hosts()
    play("spawn", node1, node2)
    play("spawn there", node1, node2)
    play("discard", node1, node2)
    assert ground.double_running() == [Doubled("s-1", host="node2", other="node1")]


def test_a_host_without_power_runs_nothing() -> None:
    ground, node1, node2 = two_hosts()
    play("spawn", node1, node2)
    ground.power_off("node1")
    assert whereabouts(ground) == {"node1": {"s-1": "stopped"}}
    play("spawn there", node1, node2)
    assert ground.double_running() == []


# -- Faults -------------------------------------------------------------------------------


def test_a_planned_refusal_strikes_once_and_only_what_it_names() -> None:
    _, node1, node2 = two_hosts()
    node1.faults.plan("refuse", verb="spawn", server="s-1", reason="no disk space left")
    by_hand(node1.spawn(Guest("s-2", "other", 1, 512)))
    with pytest.raises(Impossible, match="no disk space left"):
        play("spawn", node1, node2)
    play("spawn", node1, node2)


@pytest.mark.parametrize(("kind", "meanwhile"), [("stall", {}), ("forget", {"node1": {"s-1": "running"}})])
def test_a_stalled_verb_waits_before_the_deed_and_a_forgotten_one_after_it(
    kind: Any, meanwhile: dict[str, dict[str, str]]
) -> None:
    ground = Ground()
    node1 = Simulated(ground, "node1", sleep=Steps.sleep)
    fault = node1.faults.plan(kind, verb="spawn")
    spawning = node1.spawn(WEB)
    for _ in range(5):
        spawning.send(None)
    assert whereabouts(ground) == meanwhile
    fault.released = True
    with pytest.raises(StopIteration):
        spawning.send(None)
    assert whereabouts(ground) == {"node1": {"s-1": "running"}}


@pytest.mark.parametrize(("kind", "after"), [("die before", []), ("die after", ["node1"])])
def test_an_agent_may_die_before_or_after_the_deed(kind: Any, after: list[str]) -> None:
    ground, node1, node2 = two_hosts()
    node1.faults.plan(kind, times=1)
    with pytest.raises(Died):
        play("spawn", node1, node2)
    assert ground.runners("s-1") == after
    play("spawn", node1, node2)
    assert ground.runners("s-1") == ["node1"]


def test_pace_keeps_within_its_jitter_and_is_nothing_for_a_verb_not_named() -> None:
    pace = Pace({"send": 2.0}, jitter=0.25, chance=random.Random(1))
    seconds = [pace.of("send") for _ in range(200)]
    assert min(seconds) >= 1.5
    assert max(seconds) <= 2.5
    assert len(set(seconds)) > 100
    assert pace.of("spawn") == 0.0


# -- What outlives what -------------------------------------------------------------------


def test_guests_keys_and_journals_are_on_the_ground_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "ground.sqlite"
    ground = Ground(path)
    node1 = Simulated(ground, "node1")
    by_hand(node1.spawn(WEB))
    key = node1.hello().key
    ground.close()
    again = Ground(path)
    assert Simulated(again, "node1").hello().guests == [Running("s-1", "running")]
    assert again.key("node1") == key
    assert again.key("node2") != key
    again.close()


def test_a_ground_in_memory_goes_back_to_its_snapshot() -> None:
    ground, node1, node2 = two_hosts()
    play("spawn", node1, node2)
    before = ground.snapshot()
    play("prepare there", node1, node2)
    play("send", node1, node2)
    ground.restore(before)
    assert whereabouts(ground) == {"node1": {"s-1": "running"}}
    play("prepare there", node1, node2)
    play("send", node1, node2)
    assert ground.runners("s-1") == ["node2"]


PING_PONG = """
import asyncio, sys
from berthold.agent.ground import Ground
from berthold.agent.protocol import Guest
from berthold.agent.simulated import Simulated

async def forth_and_back(ground, guest):
    here, there = (Simulated(ground, name) for name in ("node1", "node2"))
    if ground.runners("s-1") == ["node2"]:
        here, there = there, here
    await there.discard("s-1")
    while True:
        await there.prepare(guest)
        await here.send("s-1", there.name)
        print(there.name, flush=True)
        await here.discard("s-1")
        here, there = there, here

asyncio.run(forth_and_back(Ground(sys.argv[1]), Guest("s-1", "web", 1, 512)))
"""


def test_a_sender_killed_at_any_time_leaves_the_guest_running_in_one_place(tmp_path: Path) -> None:
    path = tmp_path / "ground.sqlite"
    ground = Ground(path)
    by_hand(Simulated(ground, "node1").spawn(WEB))
    for handovers in (1, 4, 9):
        sender = subprocess.Popen([sys.executable, "-c", PING_PONG, str(path)], stdout=subprocess.PIPE)
        assert sender.stdout is not None
        for _ in range(handovers):
            assert sender.stdout.readline().strip() in (b"node1", b"node2")
        sender.kill()
        sender.stdout.close()
        sender.wait()
        assert len(ground.runners("s-1")) == 1
        assert ground.double_running() == []
    ground.close()


def test_a_host_introduces_itself_with_what_the_hypervisors_resource_shows() -> None:
    hello = Simulated(Ground(), "node1", vcpus=8, memory_mb=2048, disk_gb=20, zone="east").hello()
    assert {name: offer["total"] for name, offer in hello.inventory.items()} == {
        "VCPU": 8, "MEMORY_MB": 2048, "DISK_GB": 20,
    }  # fmt: skip
    assert hello.facts["hypervisor_type"] == "simulated"
    assert json.loads(json.dumps(hello.facts))["cpu_info"]["arch"] == "x86_64"
    assert hello.zone == "east"


def test_a_released_host_stalls_no_more() -> None:
    faults = Faults()
    faults.plan("stall", verb="spawn", times=3)
    driver = Simulated(Ground(), "node1", faults=faults)
    faults.release()
    by_hand(driver.spawn(WEB))
    assert driver.guests() == [Running("s-1", "running")]
