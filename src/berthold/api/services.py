"""Services: one `nova-compute` per host, as operators switch it on and off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from berthold.api.call import Call
from berthold.api.microversions import Version
from berthold.api.schemas.services import ServiceChange
from berthold.api.views.fields import Field, column, constant, iso_long, render, render_all
from berthold.api.views.hosts import number_of, state
from berthold.errors import Malformed, NotFound
from berthold.ledger import hosts, reading
from berthold.ledger.store import Tx
from berthold.moves import left
from berthold.records import aggregates

log = structlog.get_logger("berthold.services")

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
    if wish.forced_down is None and wish.status is None:
        raise Malformed("No updates were requested. Fields 'status' or 'forced_down' should be specified.")
    if wish.disabled_reason is not None and wish.status != "disabled":
        raise Malformed("Specifying disabled_reason when status is not 'disabled' is invalid.")
    row = await call.store.write(_update, service_id, wish)
    _tell(call, row["name"], wish.status, wish.forced_down, wish.disabled_reason)
    return {"service": render(FIELDS, row, call)}


async def delete(call: Call, service_id: str) -> None:
    """Forget a host that no server is on and that no move comes from or goes to. Of a host that is
    forced down this says that it will never return: what evacuated servers left there is forgotten too."""
    _tell(call, await call.store.write(_delete, call, service_id), "forgotten")


async def enable(call: Call) -> dict[str, Any]:
    """Enable the service that the body names (before 2.53)."""
    await call.store.write(_switch_named, call.body, False)
    _tell(call, call.body.host, "enabled")
    return {"service": {"host": call.body.host, "binary": call.body.binary, "status": "enabled"}}


async def disable(call: Call) -> dict[str, Any]:
    """Disable the service that the body names (before 2.53)."""
    await call.store.write(_switch_named, call.body, True)
    _tell(call, call.body.host, "disabled", reason=call.body.disabled_reason)
    return {"service": {"host": call.body.host, "binary": call.body.binary, "status": "disabled"}}


async def disable_with_reason(call: Call) -> dict[str, Any]:
    """Disable it and say why (before 2.53)."""
    if call.body.disabled_reason is None:
        raise Malformed("Missing disabled reason field")
    shown = await disable(call)
    shown["service"]["disabled_reason"] = call.body.disabled_reason
    return shown


async def force_down(call: Call) -> dict[str, Any]:
    """Fence the host that the body names, or let it act again (2.11 to 2.52)."""
    wish = call.body
    await call.store.write(_fence_named, wish)
    _tell(call, wish.host, forced_down=wish.forced_down)
    return {"service": {"host": wish.host, "binary": wish.binary, "forced_down": wish.forced_down}}


def _tell(
    call: Call,
    host: str,
    status: str | None = None,
    forced_down: bool | None = None,
    reason: str | None = None,
) -> None:
    """Operators read in the log who took a host out of use, or let it in again."""
    log.info(
        "host switched",
        host=host,
        status=status,
        forced_down=forced_down,
        reason=reason,
        user=call.actor.user_id,
        request=call.request_id,
    )


def _every(tx: Tx) -> list[reading.Row]:
    zones = aggregates.zones(tx)
    rows = reading.hosts(tx)
    for row in rows:
        row["zone"] = zones.get(row["name"], row["zone"])
    return rows


def _update(tx: Tx, service_id: str, wish: ServiceChange) -> reading.Row:
    host = _host(tx, service_id)
    if wish.status is not None:
        hosts.set_disabled(tx, host["id"], wish.status == "disabled", wish.disabled_reason)
    if wish.forced_down is not None:
        _fence(tx, host, wish.forced_down)
    return next(row for row in _every(tx) if row["id"] == service_id)


def _host(tx: Tx, service_id: str) -> reading.Row:
    for row in reading.hosts(tx, ids=[service_id]):
        return row
    raise NotFound(f"Service {service_id} could not be found.")


def _fence(tx: Tx, host: reading.Row, down: bool) -> None:
    """M5: a host that is forced down may not act. Said again it changes nothing, no epoch either."""
    if down and host["status"] != "fenced":
        hosts.fence(tx, host["id"])
    elif not down and host["status"] == "fenced":
        hosts.unfence(tx, host["id"])


def _delete(tx: Tx, call: Call, service_id: str) -> str:
    by_uuid = call.version >= Version(2, 53)
    for row in reading.hosts(tx, ids=[service_id] if by_uuid else None):
        if by_uuid or str(number_of(row["id"])) == service_id:
            left.forget_host(tx, row["id"])
            aggregates.forget_host(tx, row["name"])
            return str(row["name"])
    raise NotFound(f"Service {service_id} could not be found.")


def _named(tx: Tx, wish: Any) -> str:
    host_id = reading.host_names(tx).get(wish.host)
    if host_id is None or wish.binary != BINARY:
        raise NotFound(f"Could not find binary {wish.binary} on host {wish.host}.")
    return host_id


def _switch_named(tx: Tx, wish: Any, disabled: bool) -> None:
    hosts.set_disabled(tx, _named(tx, wish), disabled, wish.disabled_reason)


def _fence_named(tx: Tx, wish: Any) -> None:
    _fence(tx, _host(tx, _named(tx, wish)), wish.forced_down)
