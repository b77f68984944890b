"""Explanations: why a server, a group's next member or a move can or cannot be placed, and who complies.

An extension of ours, beside Nova's own answers, which stay as they are. Who passes the rule
`…:hosts` is told host by host, in pages; others are told of their own servers by class of cause (T1).
Counts, and what stands under a class of cause, are of all hosts on every page.
"""

from __future__ import annotations

from typing import Any

from berthold.api.call import Call
from berthold.api.views.fields import iso_long, next_link
from berthold.errors import Malformed
from berthold.ledger import compliance, hosts, reading
from berthold.ledger.store import Tx
from berthold.moves import explain, explain_group, explain_move
from berthold.moves.explain import Asked
from berthold.moves.explained import Document, GroupSaid, Look, MoveSaid, compliance_of
from berthold.records import violations

HOSTS = "os_compute_api:berthold-explain:hosts"
COMPLIANCE_HOSTS = "os_compute_api:berthold-compliance:hosts"
QUERY = frozenset({"host", "limit", "marker"})


async def server(call: Call, server_id: str) -> dict[str, Any]:
    """What each host would say to the server now, and what its last move met."""
    by_host = _by_host(call)
    found, last, asked = await call.store.read(_server, call, server_id)
    look = await _look(call, asked)
    only, links = _page(call, look, last)
    return {
        "explanation": {
            "server": {"id": found["id"], "name": found["name"]},
            "move": last.document(by_host=by_host, only=only) if last else None,
            "now": look.document(by_host=by_host, only=only),
        },
        **links,
    }


def _server(tx: Tx, call: Call, server_id: str) -> tuple[reading.Row, MoveSaid | None, Asked]:
    found = reading.server_of(tx, server_id, call.scope)
    last = explain_move.last_of(tx, server_id)
    said = explain_move.said(tx, last, found, call.settings) if last else None
    return found, said, explain.scene_of_server(tx, found)


async def group(call: Call, group_id: str) -> dict[str, Any]:
    """Where the group's members hold seats, what is in flight, and what a further member would meet."""
    by_host = _by_host(call)
    said, asked = await call.store.read(_group, call, group_id)
    look = await _look(call, asked)
    only, links = _page(call, look, None)
    further = look.document(by_host=by_host, only=only)
    return {"explanation": {**said.document(by_host=by_host), "further_member": further}, **links}


def _group(tx: Tx, call: Call, group_id: str) -> tuple[GroupSaid, Asked]:
    row = reading.group(tx, group_id, call.scope)
    return explain_group.said(tx, row), explain.further_member(tx, row)


async def move(call: Call, move_id: str) -> dict[str, Any]:
    """What the move does, why it waits or failed, what each host said, and what it would say now."""
    by_host = _by_host(call)
    said, asked = await call.store.read(_move, call, move_id)
    look = await _look(call, asked) if asked else None
    only, links = _page(call, look, said)
    now = look.document(by_host=by_host, only=only) if look else None
    return {"explanation": {"move": said.document(by_host=by_host, only=only), "now": now}, **links}


def _move(tx: Tx, call: Call, move_id: str) -> tuple[MoveSaid, Asked | None]:
    row, found = explain_move.move_of(tx, move_id, call.scope)
    return explain_move.said(tx, row, found, call.settings), explain_move.asked_again(tx, row, found)


def _by_host(call: Call) -> bool:
    """Whether the caller is told host by host. Who is not may not ask for hosts either (T1)."""
    if any(call.query.text(name) is not None for name in QUERY):
        call.must(HOSTS)
    return call.may(HOSTS)


async def _look(call: Call, asked: Asked) -> Look:
    """A fresh look at every host, or at the one that is asked about."""
    look = await call.store.read(explain.look, asked, call.settings, call.services.watch)
    if (name := call.query.text("host")) is None:
        return look
    await call.store.read(hosts.by_name, name)
    return look.of_host(name)


def _page(call: Call, look: Look | None, said: MoveSaid | None) -> tuple[set[str] | None, Document]:
    """The hosts that this page shows one by one, and the link to the next one. What was found of a host
    then, and what it would say now, are on the same page."""
    if not call.may(HOSTS):
        return None, {}
    if (name := call.query.text("host")) is not None:
        return {name}, {}
    names = sorted({each.host for each in (*(look.hosts if look else ()), *(said.refused if said else ()))})
    page = call.query.page(call.settings.page_max)
    if page.marker is not None and page.marker not in names:
        raise Malformed(f"marker [{page.marker}] not found: it is the name of a host")
    rest = [name for name in names if page.marker is None or name > page.marker]
    shown = rest[: page.limit]
    links = next_link(call, page, shown) if len(rest) > len(shown) else []
    return set(shown), {"explanation_links": links} if links else {}


async def group_compliance(call: Call, group_id: str) -> dict[str, Any]:
    """Whether each member of the group is where its policy and its host's capacity want it, and why not."""
    row, members, since = await call.store.read(_compliance, call, group_id)
    return {"compliance": compliance_of(row, members, since, by_host=call.may(COMPLIANCE_HOSTS))}


def _compliance(
    tx: Tx, call: Call, group_id: str
) -> tuple[reading.Row, list[compliance.Member], dict[str, str]]:
    row = reading.group(tx, group_id, call.scope)
    heard_since = call.store.clock.now() - call.settings.silent_after_s
    since = {each["key"]: iso_long(each["since"]) or "" for each in violations.standing(tx)}
    return row, compliance.members(tx, row, heard_since), since
