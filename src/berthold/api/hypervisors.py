"""Hypervisors: the hosts as machines, for operators."""

from __future__ import annotations

from typing import Any

from berthold.api.call import Call
from berthold.api.microversions import Version
from berthold.api.query import Page
from berthold.api.views import hypervisors as views
from berthold.api.views.fields import next_link, render, render_all
from berthold.api.views.hosts import number_of
from berthold.errors import Malformed, NotFound
from berthold.ledger import reading
from berthold.ledger.store import Tx

BY_UUID = Version(2, 53)
QUERY = frozenset({"limit", "marker", "hypervisor_hostname_pattern", "with_servers"})
SHOW_QUERY = frozenset({"with_servers"})


async def index(call: Call) -> dict[str, Any]:
    """Names and states."""
    return await _listed(call, views.BRIEF)


async def detail(call: Call) -> dict[str, Any]:
    """The hypervisors in full."""
    return await _listed(call, views.FULL)


async def _listed(call: Call, fields: Any) -> dict[str, Any]:
    rows = await call.store.read(reading.hosts)
    pattern = call.query.text("hypervisor_hostname_pattern") if call.version >= BY_UUID else None
    if pattern is not None:
        if call.query.text("limit") is not None or call.query.text("marker") is not None:
            raise Malformed(
                "Paging over hypervisors with the hypervisor_hostname_pattern query parameter"
                " is not supported."
            )
        rows = _named_like(rows, pattern)
    page = call.query.page(call.settings.page_max) if call.version >= Version(2, 33) else None
    if page is not None:
        rows = _page(rows, page, call)
    shown = render_all(fields, rows, call)
    if call.version >= BY_UUID and call.query.flag("with_servers"):
        await _add_servers(call, rows, shown)
    document: dict[str, Any] = {"hypervisors": shown}
    if page is not None and page.limited and (links := next_link(call, page, [each["id"] for each in shown])):
        document["hypervisors_links"] = links
    return document


def _named_like(rows: list[reading.Row], pattern: str) -> list[reading.Row]:
    """Hosts with `pattern` in their name; none is a 404, as clients expect."""
    found = [row for row in rows if pattern.strip("%").lower() in row["name"].lower()]
    if not found:
        raise NotFound(f"No hypervisor matching '{pattern}' could be found.")
    return found


def _page(rows: list[reading.Row], page: Page, call: Call) -> list[reading.Row]:
    if page.marker is not None:
        place = next((i for i, row in enumerate(rows) if _is(row, page.marker, call)), None)
        if place is None:
            raise Malformed(f"marker [{page.marker}] not found")
        rows = rows[place + 1 :]
    return rows[: page.limit]


def _is(host: reading.Row, key: str, call: Call) -> bool:
    """Whether a host is meant by `key`: its UUID, or before 2.53 its number."""
    return bool(host["id"] == key if call.version >= BY_UUID else str(number_of(host["id"])) == key)


async def _add_servers(call: Call, rows: list[reading.Row], shown: list[dict[str, Any]]) -> None:
    on = await call.store.read(reading.servers_on, [row["id"] for row in rows])
    for row, each in zip(rows, shown, strict=True):
        if servers := on[row["id"]]:
            each["servers"] = [{"uuid": server["id"], "name": server["name"]} for server in servers]


def _found(tx: Tx, call: Call, key: str) -> reading.Row:
    for row in reading.hosts(tx, ids=[key] if call.version >= BY_UUID else None):
        if _is(row, key, call):
            return row
    raise NotFound(f"Hypervisor with ID '{key}' could not be found.")


async def show(call: Call, hypervisor_id: str) -> dict[str, Any]:
    """One hypervisor."""
    row = await call.store.read(_found, call, hypervisor_id)
    shown = render(views.FULL, row, call)
    if call.version >= BY_UUID and call.query.flag("with_servers"):
        await _add_servers(call, [row], [shown])
    return {"hypervisor": shown}


async def uptime(call: Call, hypervisor_id: str) -> dict[str, Any]:
    """Since when it runs; a part of `show` since 2.88."""
    row = await call.store.read(_found, call, hypervisor_id)
    if views.uptime(row, call) is None:
        raise Malformed("Virt driver does not implement uptime function.")
    return {"hypervisor": render(views.UPTIME, row, call)}


async def search(call: Call, pattern: str) -> dict[str, Any]:
    """By a part of the name; a query parameter since 2.53."""
    rows = _named_like(await call.store.read(reading.hosts), pattern)
    return {"hypervisors": render_all(views.BRIEF, rows, call)}


async def servers(call: Call, pattern: str) -> dict[str, Any]:
    """By a part of the name, with what lives there; a query parameter since 2.53."""
    rows = _named_like(await call.store.read(reading.hosts), pattern)
    shown = render_all(views.BRIEF, rows, call)
    await _add_servers(call, rows, shown)
    return {"hypervisors": shown}


async def statistics(call: Call) -> dict[str, Any]:
    """Sums over all enabled hypervisors, up to 2.87."""
    rows = [row for row in await call.store.read(reading.hosts) if not row["disabled"]]
    sums = {name: sum(count(row) for row in rows) for name, count in views.SUMS.items()}
    return {"hypervisor_statistics": {"count": len(rows), **sums}}
