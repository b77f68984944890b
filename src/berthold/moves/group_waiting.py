"""A whole group that waits for a host (M7): it holds nothing, and one of its members stands in the queue.

The group's move is a row that says what was asked for. One member that has nothing to do leads: its
move (`group-places`) looks for a host with room for all, and waits as any other move does, in the
order of the moves' numbers; the others go about their business. When there is a host, that move
claims every member's place and becomes the member's part (`together.begin`); when there is no hope
or no time left it is undone, and the group move is over.

`tend` sees to it that somebody leads: the next one, if the one that did was deleted. Who waits is
not in flight, so nobody waits for the group, and it waits for nobody that waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from berthold.errors import NotFound, WrongState
from berthold.ledger import claims, group_moves, moves, schema, servers
from berthold.ledger.store import Tx, moment
from berthold.moves import sight, waiting
from berthold.moves.begin import By
from berthold.moves.departure import outlook
from berthold.moves.group_move import ALIVE, GROUP_PLACES
from berthold.records import actions

Row = Mapping[str, Any]


def ask(tx: Tx, group_id: str, by: By, host: str | None) -> str:
    """The group waits for the host of that name, or for any, as long as `by` says; the group move's id.

    Raises `NotFound`; `WrongState` if it cannot move and time alone would not help; `Refused` G2 if it waits
    or moves already.
    """
    seen = outlook(tx, group_id, by)
    if seen.going is None or not seen.may_yet_go:
        raise seen.refusal()
    wish = {"host": host, waiting.PATIENCE: by.wait_s, "admin": by.is_admin}
    who = {"request_id": by.request_id, "user_id": by.user_id, "project_id": by.project_id}
    source_id = seen.going.source.host_id
    whole = group_moves.wait(tx, group_id=group_id, source_id=source_id, wish=wish, **who)
    _lead(tx, group_moves.find(tx, whole))
    return whole


def by_of(tx: Tx, group_move_id: str) -> By:
    """Who asked for a group move that waits, and for how long it may."""
    whole = group_moves.find(tx, group_move_id)
    wish = whole["wish"]
    who = whole["user_id"], whole["project_id"], whole["request_id"]
    return By(*who, is_admin=wish["admin"], wait_s=wish[waiting.PATIENCE])


def tend(tx: Tx, whole: Row) -> bool:
    """Do what is due for a group move that waits, whose row the caller holds; whether anything was."""
    parts = group_moves.members(tx, whole["id"], ended=True)
    last = parts[-1]["state"] if parts else "superseded"
    if last in schema.UNFINISHED:
        return False
    if last == "superseded" and _left(tx, whole) > 0 and servers.of_group(tx, whole["group_id"]):
        return _lead(tx, whole)
    group_moves.change(tx, whole["id"], state="done")
    return True


def withdraw(tx: Tx, whole: Row, parts: Iterable[Row]) -> None:
    """It waits no longer. The caller holds the row; nothing needs to be taken back."""
    group_moves.change(tx, whole["id"], wish={**whole["wish"], waiting.PATIENCE: 0})
    for part in parts:
        moves.recall(tx, part["id"])


def end(tx: Tx, lead: moves.Lease, **ends: str) -> None:
    """There is a host: the move that has waited for it is its server's part from now on, and waits to go.
    Raises `WrongState` if somebody has taken it back."""
    scene = sight.hold(tx, lead)
    if sight.is_aborted(scene):
        raise WrongState("The move of the whole group was taken back.")
    waiting.end(tx, scene)
    actions.end(tx, scene.facts["action"], failed=False)
    part = {"playbook": ALIVE.playbook, "state": "waiting", "wish": {}, "facts": {}}
    moves.write(tx, lead, owner=None, until=0, **part, **ends)


def _left(tx: Tx, whole: Row) -> float:
    """For how many seconds it may wait yet."""
    until: float = whole["created_at"] + whole["wish"][waiting.PATIENCE]
    return until - moment(tx)


def _lead(tx: Tx, whole: Row) -> bool:
    """Let a member that is at rest wait for all; whether one is. The caller holds the group move's row."""
    for member in servers.of_group(tx, whole["group_id"]):
        home = claims.home_of(tx, member["id"])
        if home is None or moves.unfinished(tx, member["id"]):
            continue
        try:
            servers.hold(tx, member["id"])
        except NotFound:
            continue
        if moves.unfinished(tx, member["id"]) is None:
            _begin(tx, whole, member["id"], home.host_id)
            return True
    return False


def _begin(tx: Tx, whole: Row, server_id: str, source_id: str) -> None:
    who = {name: whole[name] for name in ("request_id", "user_id", "project_id")}
    move_id = moves.begin(
        tx,
        server_id=server_id,
        kind=ALIVE.kind,
        playbook=GROUP_PLACES.name,
        wish={"host": whole["wish"]["host"], waiting.PATIENCE: _left(tx, whole)},
        source_id=source_id,
        group_move_id=whole["id"],
        **who,
    )
    number = actions.begin(tx, server_id=server_id, move_id=move_id, name=ALIVE.action, **who)
    moves.remember(tx, move_id, {"action": number})
