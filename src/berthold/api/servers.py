"""Servers: list, show, rename, delete. Making them is in `server_create.py`, acting on them in
`server_actions.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from berthold.api import server_filters
from berthold.api.call import Call
from berthold.api.query import Page
from berthold.api.server_words import check_access, check_host_name
from berthold.api.views import servers as views
from berthold.api.views.fields import next_link, render, render_all
from berthold.errors import WrongState
from berthold.ledger import reading, servers
from berthold.ledger.store import Tx
from berthold.moves.begin import By, begin
from berthold.moves.reclaim import soft_delete
from berthold.records import aggregates

UNLOCK = "os_compute_api:os-lock-server:unlock:unlock_override"


def by(call: Call) -> By:
    """Who asks, for whatever the request begins."""
    actor = call.actor
    return By(actor.user_id, actor.project_id, call.request_id, call.may(UNLOCK), call.wait_s)


def unlocked(tx: Tx, call: Call, server_id: str) -> reading.Row:
    """The server, if the caller may see it and its lock does not stop the caller.

    Raises `NotFound`, `WrongState`.
    """
    server = reading.server_of(tx, server_id, call.scope)
    if server["locked"] and not call.may(UNLOCK):
        raise WrongState(f"Instance {server_id} is locked")
    return server


async def index(call: Call) -> dict[str, Any]:
    """Names and ids."""
    return await _page(call, views.ID_AND_NAME, in_full=False)


async def detail(call: Call) -> dict[str, Any]:
    """The servers in full."""
    return await _page(call, views.DETAIL, in_full=True)


async def _page(call: Call, fields: Any, *, in_full: bool) -> dict[str, Any]:
    page = call.query.page(call.settings.page_max)
    rows = await call.store.read(_read, call, page)
    shown = render_all(fields, rows, call)
    if in_full:
        shown = [views.with_state(row, each, call) for row, each in zip(rows, shown, strict=True)]
    document: dict[str, Any] = {"servers": shown}
    if links := next_link(call, page, [row["id"] for row in rows]):
        document["servers_links"] = links
    return document


def _read(tx: Tx, call: Call, page: Page) -> list[reading.Row]:
    zones = aggregates.zones(tx)
    rows = reading.servers(
        tx,
        server_filters.wanted(call, zones),
        sort=server_filters.sorting(call),
        limit=page.limit,
        marker=page.marker,
    )
    return [_zoned(row, zones) for row in rows]


def _zoned(row: reading.Row, zones: Mapping[str, str]) -> reading.Row:
    """The server, its host in the zone that an aggregate gives it."""
    if row["host"]:
        row["host"]["zone"] = zones.get(row["host"]["name"], row["host"]["zone"])
    return row


def find(tx: Tx, call: Call, server_id: str) -> reading.Row:
    """The server as it is shown. Raises `NotFound`."""
    return _zoned(reading.server_of(tx, server_id, call.scope), aggregates.zones(tx))


async def show(call: Call, server_id: str) -> dict[str, Any]:
    """One server."""
    row = await call.store.read(find, call, server_id)
    return {"server": views.with_state(row, render(views.SHOW, row, call), call)}


async def update(call: Call, server_id: str) -> dict[str, Any]:
    """Another name, description, host name or access address."""
    check_access(call.body.server.access_ip_v4 or None, call.body.server.access_ip_v6 or None)
    check_host_name(call.body.server.hostname or None, call.version)
    row = await call.store.write(_update, call, server_id)
    fields = views.SHOW if call.version >= views.ALIKE else views.UPDATED
    return {"server": views.with_state(row, render(fields, row, call), call)}


def _update(tx: Tx, call: Call, server_id: str) -> reading.Row:
    reading.server_of(tx, server_id, call.scope)
    server, wish = servers.hold(tx, server_id), call.body.server
    own = {"name": wish.name, "description": wish.description}
    in_details = {
        "access_ip_v4": wish.access_ip_v4,
        "access_ip_v6": wish.access_ip_v6,
        "disk_config": wish.disk_config,
        "hostname": wish.hostname,
    }
    changes = {name: value for name, value in own.items() if value is not UNSET}
    if details := {name: value for name, value in in_details.items() if value is not UNSET}:
        changes["details"] = server["details"] | details
    if changes:
        servers.change(tx, server_id, **changes)
    return find(tx, call, server_id)


async def delete(call: Call, server_id: str) -> None:
    """Begin to delete; 204 means that nothing stops it any more, but a restore where the operator keeps
    deleted servers for a while."""
    await call.store.write(_delete, call, server_id)


def _delete(tx: Tx, call: Call, server_id: str) -> None:
    unlocked(tx, call, server_id)
    if call.settings.reclaim_s > 0:
        soft_delete(tx, server_id, by(call))
    else:
        begin(tx, "delete", server_id, by(call), {})
