"""Whether servers are where their group's policy and their host's capacity want them, and why not.

No claim is granted that breaks a promise, and yet a server may not comply: its host's inventory
was shrunk under it (C1 allows that), its rows came from elsewhere, its host is fenced, or a soft
policy could not be met. Three kinds of finding:

    violation    the policy or the capacity is exceeded, by whatever way that came to be
    at risk      all holds, but the server's host cannot act or does not answer
    preference   a soft policy is not met (it is none of its members' fault)

Reads only, and shares nothing with the code that keeps the promises but the tables.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, and_, distinct, exists, func, select

from berthold.ledger import schema
from berthold.ledger.store import Tx

server, claim, host, group = schema.server, schema.claim, schema.host, schema.server_group
place, inventory = schema.group_place, schema.inventory

VIOLATION, AT_RISK, PREFERENCE = "violation", "at risk", "preference"


@dataclass(frozen=True)
class Finding:
    """What is wrong with these servers. `says` is for operators; `told` is for the owner and names no
    host. `mends`: each of these would put it right; `owners_mends`: so could these, by the owner."""

    kind: str
    rule: str
    says: str
    told: str
    servers: tuple[str, ...] = ()
    group_id: str | None = None
    host_id: str | None = None
    host: str | None = None
    subject: str = ""  # what else tells it from others of its rule
    mends: tuple[str, ...] = ()
    owners_mends: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The same for the same trouble, however often it is found."""
        return "/".join([self.rule, self.group_id or "", self.host_id or "", self.subject])


@dataclass(frozen=True)
class Member:
    """A member of a group, where it lives, and what is wrong with it. `holds`: (host id, role) of each
    of its claims."""

    id: str
    name: str
    project_id: str
    host: str | None
    holds: tuple[tuple[str, str], ...]
    findings: tuple[Finding, ...]

    @property
    def complies(self) -> bool:
        return not any(finding.kind == VIOLATION for finding in self.findings)


@dataclass(frozen=True)
class Held:
    """A claim of a member, with what of its server and host matters here."""

    server_id: str
    server_name: str
    host_id: str
    host: str
    status: str
    heard_at: float
    role: str


# -- The whole cloud ----------------------------------------------------------------------


def violations(tx: Tx, group_id: str | None = None) -> list[Finding]:
    """Every violation in the cloud, or only those of this group's policy."""
    found = [*crowded(tx, group_id), *scattered(tx, group_id)]
    return found if group_id else [*found, *over_capacity(tx)]


def over_capacity(tx: Tx, host_ids: Sequence[str] | None = None) -> list[Finding]:
    """C1: hosts that hold more than they may, since their inventory was shrunk below its use."""
    i = inventory.c
    rows = (
        select(host.c.id, host.c.name, i["class"], i.used, i.capacity)
        .join(host, host.c.id == i.provider_id)
        .where(i.used > i.capacity)
        .order_by(host.c.name, i["class"])
    )
    if host_ids is not None:
        rows = rows.where(host.c.id.in_(host_ids))
    found = []
    for host_id, name, resource_class, used, capacity in tx.execute(rows):
        over = f"{used - capacity} {resource_class}"
        found.append(
            Finding(
                VIOLATION,
                "C1",
                f"host {name} holds {used} {resource_class}, {over} above its capacity of {capacity}:"
                " its inventory was shrunk below its use",
                "its host holds more than its capacity",
                _living_on(tx, host_id),
                host_id=host_id,
                host=name,
                subject=resource_class,
                mends=(
                    f"move servers that hold {over} away from {name}",
                    f"let {name} offer {over} more again",
                ),
            )
        )
    return found


def _living_on(tx: Tx, host_id: str) -> tuple[str, ...]:
    homes = select(claim.c.server_id).where(claim.c.host_id == host_id, claim.c.role == "home")
    return tuple(tx.execute(homes.order_by(claim.c.server_id)).scalars())


