"""What the report's test plan leaves out: unshelve, evacuation, and a group that moves as a whole.

Every act finds three ACTIVE members of the anti-affinity group on hosts of their own, and
leaves them so. On a cloud without the rules the first two put two members on one host, and
the third puts the first members of an affinity group apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from berthold.cli.demo.acts import NAMES
from berthold.cli.demo.cloud import Server
from berthold.cli.demo.race import Stage, race

SERVICE = "openstack --os-compute-api-version 2.90 compute service set {} {} nova-compute"
TOGETHER = ("web1", "web2", "web3")
LATE = "web4"


# -- Unshelve -----------------------------------------------------------------------------


def unshelve(stage: Stage) -> None:
    """Three members come off the shelf at once, and there are two hosts for them."""
    cloud, shell, screen = stage.cloud, stage.shell, stage.screen
    screen.act("+1", "Three members unshelved at the same moment, with two hosts to go to")
    _shelve(stage, NAMES)
    shell.together([SERVICE.format("--disable", host) for host in cloud.hosts[2:]])
    ran = race(
        stage,
        lambda server: f"openstack server unshelve {server.name}",
        NAMES,
        lambda ran: _shelve(stage, ran.moved),
    )
    screen.expect(len(ran.moved) == 2, "two of the three are off the shelf: there was room for two")
    _each_on_its_own(stage, [ran.after[name] for name in ran.moved])
    for name in ran.refused:
        screen.expect(
            ran.after[name].status == "SHELVED_OFFLOADED",
            f"{name} had no lawful host: it is on the shelf as before, and not in ERROR",
        )
    screen.act("+1", "A third host, and the third member goes there")
    shell.together([SERVICE.format("--enable", host) for host in cloud.hosts[2:]])
    for name in ran.refused:
        shell.run(f"openstack server unshelve {name}")
    cloud.at_rest()
    _all_as_before(stage)


def _shelve(stage: Stage, names: Sequence[str]) -> None:
    """These are on the shelf, and on no host."""
    stage.shell.run(f"openstack server shelve {' '.join(names)}")
    there = stage.cloud.wait(
        lambda servers: all(
            s.status == "SHELVED_OFFLOADED" and not s.task for s in servers if s.name in names
        )
    )
    stage.screen.expect(there, f"{', '.join(names)}: on the shelf, and on no host")


# -- Evacuate -----------------------------------------------------------------------------


def evacuate(stage: Stage) -> None:
    """Three hosts are down, each with a member; two hosts are left for the three."""
    cloud, screen = stage.cloud, stage.screen
    screen.act("+2", "Three hosts down, their members evacuated at the same moment, with two hosts to go to")
    ran = race(
        stage,
        lambda server: (
            f"openstack --os-compute-api-version 2.90 server evacuate {server.name} -c name -c status"
        ),
        NAMES,
        lambda ran: _all_home(stage),
        prepare=lambda: _down(stage),
    )
    room = min(len(NAMES), len(cloud.hosts) - len(NAMES))
    screen.expect(len(ran.moved) == room, f"{room} of {len(NAMES)} run elsewhere: there was room for {room}")
    _each_on_its_own(stage, list(ran.after.values()))
    for name in ran.refused:
        screen.expect(
            ran.after[name].status == "ACTIVE" and ran.after[name].host == ran.before[name].host,
            f"{name} had no lawful host: it belongs to {ran.after[name].host} as before, and is not in ERROR",
        )
    screen.act("+2", "The hosts return, and take nothing up before they have cleaned what they lost")
    _all_home(stage)
    _all_as_before(stage)
    for name in ran.moved:
        left = ran.before[name].host or ""
        screen.expect(
            ran.after[name].id not in cloud.servers_on(left), f"nothing of {name} is left on {left}"
        )


def _down(stage: Stage) -> None:
    """The operator has seen that the members' hosts are dead, and says so."""
    hosts = sorted({server.host for server in stage.cloud.servers() if server.host})
    stage.shell.together([SERVICE.format("--down", host) for host in hosts])


