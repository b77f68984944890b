"""Whole-group moves: all members of an affinity group go to one new host, or none does.

An extension: no other API of OpenStack has it. 202 means that every member holds its place on the
new host, or, if the request may wait (`Berthold-Wait`), that the group waits for one; 409 says why not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from berthold.api.call import Call
from berthold.api.schemas.server_groups import GroupAction
from berthold.api.servers import by
from berthold.api.views.fields import render
from berthold.api.views.group_moves import FIELDS
from berthold.api.views.migrations import HOST_RULE
from berthold.errors import Malformed, NoValidHost
from berthold.ledger import reading
from berthold.ledger.store import Tx
from berthold.moves import group_placing, group_status, together
from berthold.moves.begin import By
from berthold.moves.outcome import by_host

TO_HOST = "os_compute_api:os-server-groups:move:host"


async def act(call: Call, group_id: str) -> dict[str, Any]:
    """Move a whole affinity group to another host (`move`), let a move that is held go on (`resume`),
    or take it back (`back`)."""
    wish: GroupAction = call.body
    named = [name for name in ("move", "resume", "back") if getattr(wish, name) is not UNSET]
    if len(named) != 1:
        raise Malformed("Expected exactly one action, the only key of the body: move, resume or back.")
    if named == ["move"]:
        await _move(call, group_id)
    else:
        word = together.forward if named == ["resume"] else together.back
        await call.store.write(_say, call, group_id, word)
    return await show(call, group_id)


async def _move(call: Call, group_id: str) -> None:
    await call.store.read(reading.group, group_id, call.scope)
    host = call.body.move.host if call.body.move else None
    if host is not None:
        call.must(TO_HOST)
    services = call.services
    try:
        await group_placing.move_group(
            services.store, services.watch, services.settings, group_id, by(call), host
        )
    except NoValidHost as nowhere:
        if not call.may(HOST_RULE):
            raise
        each = "; ".join([nowhere.message, *by_host(nowhere.reasons)])
        raise NoValidHost(each, nowhere.reasons) from nowhere


def _say(tx: Tx, call: Call, group_id: str, word: Callable[[Tx, str, By], str]) -> None:
    reading.group(tx, group_id, call.scope)
    word(tx, group_id, by(call))


async def show(call: Call, group_id: str) -> dict[str, Any]:
    """How far the group's move is, member by member; if none is under way, how the last one ended."""
    return {"group_move": render(FIELDS, await call.store.read(_seen, call, group_id), call)}


def _seen(tx: Tx, call: Call, group_id: str) -> dict[str, Any]:
    reading.group(tx, group_id, call.scope)
    return group_status.look(tx, group_id)
