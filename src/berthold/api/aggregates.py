"""Aggregates, and the availability zones that some of them are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berthold.api.call import Call
from berthold.api.views.fields import Field, column, constant, iso_long, render, render_all
from berthold.api.views.hosts import is_up
from berthold.errors import Malformed, NotFound
from berthold.ledger import reading
from berthold.ledger.store import Tx
from berthold.records import aggregates

NEW: list[Field[Mapping[str, Any]]] = [
    Field("id", column("number")),
    Field("uuid", column("id"), when="2.41"),
    Field("name", column("name")),
    Field("availability_zone", lambda aggregate, call: aggregate["metadata"].get(aggregates.ZONE)),
    Field("created_at", lambda aggregate, call: iso_long(aggregate["created_at"])),
    Field("updated_at", lambda aggregate, call: iso_long(aggregate["updated_at"])),
    Field("deleted", constant(False)),
    Field("deleted_at", constant(None)),
]
FIELDS = [*NEW, Field("hosts", column("hosts")), Field("metadata", column("metadata"))]


async def index(call: Call) -> dict[str, Any]:
    """All aggregates."""
    return {"aggregates": render_all(FIELDS, await call.store.read(aggregates.every), call)}


async def show(call: Call, aggregate_id: str) -> dict[str, Any]:
    """One aggregate."""
    return _one(await call.store.read(aggregates.get, aggregate_id), call)


async def create(call: Call) -> dict[str, Any]:
    """A new one, without hosts; its answer shows neither hosts nor metadata."""
    wish = call.body.aggregate
    row = await call.store.write(aggregates.create, wish.name, wish.availability_zone)
    return {"aggregate": render(NEW, row, call)}


async def update(call: Call, aggregate_id: str) -> dict[str, Any]:
    """Another name, or another zone."""
    wish = call.body.aggregate
    if wish.name is None and wish.availability_zone is None:
        raise Malformed("aggregate: expected a name, an availability_zone or both.")
    row = await call.store.write(aggregates.change, aggregate_id, name=wish.name, zone=wish.availability_zone)
    return _one(row, call)


async def delete(call: Call, aggregate_id: str) -> None:
    """An empty one only."""
    await call.store.write(aggregates.remove, aggregate_id)


async def action(call: Call, aggregate_id: str) -> dict[str, Any]:
    """add_host, remove_host or set_metadata."""
    given = {name: wish for name in ACTIONS if (wish := getattr(call.body, name)) is not None}
    if len(given) != 1:
        raise Malformed(f"Expected exactly one action: {', '.join(ACTIONS)}.")
    ((name, wish),) = given.items()
    call.must(f"os_compute_api:os-aggregates:{name}")
    return _one(await call.store.write(ACTIONS[name], aggregate_id, wish), call)


def _add_host(tx: Tx, aggregate_id: str, wish: Any) -> aggregates.Aggregate:
    if wish.host not in reading.host_names(tx):
        raise NotFound(f"Compute host {wish.host} could not be found.")
    return aggregates.add_host(tx, aggregate_id, wish.host)


def _remove_host(tx: Tx, aggregate_id: str, wish: Any) -> aggregates.Aggregate:
    return aggregates.remove_host(tx, aggregate_id, wish.host)


def _set_metadata(tx: Tx, aggregate_id: str, wish: Any) -> aggregates.Aggregate:
    return aggregates.set_metadata(tx, aggregate_id, wish.metadata)


ACTIONS = {"add_host": _add_host, "remove_host": _remove_host, "set_metadata": _set_metadata}


def _one(row: aggregates.Aggregate, call: Call) -> dict[str, Any]:
    return {"aggregate": render(FIELDS, row, call)}


# -- Availability zones -------------------------------------------------------------------


async def zones(call: Call) -> dict[str, Any]:
    """Which zones there are, and whether one of their hosts takes servers."""
    by_zone = await call.store.read(_by_zone)
    return {
        "availabilityZoneInfo": [
            {"zoneName": zone, "zoneState": {"available": _available(rows)}, "hosts": None}
            for zone, rows in by_zone.items()
        ]
    }


async def zones_in_detail(call: Call) -> dict[str, Any]:
    """The zones with their hosts and services."""
    by_zone = await call.store.read(_by_zone)
    return {
        "availabilityZoneInfo": [
            {
                "zoneName": zone,
                "zoneState": {"available": _available(rows)},
                "hosts": {row["name"]: {"nova-compute": _service(row, call)} for row in rows},
            }
            for zone, rows in by_zone.items()
        ]
    }


def _by_zone(tx: Tx) -> dict[str, list[reading.Row]]:
    own = aggregates.zones(tx)
    found: dict[str, list[reading.Row]] = {}
    for row in reading.hosts(tx):
        zone: str = own.get(row["name"]) or row["zone"]
        found.setdefault(zone, []).append(row)
    return dict(sorted(found.items()))


def _available(rows: list[reading.Row]) -> bool:
    return any(not row["disabled"] for row in rows)


def _service(row: reading.Row, call: Call) -> dict[str, Any]:
    return {
        "available": is_up(row, call),
        "active": not row["disabled"],
        "updated_at": iso_long(row["heard_at"]),
    }