def _all_home(stage: Stage) -> None:
    """Every host is up again."""
    shown = stage.cloud.get("os-services", binary="nova-compute")["services"]
    down = sorted(service["host"] for service in shown if service["forced_down"])
    stage.shell.together([SERVICE.format("--up", host) for host in down])
    stage.screen.expect(stage.cloud.all_up(), f"{', '.join(down)}: up again")
    stage.cloud.at_rest()


# -- A whole group ------------------------------------------------------------------------


def group_move(stage: Stage) -> None:
    """An affinity group: its first members at once, and then all of them to another host."""
    shell, screen = stage.shell, stage.screen
    screen.act("+3", "The first three members of an affinity group, asked for at the same moment")
    shell.run("openstack server group create together --policy affinity")
    shell.run(
        "openstack flavor create --vcpu 1 --ram 256 --disk 0 --id 102 small-flavor -c id -c name -c vcpus"
    )
    group = shell.run("openstack server group show together -c id -f value").strip()
    create = (
        f"openstack server create --network private --image cirros --flavor 102 --hint group={group}"
        " {} -c name -c status"
    )
    ran = race(stage, lambda server: create.format(server.name), TOGETHER, lambda ran: _delete(stage))
    homes = {server.host for server in ran.after.values() if server.name in TOGETHER}
    screen.expect(len(homes) == 1 and None not in homes, "all three are on one host")
    _all_of_it(stage, group, homes.pop() or "")
    _delete(stage)
    shell.together(["openstack server group delete together", "openstack flavor delete 102"])


def _all_of_it(stage: Stage, group: str, home: str) -> None:
    """One request moves them all, and nobody joins meanwhile."""
    cloud, shell, screen = stage.cloud, stage.shell, stage.screen
    screen.act("+3", "One request moves the whole group; nobody joins meanwhile")
    servers = cloud.servers()
    target = min(
        (host for host in cloud.hosts if host != home),
        key=lambda host: sum(server.host == host for server in servers),
    )
    shell.run(f"berthold group move {group} --to {target} --data {cloud.home.path}")
    made = shell.run(
        "openstack server create --network private --image cirros --flavor 102"
        f" --hint group={group} {LATE} -c name -c status",
        may_fail=True,
    )
    cloud.at_rest()
    homes = {server.name: server.host for server in cloud.servers()}
    screen.expect({homes[name] for name in TOGETHER} == {target}, f"all of them are on {target}")
    if LATE in made:
        screen.expect(
            homes[LATE] == target, f"{LATE} asked when the group had arrived, and is on {target} too"
        )
    else:
        screen.expect(LATE not in homes, f"{LATE} was not made: nobody joins a group that moves")
    shell.run(f"berthold group show {group} --data {cloud.home.path}")


def _delete(stage: Stage) -> None:
    """Nobody is left of the group."""
    names = [server.name for server in stage.cloud.servers() if server.name in (*TOGETHER, LATE)]
    stage.shell.run(f"openstack server delete {' '.join(names)}")
    stage.cloud.wait(lambda servers: not [server for server in servers if server.name in names])


# -- What all acts leave ------------------------------------------------------------------


def _each_on_its_own(stage: Stage, servers: Sequence[Server]) -> None:
    members = [server for server in servers if server.name in NAMES]
    stage.screen.expect(
        len({server.host for server in members}) == len(members), "no two members are on one host"
    )


def _all_as_before(stage: Stage) -> None:
    """Three ACTIVE members on hosts of their own."""
    members = [server for server in stage.cloud.servers() if server.name in NAMES]
    stage.screen.expect(
        {server.name: server.status for server in members} == dict.fromkeys(NAMES, "ACTIVE"),
        "all three are ACTIVE",
    )
    _each_on_its_own(stage, members)


BEYOND: Mapping[str, Callable[[Stage], None]] = {
    "unshelve": unshelve,
    "evacuate": evacuate,
    "group-move": group_move,
}
