"""What users and operators ask for in a storm: every operation there is, and who it may be asked of.

An operation is named as in Nova's API. `may` gives its subjects as things stand: servers, groups,
hosts or moves of which it makes sense to ask it; the answer may still be a refusal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from berthold.lab.storm.cloud import VCPUS, Cloud
from berthold.lab.storm.sight import Seen, Sight
from berthold.lab.world import LARGE, PROJECT, SMALL
from berthold.ledger import hosts, moves, quotas
from berthold.moves import abort, begin, left, shelf, together
from berthold.moves.status import line_of

SERVERS_MOST, GROUPS_MOST = 12, 6
POLICIES = ("anti-affinity", "affinity", "soft-anti-affinity", "soft-affinity")


@dataclass(frozen=True)
class Operation:
    """`may`: whom it may be asked of; `ask` asks it and raises what the answer is if it is no."""

    name: str
    may: Callable[[Cloud, Sight], Sequence[str]]
    ask: Callable[[Cloud, str, Random], object]
    weight: int = 1


# -- Servers ------------------------------------------------------------------------------


def kind(
    name: str, weight: int = 1, wish: Callable[[Cloud, Random], Mapping[str, Any]] | None = None
) -> Operation:
    """A kind of move in `begin.BEGINNINGS`."""
    beginning = begin.BEGINNINGS[name]

    def may(cloud: Cloud, sight: Sight) -> list[str]:
        return [
            each.id
            for each in sight.servers
            if each.at_rest and each.home and each.condition in beginning.conditions
        ]

    def ask(cloud: Cloud, server: str, chance: Random) -> None:
        wanted = wish(cloud, chance) if wish else {}
        cloud.store.write_now(begin.begin, name, server, cloud.by(), wanted)

    return Operation(name, may, ask, weight)


def somewhere(cloud: Cloud, chance: Random) -> Mapping[str, Any]:
    """A named host, or none."""
    return {"host": chance.choice((None, None, *cloud.agents))}


def of(
    name: str, which: Callable[[Seen], bool], ask: Callable[[Cloud, str, Random], object], weight: int = 1
) -> Operation:
    """An operation on servers of which `which` is true."""

    def may(cloud: Cloud, sight: Sight) -> list[str]:
        return [each.id for each in sight.servers if which(each)]

    return Operation(name, may, ask, weight)


def in_condition(*conditions: str) -> Callable[[Seen], bool]:
    return lambda seen: seen.at_rest and seen.condition in conditions


def waits(seen: Seen) -> bool:
    return seen.state == "waiting" and not seen.in_group_move


def may_create(cloud: Cloud, sight: Sight) -> list[str]:
    return ["", *sight.groups] if len(sight.servers) < SERVERS_MOST else []


def create(cloud: Cloud, group: str, chance: Random) -> None:
    wishes: dict[str, Any] = {"networks": [{"uuid": cloud.network}]}
    if chance.random() < 0.3:
        wishes["volumes"] = [{"size": 1, "boot_index": 0, "delete_on_termination": chance.random() < 0.5}]
    else:
        wishes["image_id"] = "cirros"
    if chance.random() < 0.2:
        wishes["host"] = chance.choice(list(cloud.agents))
    flavor = chance.choice((SMALL, SMALL, LARGE))
    number = cloud.select("SELECT count(*) FROM server")[0][0] + 1
    cloud.create(f"vm-{number:02}", group or None, flavor=flavor, **wishes)


def evacuate(cloud: Cloud, server: str, chance: Random) -> None:
    since = cloud.clock.now() - cloud.settings.silent_after_s
    host = somewhere(cloud, chance)["host"]
    cloud.store.write_now(left.evacuate, server, cloud.by(), silent_since=since, host=host)


def may_evacuate(cloud: Cloud, sight: Sight) -> list[str]:
    """Only what lived on a host that has no power: nobody switches off another for us."""
    dead = {cloud.host_id(name) for name in cloud.dark}
    ends = left.ENDS_WITH_ITS_HOST
    return [
        each.id
        for each in sight.servers
        if each.home in dead
        and (each.at_rest or each.kind in ends)
        and each.condition in left.EVACUATION.conditions
    ]


def shelve(cloud: Cloud, server: str, chance: Random) -> None:
    cloud.store.write_now(shelf.shelve, server, cloud.by(), offload=chance.random() < 0.7)


def unshelve(cloud: Cloud, server: str, chance: Random) -> None:
    host = somewhere(cloud, chance)["host"]
    offloaded = cloud.server(server)["condition"] == "shelved_offloaded"
    where = {"host": host} if host and offloaded else {}
    cloud.store.write_now(shelf.unshelve, server, cloud.by(), where)


def may_attach(cloud: Cloud, sight: Sight) -> list[str]:
    at_home = [
        each.id for each in sight.servers if each.at_rest and each.home and each.condition in begin.AT_HOME
    ]
    return at_home if free_volumes(cloud) else []


def free_volumes(cloud: Cloud) -> list[str]:
    rows = cloud.select("SELECT id FROM volume WHERE status = 'available' ORDER BY id")
    return [volume for (volume,) in rows]


def attach(cloud: Cloud, server: str, chance: Random) -> None:
    volume = chance.choice(free_volumes(cloud))
    cloud.store.write_now(begin.attach_volume, server, cloud.by(), volume)


def lent(cloud: Cloud, server: str) -> list[str]:
    return [each["volume_id"] for each in cloud.server(server)["volumes"] if each.get("boot_index") != 0]


def may_detach(cloud: Cloud, sight: Sight) -> list[str]:
    return [
        each.id
        for each in sight.servers
        if each.at_rest
        and each.home
        and each.condition in begin.AT_HOME
        and each.volumes
        and lent(cloud, each.id)
    ]


def detach(cloud: Cloud, server: str, chance: Random) -> None:
    cloud.store.write_now(begin.detach_volume, server, cloud.by(), chance.choice(lent(cloud, server)))


def may_abort(cloud: Cloud, sight: Sight) -> list[str]:
    return [
        each.id
        for each in sight.servers
        if each.kind == "live-migration"
        and each.state == "running"
        and each.move
        and _abortable(cloud, each.move)
    ]


def _abortable(cloud: Cloud, move_id: str) -> bool:
    move = cloud.move(move_id)
    return line_of(move).migration in abort.ABORTABLE and not move["facts"].get("abort")


def abort_move(cloud: Cloud, server: str, chance: Random) -> None:
    standing = cloud.store.read_now(moves.unfinished, server)
    assert standing is not None
    cloud.store.write_now(abort.abort, server, standing["number"], cloud.by())


def rebuild_from(cloud: Cloud, chance: Random) -> Mapping[str, Any]:
    return {"image_id": chance.choice(("cirros", "ubuntu"))}


def snapshot_named(cloud: Cloud, chance: Random) -> Mapping[str, Any]:
    return {"name": "picture", "metadata": {}}


def another_flavor(cloud: Cloud, chance: Random) -> Mapping[str, Any]:
    return {"flavor": dict(chance.choice((SMALL, LARGE)))}


SERVERS = (
    Operation("create", may_create, create, weight=4),
    kind("live-migration", 4, somewhere),
    kind("migration", 3, somewhere),
    kind("resize", 3, another_flavor),
    of("confirmResize", waits, lambda cloud, server, _: cloud.confirm(server), 2),
    of("revertResize", waits, lambda cloud, server, _: cloud.revert(server), 2),
    of("delete", lambda seen: True, lambda cloud, server, _: cloud.delete(server)),
    of("shelve", in_condition(*shelf.AT_REST), shelve, 2),
    of("shelveOffload", in_condition("shelved"), lambda c, s, _: c.store.write_now(shelf.offload, s, c.by())),
    of("unshelve", in_condition("shelved", "shelved_offloaded"), unshelve, 3),
    *(kind(name) for name in ("stop", "start", "reboot", "hard-reboot", "pause", "unpause")),
    *(kind(name) for name in ("suspend", "resume", "rescue", "unrescue", "soft-delete", "restore")),
    kind("rebuild", 1, rebuild_from),
    kind("snapshot", 1, snapshot_named),
    Operation("attach-volume", may_attach, attach),
    Operation("detach-volume", may_detach, detach),
    Operation("abort", may_abort, abort_move),
)

# -- Groups and quotas ----------------------------------------------------------------------


def create_group(cloud: Cloud, _: str, chance: Random) -> None:
    policy = chance.choice(POLICIES)
    per_host = chance.randint(1, 3) if policy == "anti-affinity" else 1
    cloud.group(policy, per_host, name=f"group of {cloud.clock.now():.0f}")


def may_move_group(cloud: Cloud, sight: Sight) -> list[str]:
    return [
        group for group, (policy, _) in sight.groups.items() if policy == "affinity" and sight.members(group)
    ]


def move_group(cloud: Cloud, group: str, chance: Random) -> None:
    lives = {row[0] for row in cloud.select("SELECT host_id FROM claim WHERE group_id = ?", group)}
    target = chance.choice([host for host in map(cloud.host_id, cloud.agents) if host not in lives])
    cloud.store.write_now(together.begin, group, cloud.by(), target)


def may_turn_group(cloud: Cloud, sight: Sight) -> list[str]:
    rows = cloud.select("SELECT group_id FROM group_move WHERE state = 'moving' ORDER BY id")
    return [group for (group,) in rows if group in sight.groups]


def change_limits(cloud: Cloud, _: str, chance: Random) -> None:
    limits = {"instances": chance.randint(4, 16), "cores": chance.choice((8, 16, -1))}
    cloud.store.write_now(lambda tx: quotas.set_limits(tx, PROJECT, **limits))


GROUPS = (
    Operation("create-group", lambda cloud, sight: [""] * (len(sight.groups) < GROUPS_MOST), create_group),
    Operation(
        "delete-group",
        lambda cloud, sight: list(sight.groups) if len(sight.groups) > 3 else [],
        lambda cloud, group, _: cloud.delete_group(group),
    ),
    Operation("move-group", may_move_group, move_group, weight=3),
    Operation(
        "move-group-resume",
        may_turn_group,
        lambda cloud, group, _: cloud.store.write_now(together.forward, group, cloud.by()),
    ),
    Operation(
        "move-group-back",
        may_turn_group,
        lambda cloud, group, _: cloud.store.write_now(together.back, group, cloud.by()),
        weight=2,
    ),
    Operation("quota-set", lambda cloud, sight: [""], change_limits),
)

# -- Operators ------------------------------------------------------------------------------


def host_where(which: Callable[[Cloud, str, str, bool], bool]) -> Callable[[Cloud, Sight], list[str]]:
    """Hosts by name, status and whether they are disabled."""
    return lambda cloud, sight: [
        name for _, name, status, off in sight.hosts if which(cloud, name, status, off)
    ]


def disable(off: bool, cloud: Cloud, name: str, _: Random) -> None:
    cloud.store.write_now(hosts.set_disabled, cloud.host_id(name), off)


def force_down(cloud: Cloud, name: str, _: Random) -> None:
    cloud.store.write_now(hosts.fence, cloud.host_id(name))


def force_up(cloud: Cloud, name: str, _: Random) -> None:
    cloud.store.write_now(hosts.unfence, cloud.host_id(name))


def another_size(cloud: Cloud, name: str, chance: Random) -> None:
    """Its hardware changes; the agent says so when it has begun anew."""
    driver: Any = cloud.agents[name].driver
    driver.amounts["VCPU"] = chance.randint(1, VCPUS + 1)
    cloud.agent_returns(name)


def unstick(cloud: Cloud, move: str, _: Random) -> None:
    cloud.store.write_now(moves.unstick, move)


OPERATORS = (
    Operation("evacuate", may_evacuate, evacuate, weight=4),
    Operation("disable", host_where(lambda cloud, name, status, off: not off), partial(disable, True)),
    Operation("enable", host_where(lambda cloud, name, status, off: off), partial(disable, False), 2),
    Operation(
        "force-down",
        host_where(lambda cloud, name, status, off: name in cloud.dark and status == "up"),
        force_down,
    ),
    Operation(
        "force-up",
        host_where(lambda cloud, name, status, off: name not in cloud.silent and status == "fenced"),
        force_up,
        weight=2,
    ),
    Operation(
        "switch-on",
        host_where(lambda cloud, name, status, off: name in cloud.dark),
        lambda cloud, name, _: cloud.regain_power(name),
        weight=2,
    ),
    Operation(
        "another-size", host_where(lambda cloud, name, status, off: name not in cloud.silent), another_size
    ),
    Operation(
        "resume-move",
        lambda cloud, sight: [each.move for each in sight.servers if each.state == "stuck" and each.move],
        unstick,
        weight=2,
    ),
)

USERS = (*SERVERS, *GROUPS)
OPERATIONS: Mapping[str, Operation] = {each.name: each for each in (*USERS, *OPERATORS)}
USERS_WORDS = tuple(each.name for each in USERS for _ in range(each.weight))
OPERATORS_WORDS = tuple(each.name for each in OPERATORS for _ in range(each.weight))


def furnish(cloud: Cloud) -> None:
    """Groups of every policy with members, as tight as they may be; the beginning of every run."""
    apart = cloud.group("anti-affinity", name="apart")
    pairs = cloud.group("anti-affinity", 2, name="pairs")
    together = cloud.group("affinity", name="together")
    softly = cloud.group("soft-anti-affinity", name="softly")
    wishes: dict[str, Any] = {"networks": [{"uuid": cloud.network}], "image_id": "cirros"}
    for name, group in zip("abcdefgh", (apart,) * 3 + (pairs,) * 2 + (together, softly, None), strict=True):
        cloud.create(name, group, **wishes)
