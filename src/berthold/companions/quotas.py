"""Q1 for volumes and networks: what a project uses never exceeds what it may use, racing or not.

A row per project and resource, changed by a guarded update in the transaction that makes the
thing. A limit lowered below the use takes nothing away; it stops growth only. `per_volume_gigabytes`
limits each volume and counts nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, and_, bindparam, case, func, literal, select, update

from berthold.companions.schema import (
    companion_quota,
    network,
    network_port,
    network_subnet,
    volume,
    volume_snapshot,
)
from berthold.errors import Malformed, Refused
from berthold.ledger.audit import Violation
from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Tx, greatest, insert, settings_of
from berthold.settings import Settings

NO_LIMIT = 2**62
# What each service has a limit for.
NOT_OFFERED_VOLUMES = ("backups", "backup_gigabytes", "groups")
NOT_OFFERED_NETWORKS = (
    "floatingip",
    "rbac_policy",
    "router",
    "security_group",
    "security_group_rule",
    "subnetpool",
)
OF_VOLUMES = ("volumes", "snapshots", "gigabytes", "per_volume_gigabytes", *NOT_OFFERED_VOLUMES)
OF_NETWORKS = ("network", "subnet", "port", *NOT_OFFERED_NETWORKS)
NOT_OFFERED = frozenset((*NOT_OFFERED_VOLUMES, *NOT_OFFERED_NETWORKS))


# What every create needs, built once: one more, and one less.
AMOUNT = bindparam("amount", type_=BigInteger)
USED, MAXIMUM = companion_quota.c.used, companion_quota.c.maximum
OF_PROJECT = and_(
    companion_quota.c.project_id == bindparam("project"), companion_quota.c.resource == bindparam("what")
)
TAKE = Prepared(
    update(companion_quota).where(OF_PROJECT, USED + AMOUNT <= MAXIMUM).values(used=USED + AMOUNT)
)
LEFT = USED - AMOUNT
GIVE = Prepared(
    update(companion_quota)
    .where(OF_PROJECT)
    .values(used=LEFT, ceiling=case((MAXIMUM > LEFT, MAXIMUM), else_=LEFT))
)


@dataclass(frozen=True)
class Usage:
    """How much is used and may be; a `limit` of -1 is none."""

    used: int
    limit: int


class OverQuota(Refused):
    """Q1 refuses. `resource` is what there would be too much of; the rest is what the sentence says."""

    def __init__(self, resource: str, wanted: int, usage: Usage) -> None:
        super().__init__("Q1", said(resource, wanted, usage))
        self.resource = resource


def said(resource: str, wanted: int, usage: Usage) -> str:
    """A refusal in the words that each service's clients know."""
    if resource == "gigabytes":
        return (
            "Requested volume or snapshot exceeds allowed gigabytes quota."
            f" Requested {wanted}G, quota is {usage.limit}G and {usage.used}G has been consumed."
        )
    if resource == "per_volume_gigabytes":
        return f"Requested volume size {wanted}G is larger than maximum allowed limit {usage.limit}G."
    if resource in OF_VOLUMES:
        return f"Maximum number of {resource} allowed ({usage.limit}) exceeded for quota '{resource}'."
    more = f"{usage.used} of {usage.limit} are in use, and {wanted} more asked for."
    return f"Quota exceeded for resources: ['{resource}']: {more}"


# -- Looking ------------------------------------------------------------------------------


def default(settings: Settings, resource: str) -> int:
    """What a project may have until somebody sets another limit; -1 for none. Of what is not offered there
    is never any, so a limit of it is kept whatever it is."""
    limit: int = -1 if resource in NOT_OFFERED else getattr(settings, f"quota_{resource}")
    return limit


def defaults(settings: Settings, resources: Collection[str]) -> dict[str, int]:
    """What a project may have of each until somebody sets another limit."""
    return {each: default(settings, each) for each in resources}


def of(tx: Tx, project_id: str, resources: Collection[str]) -> dict[str, Usage]:
    """What the project uses and may use of each."""
    wanted = select(companion_quota).where(
        companion_quota.c.project_id == project_id, companion_quota.c.resource.in_(resources)
    )
    kept = {row.resource: Usage(row.used, _as_limit(row.maximum)) for row in tx.execute(wanted)}
    return {
        each: kept.get(each, Usage(0, limit)) for each, limit in defaults(settings_of(tx), resources).items()
    }


def audit(tx: Tx) -> list[Violation]:
    """Q1 again, as queries that must find nothing: counters that are not what exists."""
    return [
        Violation(
            "Q1",
            f"project {project_id} counts {counted} {resource} as used, it has {there}",
            {"project_id": project_id, "resource": resource, "counted": counted, "there": there},
        )
        for project_id, resource, counted, there in miscounted(tx)
    ]


