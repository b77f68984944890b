"""The hosts as they are now, for whoever ranks them. A snapshot: nothing rests on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from berthold.ledger import schema, seats
from berthold.ledger.store import Tx, clock_of

host = schema.host


@dataclass(frozen=True)
class HostRow:
    """One host. `members`: other members of the server's group that hold a claim there, moves in
    flight included; `own`: the server itself does; `inventories`: rows by resource class."""

    id: str
    name: str
    status: str
    disabled: bool
    heard: bool
    epoch: int
    zone: str
    traits: frozenset[str]
    inventories: Mapping[str, Mapping[str, Any]]
    members: int
    own: bool


def hosts(tx: Tx, server: Mapping[str, Any], silent_after_s: float) -> list[HostRow]:
    """Every host as it looks to this server, by name."""
    inventories: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for row in tx.execute(select(schema.inventory)).mappings():
        inventories[row["provider_id"]][row["class"]] = dict(row)
    traits: dict[str, set[str]] = defaultdict(set)
    for provider_id, trait in tx.execute(select(schema.provider_trait)):
        traits[provider_id].add(trait)
    members = seats.holders(tx, server["group_id"], but=server["id"]) if server["group_id"] else {}
    own = set(
        tx.execute(select(schema.claim.c.host_id).where(schema.claim.c.server_id == server["id"])).scalars()
    )
    rows = tx.execute(
        select(host, schema.heartbeat.c.heard_at)
        .select_from(host.outerjoin(schema.heartbeat, schema.heartbeat.c.host_id == host.c.id))
        .order_by(host.c.name)
    )
    present = clock_of(tx).now()
    return [
        HostRow(
            id=row.id,
            name=row.name,
            status=row.status,
            disabled=row.disabled,
            heard=present - (row.heard_at or 0.0) <= silent_after_s,
            epoch=row.epoch,
            zone=row.zone,
            traits=frozenset(traits[row.id]),
            inventories=inventories[row.id],
            members=members.get(row.id, 0),
            own=row.id in own,
        )
        for row in rows
    ]


def group_of(tx: Tx, group_id: str | None) -> Mapping[str, Any] | None:
    """The group, if there still is one (G4: it may be deleted at any moment)."""
    if group_id is None:
        return None
    group = schema.server_group
    row = tx.execute(select(group).where(group.c.id == group_id)).mappings().first()
    return dict(row) if row else None


def home_of_group(tx: Tx, group_id: str) -> str | None:
    """The host that an affinity group lives on."""
    place = schema.group_place
    home: str | None = tx.execute(
        select(place.c.host_id).where(place.c.group_id == group_id, place.c.role == "home")
    ).scalar()
    return home