def crowded(tx: Tx, group_id: str | None = None) -> list[Finding]:
    """G1: hosts with more members of an anti-affinity group than its `max_server_per_host`."""
    c = claim.c
    members = func.count(distinct(c.server_id))
    rows = (
        select(server.c.group_id, group.c.name, group.c.per_host, c.host_id, host.c.name, members)
        .select_from(_members().join(host, host.c.id == c.host_id))
        .where(group.c.policy == "anti-affinity", *_of(group_id))
        .group_by(server.c.group_id, group.c.name, group.c.per_host, c.host_id, host.c.name)
        .having(members > group.c.per_host)
        .order_by(group.c.name, server.c.group_id, host.c.name)
    )
    found = []
    for gid, name, per_host, host_id, host_name, count in tx.execute(rows):
        here = dict(_named(tx, gid, host_id))
        names = " and ".join(here.values())
        mend = f"migrate {count - per_host} of them to hosts without a member"
        found.append(
            Finding(
                VIOLATION,
                "G1",
                f"{count} members of anti-affinity group {name} are on host {host_name}, which may hold"
                f" {per_host}: {names}",
                f"{count} members share a host that may hold {per_host}: {names}",
                tuple(here),
                gid,
                host_id,
                host_name,
                mends=(mend,),
                owners_mends=(mend,),
            )
        )
    return found


def scattered(tx: Tx, group_id: str | None = None) -> list[Finding]:
    """G2: members of an affinity group that are not where it lives (or goes to)."""
    at_place = exists().where(place.c.group_id == server.c.group_id, place.c.host_id == claim.c.host_id)
    rows = (
        select(server.c.group_id)
        .distinct()
        .select_from(_members())
        .where(group.c.policy == "affinity", claim.c.role != "left", ~at_place, *_of(group_id))
    )
    return [finding for gid in sorted(tx.execute(rows).scalars()) for finding in _strays(tx, gid)]


def _strays(tx: Tx, group_id: str) -> list[Finding]:
    """The group lives at its places; one that has none (its rows came from elsewhere), where most of
    its members are."""
    held = [each for each in _held(tx, group_id) if each.role != "left"]
    names = {each.host_id: each.host for each in held}
    at: dict[str, str] = {
        row.role: row.host_id
        for row in tx.execute(select(place.c.role, place.c.host_id).where(place.c.group_id == group_id))
    } or {"home": max(sorted(names), key=Counter(each.host_id for each in held).__getitem__)}
    home = names.get(at["home"], "its home")
    strays: dict[str, dict[str, str]] = defaultdict(dict)
    for each in held:
        if each.host_id not in at.values():
            strays[each.host_id][each.server_id] = each.server_name
    return [
        Finding(
            VIOLATION,
            "G2",
            f"{' and '.join(away.values())} of an affinity group that lives on host {home} hold a place on"
            f" host {names[host_id]}",
            f"{' and '.join(away.values())} are not on the host where the group lives",
            tuple(away),
            group_id,
            host_id,
            names[host_id],
            mends=(f"migrate them to {home}",),
            owners_mends=("migrate them to where the others are",),
        )
        for host_id, away in sorted(strays.items())
    ]


# -- One group ----------------------------------------------------------------------------


def members(tx: Tx, group_row: Mapping[str, Any], heard_since: float) -> list[Member]:
    """Each member of the group with everything that is found of it. Hosts that were not heard since
    `heard_since` are silent."""
    held = _held(tx, group_row["id"])
    by_server: dict[str, list[Held]] = defaultdict(list)
    for each in held:
        by_server[each.server_id].append(each)
    found = violations(tx, group_row["id"])
    over = over_capacity(tx, sorted({each.host_id for each in held}))
    rows = (
        select(server.c.id, server.c.name, server.c.project_id)
        .where(server.c.group_id == group_row["id"], server.c.deleted_at.is_(None))
        .order_by(server.c.created_at, server.c.id)
    )
    return [
        Member(
            row.id,
            row.name,
            row.project_id,
            next((each.host for each in by_server[row.id] if each.role == "home"), None),
            tuple((each.host_id, each.role) for each in by_server[row.id]),
            (
                *(each for each in (*found, *over) if row.id in each.servers),
                *_risks(row.id, by_server[row.id], heard_since),
                *_unmet(row.id, group_row, held),
            ),
        )
        for row in tx.execute(rows)
    ]


