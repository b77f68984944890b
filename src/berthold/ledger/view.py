"""The hosts as they are now, for whoever ranks them. A snapshot: nothing rests on it.

A host's `generation` rises, under the host's lock, with everything else that is told of it
here but `heard_at`, and `host:<id>` is announced with it. So whoever keeps rows knows which
ones are old, and of two rows of a host which is the later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, select

from berthold.ledger import schema
from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Tx

host = schema.host
provider = schema.provider
inventory = schema.inventory
trait = schema.provider_trait
heartbeat = schema.heartbeat
claim = schema.claim
group = schema.server_group

# A host with its offers: one row for each resource class, one for a host without any.
HOSTS = select(
    host.c.id,
    host.c.name,
    host.c.status,
    host.c.disabled,
    host.c.epoch,
    provider.c.generation,
    host.c.zone,
    heartbeat.c.heard_at,
    inventory.c["class"],
    inventory.c.capacity,
    inventory.c.used,
    inventory.c.min_unit,
    inventory.c.max_unit,
    inventory.c.step_size,
).select_from(
    host.join(provider, provider.c.id == host.c.id)
    .outerjoin(heartbeat, heartbeat.c.host_id == host.c.id)
    .outerjoin(inventory, inventory.c.provider_id == host.c.id)
)
TRAITS = select(trait.c.provider_id, trait.c.trait)
# Of some hosts, and of one: what a claim has changed.
OF_SOME = (
    HOSTS.where(host.c.id.in_(bindparam("ids", expanding=True))),
    TRAITS.where(trait.c.provider_id.in_(bindparam("ids", expanding=True))),
)
ONE = Prepared(HOSTS.where(host.c.id == bindparam("id")))
TRAITS_OF_ONE = Prepared(TRAITS.where(trait.c.provider_id == bindparam("id")))
HEARD = select(heartbeat.c.host_id, heartbeat.c.heard_at)
HEARD_OF_ONE = Prepared(HEARD.where(heartbeat.c.host_id == bindparam("id")))
GROUP = select(group).where(group.c.id == bindparam("group"))


@dataclass(frozen=True)
class HostRow:
    """One host. `inventories`: (capacity, used, min_unit, max_unit, step_size) by resource class."""

    id: str
    name: str
    status: str
    disabled: bool
    epoch: int
    generation: int
    zone: str
    heard_at: float
    traits: frozenset[str]
    inventories: dict[str, tuple[int, ...]]


def hosts(tx: Tx, ids: Collection[str] | None = None) -> list[HostRow]:
    """These hosts (or all), as they are."""
    found, having = _look(tx, ids)
    traits: dict[str, set[str]] = defaultdict(set)
    for provider_id, name in having:
        traits[provider_id].add(name)
    rows: dict[str, HostRow] = {}
    for row in found:
        if row[0] not in rows:
            of_host: tuple[Any, Any, Any, Any, Any, Any, Any] = tuple(row[:7])
            rows[row[0]] = HostRow(*of_host, row[7] or 0.0, frozenset(traits.get(row[0], ())), {})
        if row[8] is not None:
            rows[row[0]].inventories[row[8]] = tuple(row[9:])
    return list(rows.values())


def _look(tx: Tx, ids: Collection[str] | None) -> tuple[Iterable[Any], Iterable[Any]]:
    """The rows of these hosts, and of their traits."""
    if ids is None:
        return tx.execute(HOSTS), tx.execute(TRAITS)
    if len(ids) == 1:
        one = {"id": next(iter(ids))}
        return ONE.rows(tx, one), TRAITS_OF_ONE.rows(tx, one)
    hosts, traits = OF_SOME
    return tx.execute(hosts, {"ids": list(ids)}), tx.execute(traits, {"ids": list(ids)})


def generations(tx: Tx) -> dict[str, int]:
    """The generation of every host."""
    rows = tx.execute(select(host.c.id, provider.c.generation).join(provider, provider.c.id == host.c.id))
    return {row[0]: row[1] for row in rows}


def heard(tx: Tx, ids: Collection[str] | None = None) -> dict[str, float]:
    """When the agents of these hosts (or of all) were heard last."""
    if ids is not None and len(ids) == 1:
        return dict(HEARD_OF_ONE.rows(tx, {"id": next(iter(ids))}))
    rows = HEARD if ids is None else HEARD.where(heartbeat.c.host_id.in_(ids))
    return {row[0]: row[1] for row in tx.execute(rows)}


def group_of(tx: Tx, group_id: str | None) -> Mapping[str, Any] | None:
    """The group, if there still is one (G4: it may be deleted at any moment)."""
    if group_id is None:
        return None
    row = tx.execute(GROUP, {"group": group_id}).mappings().first()
    return dict(row) if row else None


def places_of_group(tx: Tx, group_id: str) -> dict[str, str]:
    """The host that an affinity group lives on, as `home`, and the one that it moves to, as `next`."""
    place = schema.group_place
    rows = tx.execute(select(place.c.role, place.c.host_id).where(place.c.group_id == group_id))
    return {row[0]: row[1] for row in rows}


def hosts_of(tx: Tx, project_id: str, server_ids: Collection[str]) -> frozenset[str]:
    """Every host that these servers of the project have a claim on. Others' servers are as good as none."""
    if not server_ids:
        return frozenset()
    server = schema.server
    rows = (
        select(claim.c.host_id)
        .join(server, server.c.id == claim.c.server_id)
        .where(claim.c.server_id.in_(server_ids), server.c.project_id == project_id)
    )
    return frozenset(tx.execute(rows).scalars())
