"""The bug report's test plan, act by act.

Numbers are those of the plan's steps. Every act finds three ACTIVE members of one group and
leaves them so, but for the last two. What each act must show is said by `expect`; a
sentence that is not true fails the demo.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from berthold.cli.demo.cloud import Action, Server
from berthold.cli.demo.race import Race, Stage, race
from berthold.scheduler.filters import ANTI_AFFINITY_VIOLATED

NAMES = ("ins1", "ins2", "ins3")
FLAVORS = {"test-flavor": "100", "larger-flavor": "101"}
GREP_S = 5.0


@dataclass(frozen=True)
class Kind:
    """A kind of move: how it is asked for, and its step of the plan."""

    step: str
    title: str
    command: Callable[[Server], str]
    event: str
    rests: str  # the status of a server that has moved


KINDS: Mapping[str, Kind] = {
    "live": Kind(
        "3/6",
        "Three live migrations at the same moment",
        lambda server: f"openstack server migrate {server.name} --live-migration",
        "conductor_live_migrate_instance",
        "ACTIVE",
    ),
    "cold": Kind(
        "4/7",
        "Three cold migrations at the same moment",
        lambda server: f"openstack server migrate {server.name}",
        "conductor_migrate_server",
        "VERIFY_RESIZE",
    ),
    "resize": Kind(
        "4/7",
        "Three resizes at the same moment",
        lambda server: f"openstack server resize --flavor {_other_flavor(server)} {server.name}",
        "conductor_migrate_server",
        "VERIFY_RESIZE",
    ),
}


def _other_flavor(server: Server) -> str:
    return next(number for name, number in FLAVORS.items() if name != server.flavor)


# -- 1 and 2: what the plan needs ---------------------------------------------------------


def prepare(stage: Stage) -> None:
    """Group, flavors, volumes."""
    shell, screen = stage.shell, stage.screen
    screen.act("1b", "The hosts' CPU architecture")
    shown = shell.run("openstack --os-compute-api-version 2.87 hypervisor show node1 -c cpu_info")
    screen.expect("x86_64" in shown, "node1 says which CPU architecture it has")
    screen.act("1c", "A server group")
    shell.run("openstack server group create anti-aff --policy anti-affinity")
    screen.act("1d", "A flavor, and volumes from the image and from a volume")
    shell.run(
        "openstack flavor create --vcpu 1 --ram 1024 --disk 0 --id 100 test-flavor -c id -c name -c vcpus"
    )
    shell.run(
        "openstack flavor create --vcpu 2 --ram 2048 --disk 0 --id 101 larger-flavor -c id -c name -c vcpus"
    )
    shell.run("openstack volume create --image cirros --size 1 vol1 -c name -c status -c bootable")
    copies = [
        f"openstack volume create --source vol1 --size 1 {name} -c name -c status -c bootable"
        for name in ("vol2", "vol3")
    ]
    shell.together(copies)


def boot(stage: Stage) -> None:
    """Three members of the group, asked for at once."""
    stage.screen.act(2, "Three servers of the group")
    create(stage, dict(zip(NAMES, ("vol1", "vol2", "vol3"), strict=True)))
    stage.shell.run(
        "openstack server list --long -c Name -c Status -c 'Task State' -c Networks -c Flavor -c Host"
    )


def create(stage: Stage, volumes: Mapping[str, str]) -> None:
    """Servers of the group on these volumes, until they are ACTIVE on hosts of their own."""
    group = stage.shell.run("openstack server group show anti-aff -c id -f value").strip()
    stage.shell.together(
        [
            f"openstack server create --network private --volume {volume} --flavor 100"
            f" --hint group={group} {name} -c name -c status"
            for name, volume in volumes.items()
        ]
    )
    stage.cloud.at_rest()
    servers = stage.cloud.servers()
    stage.screen.expect(
        {s.name: s.status for s in servers} == dict.fromkeys(volumes, "ACTIVE"), "all are ACTIVE"
    )
    stage.screen.expect(len({s.host for s in servers}) == len(servers), "each has a host of its own")


# -- 3/6 and 4/7: three at once -----------------------------------------------------------


def race_of(kind: str) -> Callable[[Stage], None]:
    """The act in which all three move at once."""

    def act(stage: Stage) -> None:
        three_at_once(stage, KINDS[kind])

    return act


def three_at_once(stage: Stage, kind: Kind) -> None:
    """Race all three; then, if they wait for it, confirm one and revert the others."""
    cloud, screen = stage.cloud, stage.screen
    screen.act(kind.step, kind.title)

    def settle(ran: Race) -> None:
        confirm_and_revert(stage, ran)

    ran = race(stage, kind.command, NAMES, settle)
    room = min(len(NAMES), len(cloud.hosts) - len(NAMES))
    screen.expect(len(ran.moved) == room, f"{room} of {len(NAMES)} have moved: there was room for {room}")
    screen.expect(
        all(ran.after[name].status == kind.rests for name in ran.moved), f"those that moved are {kind.rests}"
    )
    for name in ran.refused:
        after = ran.after[name]
        screen.expect(
            after.status == "ACTIVE" and after.host == ran.before[name].host,
            f"{name} had no lawful host and is ACTIVE where it was, on {after.host}",
        )
        explain(stage, kind, after, ran.actions[name])
    settle(ran)


def explain(stage: Stage, kind: Kind, server: Server, action: Action) -> None:
    """6d, 6e and 7b to 7e: what an operator finds about a refused move."""
    shell, screen = stage.shell, stage.screen
    shell.run(f"openstack server event list {server.name} --long -c 'Request ID' -c Action -c Message")
    shown = json.loads(shell.run(f"openstack server event show {server.name} {action.request_id} -f json"))
    event = next((event for event in shown["events"] if event["event"] == kind.event), None)
    screen.expect(shown["message"] == "Error", "the action's message is Error")
    screen.expect(
        event is not None and event["result"] == "Error", f"its event {kind.event} has the result Error"
    )
    trace = event["traceback"] if event else ""
    screen.expect("No valid host" in trace, "it says: No valid host")
    screen.expect("G1" in trace and "anti-aff" in trace, "its traceback names the rule (G1) and the group")
    screen.expect(all(host in trace for host in stage.cloud.hosts), "its traceback names every refused host")
    pattern = f"{server.id}.*{ANTI_AFFINITY_VIOLATED}"
    lines = shell.run(f"grep '{pattern}' {stage.cloud.home.log}", may_fail=True).splitlines()
    soon = [line for line in lines if 0 <= _logged(line) - action.accepted <= GREP_S]
    screen.expect(len(soon) == 1, f"the log says so in exactly one line within {GREP_S:g} s of the request")


def _logged(line: str) -> float:
    return datetime.fromisoformat(line.split()[0]).timestamp()


def confirm_and_revert(stage: Stage, ran: Race) -> None:
    """The first of those that wait is confirmed, the others go back."""
    waiting = [server for server in stage.cloud.servers() if server.status == "VERIFY_RESIZE"]
    if not waiting:
        return
    kept, back = waiting[0], waiting[1:]
    stage.shell.together(
        [
            f"openstack server resize confirm {kept.name}",
            *(f"openstack server resize revert {server.name}" for server in back),
        ]
    )
    # While it is being confirmed a server shows VERIFY_RESIZE still.
    stage.cloud.wait(lambda servers: all(server.status != "VERIFY_RESIZE" for server in servers))
    stage.cloud.at_rest()
    after = {server.name: server for server in stage.cloud.servers()}
    stage.screen.expect(
        after[kept.name].status == "ACTIVE" and after[kept.name].host == kept.host,
        f"{kept.name} was confirmed and stays on {kept.host}",
    )
    for server in back:
        home = ran.before[server.name].host
        stage.screen.expect(
            after[server.name].status == "ACTIVE" and after[server.name].host == home,
            f"{server.name} was reverted and is on {home} again",
        )


# -- The report's own case, and the 70 seconds --------------------------------------------


def three_hosts(stage: Stage) -> None:
    """Two servers on two of three hosts, both live-migrated at once; then one goes where the other was."""
    cloud, shell, screen = stage.cloud, stage.shell, stage.screen
    screen.act(
        "·", "The report's own case: two members on three hosts, both live-migrated at the same moment"
    )
    shell.run(f"openstack server delete {' '.join(NAMES)}")
    screen.expect(cloud.wait(lambda servers: not servers), "all servers are gone")
    closed = "openstack compute service set {} {} nova-compute"
    shell.together([closed.format("--disable", host) for host in cloud.hosts[2:]])
    create(stage, {"ins1": "vol1", "ins2": "vol2"})
    screen.expect(
        {server.host for server in cloud.servers()} == {"node1", "node2"}, "they live on node1 and node2"
    )
    shell.run(closed.format("--enable", "node3"))
    ran = race(stage, KINDS["live"].command, NAMES[:2], lambda ran: _back_to_two(stage, ran))
    screen.expect([ran.after[name].host for name in ran.moved] == ["node3"], "one of them is on node3")
    screen.expect(
        all(server.status == "ACTIVE" for server in ran.after.values()),
        "both are ACTIVE, on hosts of their own",
    )
    seventy_seconds(stage, ran)


def _back_to_two(stage: Stage, ran: Race) -> None:
    """Nobody is on node3 any more."""
    for name in ran.moved:
        stage.shell.run(f"openstack server migrate {name} --live-migration --host {ran.before[name].host}")
    stage.cloud.at_rest()


def seventy_seconds(stage: Stage, ran: Race) -> None:
    """A member goes at once to the host that another has just left."""
    cloud, screen = stage.cloud, stage.screen
    if not ran.moved or not ran.refused:
        return
    gone, follower = ran.moved[0], ran.refused[0]
    left = ran.before[gone].host
    screen.act("·", f"The 70-second case: {follower} goes to {left}, which {gone} has just left")
    stage.shell.run(KINDS["live"].command(ran.after[follower]))
    cloud.at_rest()
    after = cloud.server(follower)
    claimed = cloud.last_action(after).claimed
    screen.expect(after.host == left and after.status == "ACTIVE", f"{follower} is ACTIVE on {left}")
    if claimed is not None:
        since = claimed - ran.actions[gone].ended
        screen.expect(since < 70, f"the place was granted {since:.1f} s after {gone} had left it")


# -- 5b: nothing is left ------------------------------------------------------------------


def clean_up(stage: Stage) -> None:
    """Everything is deleted, and the audit finds nothing."""
    cloud, shell, screen = stage.cloud, stage.shell, stage.screen
    screen.act("5b", "Everything is deleted, and nothing is left")
    names = " ".join(server.name for server in cloud.servers())
    shell.run(f"openstack server delete {names}")
    screen.expect(cloud.wait(lambda servers: not servers), "all servers are gone")
    shell.together(
        [
            "openstack server group delete anti-aff",
            "openstack volume delete vol1 vol2 vol3",
            "openstack flavor delete 100 101",
        ]
    )
    # A deleted server's row goes before its move is closed; an audit in between would be early.
    time.sleep(0.5)
    audit = shell.run(f"berthold db audit --data {cloud.home.path}", may_fail=True)
    screen.expect(
        "violated" not in audit and "\n0 claims" in audit, "the audit is clean and no claim is left"
    )


ACTS: Mapping[str, Callable[[Stage], None]] = {
    **{kind: race_of(kind) for kind in KINDS},
    "three-hosts": three_hosts,
}