def miscounted(tx: Tx) -> list[tuple[str, str, int, int]]:
    """Where a counter is not what exists: (project, resource, counted, there). Q1 promises none."""
    counted = {(row.project_id, row.resource): row.used for row in tx.execute(select(companion_quota))}
    there: dict[tuple[str, str], int] = {}
    kept = volume.c.status != "deleted"
    for resource, table, number, condition in (
        ("volumes", volume, func.count(), kept),
        ("gigabytes", volume, func.sum(volume.c.size), kept),
        ("snapshots", volume_snapshot, func.count(), True),
        ("gigabytes", volume_snapshot, func.sum(volume_snapshot.c.size), True),
        ("network", network, func.count(), True),
        ("subnet", network_subnet, func.count(), True),
        ("port", network_port, func.count(), True),
    ):
        conditions = (condition,) if isinstance(condition, ColumnElement) else ()
        query = select(table.c.project_id, number.label("n")).select_from(table).where(*conditions)
        for row in tx.execute(query.group_by(table.c.project_id)):
            key = (row.project_id, resource)
            there[key] = there.get(key, 0) + int(row.n)
    return [
        (*key, counted.get(key, 0), there.get(key, 0))
        for key in sorted(counted.keys() | there.keys())
        if counted.get(key, 0) != there.get(key, 0)
    ]


# -- Taking and giving back ---------------------------------------------------------------


def charge(tx: Tx, project_id: str, **amounts: int) -> None:
    """Take so much of each, in one order for all. Raises `OverQuota`; then take nothing else either."""
    for resource, more in sorted(amounts.items()):
        if more > 0 and not _take(tx, project_id, resource, more):
            raise OverQuota(resource, more, of(tx, project_id, [resource])[resource])


def need_room(tx: Tx, project_id: str, **amounts: int) -> None:
    """Raise `OverQuota` where there is no room for so much of each, as far as can be seen. Takes nothing."""
    for resource, usage in of(tx, project_id, amounts.keys()).items():
        if 0 <= usage.limit < usage.used + amounts[resource]:
            raise OverQuota(resource, amounts[resource], usage)


def give_back(tx: Tx, project_id: str, **amounts: int) -> None:
    """Return what was taken."""
    for resource, less in sorted(amounts.items()):
        if less > 0:
            GIVE.change(tx, {"project": project_id, "what": resource, "amount": less})


def _take(tx: Tx, project_id: str, resource: str, more: int) -> bool:
    """Whether there was room, which is now taken."""
    wish = {"project": project_id, "what": resource, "amount": more}
    if TAKE.change(tx, wish):
        return True
    _ensure(tx, project_id, resource)
    return bool(TAKE.change(tx, wish))


# -- Limits -------------------------------------------------------------------------------


def limits_from(wish: Mapping[str, Any]) -> dict[str, int]:
    """Limits as a request names them; `Malformed` says which is none."""
    for name, limit in wish.items():
        if isinstance(limit, bool) or not isinstance(limit, int) or not -1 <= limit < 2**31:
            raise Malformed(f"the limit for {name} is a whole number from -1, which is none, to {2**31 - 1}")
    return dict(wish)


def set_limits(tx: Tx, /, project_id: str, limits: Mapping[str, int], *, not_below_use: bool = False) -> None:
    """The project may use so much from now on (-1: without limit), of what is named.

    `not_below_use`: `Malformed` for a limit that is less than what is used already.
    """
    for resource, limit in sorted(limits.items()):
        _ensure(tx, project_id, resource)
        if not _write_limit(tx, project_id, resource, limit, not_below_use=not_below_use):
            raise Malformed(f"the project uses more than {limit} of {resource} already")


def reset_limits(tx: Tx, project_id: str, resources: Collection[str]) -> None:
    """The project has the default limits again; what is used stays counted, and nothing is kept of a
    project that had no others."""
    for resource in sorted(resources):
        _write_limit(tx, project_id, resource, default(settings_of(tx), resource))


def _write_limit(tx: Tx, project_id: str, resource: str, limit: int, *, not_below_use: bool = False) -> bool:
    """Whether there was a counter, whose limit this now is."""
    maximum = literal(NO_LIMIT if limit < 0 else limit, BigInteger)
    mine = _is(project_id, resource)
    if not_below_use:
        mine = and_(mine, companion_quota.c.used <= maximum)
    values = {"maximum": maximum, "ceiling": greatest(tx, maximum, companion_quota.c.used)}
    return bool(tx.execute(update(companion_quota).where(mine).values(values)).rowcount)


def _ensure(tx: Tx, project_id: str, resource: str) -> None:
    limit = default(settings_of(tx), resource)
    number = NO_LIMIT if limit < 0 else limit
    fields: dict[str, Any] = {"project_id": project_id, "resource": resource}
    made = insert(tx, companion_quota).values(**fields, used=0, maximum=number, ceiling=number)
    tx.execute(made.on_conflict_do_nothing())


def _is(project_id: str, resource: str) -> ColumnElement[bool]:
    return and_(companion_quota.c.project_id == project_id, companion_quota.c.resource == resource)


def _as_limit(number: int) -> int:
    return -1 if number >= NO_LIMIT else number
