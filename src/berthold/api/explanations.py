"""Explanations: why a server, a group's next member or a move can or cannot be placed, and who complies.

An extension of ours, beside Nova's own answers, which stay as they are. Who passes the rule
`…:hosts` is told host by host; others are told of their own servers by class of cause (T1).
"""

from __future__ import annotations

from typing import Any

from berthold.api.call import Call
from berthold.api.views.fields import iso_long
from berthold.ledger import compliance, hosts, reading
from berthold.ledger.store import Tx
from berthold.moves import explain, explain_group, explain_move
from berthold.moves.explain import Asked
from berthold.moves.explained import Document, GroupSaid, MoveSaid, compliance_of
from berthold.records import violations

HOSTS = "os_compute_api:berthold-explain:hosts"
COMPLIANCE_HOSTS = "os_compute_api:berthold-compliance:hosts"
QUERY = frozenset({"host"})


async def server(call: Call, server_id: str) -> dict[str, Any]:
    """What each host would say to the server now, and what its last move met."""
    found, move, asked = await call.store.read(_server, call, server_id)
    return {
        "explanation": {
            "server": {"id": found["id"], "name": found["name"]},
            "move": move.document(by_host=call.may(HOSTS)) if move else None,
            "now": await _now(call, asked),
        }
    }


def _server(tx: Tx, call: Call, server_id: str) -> tuple[reading.Row, MoveSaid | None, Asked]:
    found = reading.server_of(tx, server_id, call.scope)
    last = explain_move.last_of(tx, server_id)
    said = explain_move.said(tx, last, found, call.settings) if last else None
    return found, said, explain.scene_of_server(tx, found)


async def group(call: Call, group_id: str) -> dict[str, Any]:
    """Where the group's members hold seats, what is in flight, and what a further member would meet."""
    said, asked = await call.store.read(_group, call, group_id)
    shown = said.document(by_host=call.may(HOSTS))
    return {"explanation": {**shown, "further_member": await _now(call, asked)}}


def _group(tx: Tx, call: Call, group_id: str) -> tuple[GroupSaid, Asked]:
    row = reading.group(tx, group_id, call.scope)
    return explain_group.said(tx, row), explain.further_member(tx, row)


async def move(call: Call, move_id: str) -> dict[str, Any]:
    """What the move does, why it waits or failed, what each host said, and what it would say now."""
    said, asked = await call.store.read(_move, call, move_id)
    return {
        "explanation": {
            "move": said.document(by_host=call.may(HOSTS)),
            "now": await _now(call, asked) if asked else None,
        }
    }


def _move(tx: Tx, call: Call, move_id: str) -> tuple[MoveSaid, Asked | None]:
    row, found = explain_move.move_of(tx, move_id, call.scope)
    return explain_move.said(tx, row, found, call.settings), explain_move.asked_again(tx, row, found)


async def _now(call: Call, asked: Asked) -> Document:
    """A fresh look at every host, or at the one that is asked about."""
    look = await call.store.read(explain.look, asked, call.settings, call.services.watch)
    if (name := call.query.text("host")) is not None:
        call.must(HOSTS)
        await call.store.read(hosts.by_name, name)
        look = look.of_host(name)
    return look.document(by_host=call.may(HOSTS))


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