def _risks(server_id: str, held: Sequence[Held], heard_since: float) -> list[Finding]:
    found = []
    for each in held:
        if each.role == "left":
            says = f"what it left behind on host {each.host} holds its seat and its capacity there"
            told = "what it left behind on a host that is down holds a seat there"
            found.append(_risk("M1", each, says, told, f"start the agent of {each.host}, which removes it"))
        elif each.role == "home" and each.status == "fenced":
            mends = f"openstack server evacuate {server_id}", f"bring {each.host} back"
            found.append(_risk("M5", each, f"its host {each.host} is fenced", "its host is down", *mends))
        elif each.role == "home" and each.heard_at < heard_since:
            says, told = f"its host {each.host} is not heard of", "its host does not answer"
            found.append(_risk("M5", each, says, told, f"look at {each.host} and its agent"))
    return found


def _risk(rule: str, held: Held, says: str, told: str, *mends: str) -> Finding:
    where: dict[str, Any] = {"host_id": held.host_id, "host": held.host}
    return Finding(AT_RISK, rule, says, told, (held.server_id,), mends=mends, **where)


def _unmet(server_id: str, group_row: Mapping[str, Any], held: Sequence[Held]) -> list[Finding]:
    """G3: what a soft policy would rather have."""
    homes = {each.server_id: each for each in held if each.role == "home"}
    mine = homes.get(server_id)
    if mine is None or not group_row["policy"].startswith("soft-"):
        return []
    where: dict[str, Any] = {"servers": (server_id,), "host_id": mine.host_id, "host": mine.host}
    others = [each for each in homes.values() if each.server_id != server_id]
    names = [each.server_name for each in others if each.host_id == mine.host_id]
    if group_row["policy"] == "soft-anti-affinity" and names:
        told = f"it shares its host with {' and '.join(names)}"
        mends = ("migrate it when a host without a member has room",)
        says = f"{told}: {mine.host}"
        return [Finding(PREFERENCE, "G3", says, told, mends=mends, owners_mends=mends, **where)]
    counts = Counter(each.host_id for each in homes.values())
    if group_row["policy"] == "soft-affinity" and counts[mine.host_id] < max(counts.values()):
        told = "more of its group are on another host"
        mends = ("migrate it when the host of the others has room",)
        says = f"{told} than on {mine.host}"
        return [Finding(PREFERENCE, "G3", says, told, mends=mends, owners_mends=mends, **where)]
    return []


def _held(tx: Tx, group_id: str) -> list[Held]:
    """Every claim of the group's members."""
    beat = schema.heartbeat
    rows = (
        select(
            *(claim.c.server_id, server.c.name, host.c.id, host.c.name, host.c.status),
            *(func.coalesce(beat.c.heard_at, 0.0), claim.c.role),
        )
        .select_from(
            claim.join(server, server.c.id == claim.c.server_id)
            .join(host, host.c.id == claim.c.host_id)
            .outerjoin(beat, beat.c.host_id == host.c.id)
        )
        .where(server.c.group_id == group_id)
        .order_by(server.c.name, server.c.id, host.c.name, claim.c.id)
    )
    return [Held(*row) for row in tx.execute(rows)]


def _named(tx: Tx, group_id: str, host_id: str) -> list[tuple[str, str]]:
    """(id, name) of each member with a claim there."""
    rows: Select[Any] = select(server.c.id, server.c.name).where(
        server.c.group_id == group_id,
        exists().where(and_(claim.c.server_id == server.c.id, claim.c.host_id == host_id)),
    )
    return [(row[0], row[1]) for row in tx.execute(rows.order_by(server.c.name, server.c.id))]


def _members() -> Any:
    """Claims with their server and its group: what the server says, whatever the claim says."""
    return claim.join(server, server.c.id == claim.c.server_id).join(group, group.c.id == server.c.group_id)


def _of(group_id: str | None) -> list[Any]:
    return [] if group_id is None else [group.c.id == group_id]
