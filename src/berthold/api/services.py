"""Services: one `nova-compute` per host, as operators switch it on and off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berthold.api.call import Call
from berthold.api.views.fields import Field, column, constant, iso_long, render, render_all
from berthold.api.views.hosts import number_of, state
from berthold.errors import Malformed, NotFound
from berthold.ledger import hosts, reading
from berthold.ledger.store import Tx
from berthold.records import aggregates

BINARY = "nova-compute"
QUERY = frozenset({"host", "binary"})

FIELDS: list[Field[Mapping[str, Any]]] = [
    Field("id", lambda host, call: number_of(host["id"]), when="2.1-2.52"),
    Field("id", column("id"), when="2.53"),
    Field("binary", constant(BINARY)),
    Field("host", column("name")),
    Field("zone", column("zone")),
    Field("status", lambda host, call: "disabled" if host["disabled"] else "enabled"),
    Field("disabled_reason", column("disabled_reason")),
    Field("state", state),
    Field("updated_at", lambda host, call: iso_long(host["heard_at"])),
    Field("forced_down", lambda host, call: host["status"] == "fenced", when="2.11"),
]


async def index(call: Call) -> dict[str, Any]:
    """All services, or those of a host."""
    rows = await call.store.read(_every)
    name, binary = call.query.text("host"), call.query.text("binary")
    kept = [row for row in rows if name in (None, row["name"]) and binary in (None, BINARY)]
    return {"services": render_all(FIELDS, kept, call)}


async def update(call: Call, service_id: str) -> dict[str, Any]:
    """Enable or disable a service (since 2.53)."""
    wish = call.body
    if wish.forced_down is not None:
        raise Malformed("forced_down: a host is fenced by what watches over it, not through this API yet.")
    if wish.status is None:
        raise Malformed("status: expected enabled or disabled.")
    if wish.disabled_reason is not None and wish.status == "enabled":
        raise Malformed("Specifying disabled_reason when status is 'enabled' is invalid.")
    row = await call.store.write(_switch, service_id, wish.status == "disabled", wish.disabled_reason)
    return {"service": render(FIELDS, row, call)}


async def enable(call: Call) -> dict[str, Any]:
    """Enable the service that the body names (before 2.53)."""
    await call.store.write(_switch_named, call.body, False)
    return {"service": {"host": call.body.host, "binary": call.body.binary, "status": "enabled"}}


async def disable(call: Call) -> dict[str, Any]:
    """Disable the service that the body names (before 2.53)."""
    await call.store.write(_switch_named, call.body, True)
    return {"service": {"host": call.body.host, "binary": call.body.binary, "status": "disabled"}}


async def disable_with_reason(call: Call) -> dict[str, Any]:
    """Disable it and say why (before 2.53)."""
    if call.body.disabled_reason is None:
        raise Malformed("Missing disabled reason field")
    shown = await disable(call)
    shown["service"]["disabled_reason"] = call.body.disabled_reason
    return shown


def _every(tx: Tx) -> list[reading.Row]:
    zones = aggregates.zones(tx)
    rows = reading.hosts(tx)
    for row in rows:
        row["zone"] = zones.get(row["name"], row["zone"])
    return rows


def _switch(tx: Tx, service_id: str, disabled: bool, reason: str | None) -> reading.Row:
    if not any(row["id"] == service_id for row in reading.hosts(tx, ids=[service_id])):
        raise NotFound(f"Service {service_id} could not be found.")
    hosts.set_disabled(tx, service_id, disabled, reason)
    return next(row for row in _every(tx) if row["id"] == service_id)


def _switch_named(tx: Tx, wish: Any, disabled: bool) -> None:
    host_id = reading.host_names(tx).get(wish.host)
    if host_id is None or wish.binary != BINARY:
        raise NotFound(f"Could not find binary {wish.binary} on host {wish.host}.")
    hosts.set_disabled(tx, host_id, disabled, wish.disabled_reason)
