"""Instance actions: what was asked of a server, what was done for it, and how that ended."""

from __future__ import annotations

from typing import Any

from berthold.api.call import Call
from berthold.api.microversions import Version
from berthold.api.views import instance_actions as views
from berthold.api.views.fields import next_link, render, render_all
from berthold.errors import NotFound
from berthold.ledger import moves, reading
from berthold.ledger.store import Tx
from berthold.moves.status import running_event
from berthold.records import timeline

QUERY = frozenset({"limit", "marker", "changes-since", "changes-before"})
OF_DELETED = Version(2, 21)
PAGED = Version(2, 58)


async def index(call: Call, server_id: str) -> dict[str, Any]:
    """A server's actions, newest first."""
    query, paged = call.query, call.version >= PAGED
    page = query.page(call.settings.page_max)
    since, before = query.period(before=call.version >= Version(2, 66)) if paged else (None, None)
    rows = await call.store.read(
        _actions,
        call,
        server_id,
        limit=page.limit if paged else call.settings.page_max,
        marker=page.marker if paged else None,
        changed_since=since,
        changed_before=before,
    )
    document: dict[str, Any] = {"instanceActions": render_all(views.ACTION, rows, call)}
    if paged and page.limited and (links := next_link(call, page, [row["request_id"] for row in rows])):
        document["links"] = links
    return document


def _actions(tx: Tx, /, call: Call, server_id: str, **wanted: Any) -> list[timeline.Action]:
    reading.server_of(tx, server_id, call.scope, deleted=call.version >= OF_DELETED)
    return timeline.actions(tx, server_id, **wanted)


async def show(call: Call, server_id: str, request_id: str) -> dict[str, Any]:
    """One action; with its events, for operators or since 2.51 for all who see the server."""
    action, events = await call.store.read(_action, call, server_id, request_id)
    shown = render(views.ACTION, action, call)
    if call.version >= Version(2, 51) or call.may(views.EVENTS):
        shown["events"] = render_all(views.EVENT, events, call)
    return {"instanceAction": shown}


def _action(
    tx: Tx, call: Call, server_id: str, request_id: str
) -> tuple[timeline.Action, list[dict[str, Any]]]:
    server = reading.server_of(tx, server_id, call.scope, deleted=call.version >= OF_DELETED)
    action = timeline.by_request(tx, server_id, request_id)
    if action is None:
        raise NotFound(f"Action for request_id {request_id} on instance {server_id} not found")
    events = [
        {**event, "project_id": server["project_id"]} for event in timeline.events(tx, action["number"])
    ]
    move = moves.find(tx, action["move_id"])
    # What is being done right now is the move's, and has no result yet.
    if move and move["facts"].get("action") == action["number"] and (now := running_event(move)):
        events.insert(0, _unfinished(now, server))
    return action, events


def _unfinished(now: tuple[str, float, str | None], server: reading.Row) -> dict[str, Any]:
    return {
        "event": now[0],
        "started_at": now[1],
        "finished_at": None,
        "result": None,
        "traceback": None,
        "details": now[2],
        "host": None,
        "project_id": server["project_id"],
    }
