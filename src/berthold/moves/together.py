"""Whole-group moves: every member of an affinity group goes to one new host, or none does (G2).

`begin` claims a place there for every member and begins each member's part, in one transaction.
From then on each part is a move like any other (`moves/group_move.py`), which waits when it has
arrived, and also when it cannot go on: then the group move is *held*, until an operator lets it go
`forward` again or `back`. Both hosts stay claimed for all, so either is possible until the last has
arrived; only then the other host is given up. Where it finds no place and may wait for one, the group
stays where it is, as `moves/group_waiting.py` says.

What is due follows from the rows alone: which parts wait, and where. `tend` looks and does it, in
one transaction per group move. Whoever ends a part wakes those who tend (`Conductor`), and they
look once a second in any case; so nothing depends on who has seen what, or on who has died.

Deleting a member takes the place of its part (M3), and the others no longer wait for it. Deleting
the group ends the rule (G4): each part then ends by itself, where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from berthold.errors import NotFound, WrongState
from berthold.ledger import claims, group_moves, hosts, moves, servers
from berthold.ledger.store import Tx
from berthold.ledger.verdicts import Again
from berthold.moves import group_waiting, steps
from berthold.moves.begin import By
from berthold.moves.departure import departure
from berthold.moves.group_move import ALIVE, ANEW, COLD, Way
from berthold.records import actions

Row = Mapping[str, Any]


# -- Beginning ----------------------------------------------------------------------------


def begin(
    tx: Tx,
    group_id: str,
    by: By,
    target_id: str,
    host_epoch: int | None = None,
    lead: moves.Lease | None = None,
) -> str:
    """Claim a place on the target for every member, and begin every member's part; the group move's id.

    `lead`: the move of the member that has waited for all, whose part it becomes. Raises as `departure`
    does, and what `claims.take` raises; then nothing is changed.
    """
    leading = moves.seen(tx, lead) if lead else None
    waited = leading["group_move_id"] if leading else None
    seen = departure(tx, group_id, by, waited=waited)  # before anything is held: most refusals are told here
    who = {"request_id": by.request_id, "user_id": by.user_id, "project_id": by.project_id}
    whole = group_moves.begin(
        tx, group_id=group_id, source_id=seen.source.host_id, target_id=target_id, waited=waited, **who
    )
    going = departure(tx, group_id, by, servers.hold_members(tx, group_id), waited)
    if going.source.host_id != seen.source.host_id:
        raise Again(f"group {group_id} has moved since it was looked at")
    ends = {"source_id": seen.source.host_id, "target_id": target_id}
    parts = {}
    if lead and leading:
        group_waiting.end(tx, lead, **ends)
        parts[leading["server_id"]] = lead.move_id
    for server in going.servers:
        if server["id"] not in parts:
            parts[server["id"]] = moves.begin(
                tx,
                server_id=server["id"],
                kind=ALIVE.kind,
                playbook=ALIVE.playbook,
                wish={},
                state="waiting",
                group_move_id=whole,
                **ends,
                **who,
            )
    claims.take(
        tx,
        [
            claims.Want(
                server["id"],
                target_id,
                steps.resources_of(server["flavor"]),
                parts[server["id"]],
                host_epoch,
                group_move=whole,
                ticket=leading["number"] if leading else None,
                patient=by.wait_s > 0,
            )
            for server in going.servers
        ],
    )
    for part in group_moves.members(tx, whole):
        _go(tx, part, target_id, by)
    return whole


# -- An operator's word -------------------------------------------------------------------


def forward(tx: Tx, group_id: str, by: By) -> str:
    """Let a group move that is held go on to its new host; its id. Repeated it does nothing more.

    Of one that has arrived, or is back, those members go on that could not give up the other host.
    Raises `NotFound`, or `WrongState` where there is nothing to go on with.
    """
    whole, parts = _held(tx, group_id)
    if whole["state"] == "settling" and (stuck := [part for part in parts if part["state"] == "stuck"]):
        for part in stuck:
            _still(moves.unstick, tx, part["id"])
        return str(whole["id"])
    _must_be_on_its_way(whole)
    keeping = [part for part in parts if keeps(part, whole["goal_id"])]
    returning = whole["goal_id"] != whole["target_id"]
    if returning and not keeping:
        raise WrongState("The group is on its way back; ask for a new move once it has returned.")
    if keeping and all(part["state"] == "undoing" for part in keeping):
        raise WrongState("What could not go on is still being walked back; try again in a moment.")
    _head_for(tx, whole, parts, whole["target_id"], by)
    return str(whole["id"])


def back(tx: Tx, group_id: str, by: By) -> str:
    """Take a group move back to where it came from; its id. Possible until the last member has
    arrived; repeated it does nothing more, but for members that were kept on the way back. One that
    waits for a host waits no longer.

    Raises `NotFound`, or `WrongState` where nothing can be taken back any more.
    """
    whole, parts = _held(tx, group_id)
    if whole["state"] == "waiting":
        group_waiting.withdraw(tx, whole, parts)
        return str(whole["id"])
    _must_be_on_its_way(whole)
    _head_for(tx, whole, parts, whole["source_id"], by)
    return str(whole["id"])


def _held(tx: Tx, group_id: str) -> tuple[Row, list[Row]]:
    """The group's move, its row held, and its parts."""
    seen = group_moves.latest(tx, group_id)
    if seen is None:
        raise NotFound(f"Instance group {group_id} was never moved as a whole.")
    whole = group_moves.hold(tx, seen["id"])
    return whole, group_moves.members(tx, whole["id"])


def _must_be_on_its_way(whole: Row) -> None:
    if whole["state"] == "waiting":
        raise WrongState("The group waits for a host, and goes by itself as soon as it has one.")
    if whole["target_id"] is None:
        raise WrongState("The group is not on its way: it was given no host. Ask for a new move.")
    if whole["state"] == "done" and whole["goal_id"] == whole["source_id"]:
        raise WrongState("The group is not on its way: it has been taken back to where it came from.")
    if whole["state"] != "moving":
        raise WrongState(
            "The group is not on its way: the last member has arrived, and what they held on the other"
            " host is given up. To go back, move it there."
        )


def _must_be_open(tx: Tx, parts: list[Row], goal_id: str) -> None:
    """Nobody is sent to a host that is fenced. M1: what was made anew elsewhere finds it fenced until the
    group has arrived (`hosts.unfence`), since its move remains an evacuation from there."""
    for part in parts:
        returns = "undoing" in (part["state"], part["failure"].get("was")) and part["source_id"] == goal_id
        if returns or has_arrived(part, goal_id):
            continue
        for claim in claims.of_server(tx, part["server_id"]):
            if claim.host_id == goal_id and claim.host_status == "fenced":
                raise WrongState(
                    "The host that the group would go to is fenced. Let it go the other way, or let that host"
                    " act again first; if neither can be, delete the group and evacuate each member."
                )


def _head_for(tx: Tx, whole: Row, parts: list[Row], goal_id: str, by: By) -> None:
    _must_be_open(tx, parts, goal_id)
    request = {"request_id": by.request_id, "user_id": by.user_id}
    group_moves.change(tx, whole["id"], goal_id=goal_id, **request)
    for part in parts:
        if part["state"] == "stuck":
            _still(moves.unstick, tx, part["id"])
        elif part["state"] == "running" and part["target_id"] != goal_id:
            moves.recall(tx, part["id"])
        elif part["state"] == "waiting":
            _go(tx, part, goal_id, by)


# -- What is due --------------------------------------------------------------------------


def tend(tx: Tx, group_move_id: str) -> bool:
    """Do what is due for the group move; whether anything was. Repeated it does nothing."""
    whole = group_moves.hold(tx, group_move_id)
    parts = group_moves.members(tx, group_move_id)
    if whole["state"] == "waiting":
        return group_waiting.tend(tx, whole)
    if whole["state"] == "moving":
        by = By(whole["user_id"], whole["project_id"], whole["request_id"])
        sent = [_go(tx, part, whole["goal_id"], by) for part in parts if _was_turned(part, whole["goal_id"])]
        if any(sent):
            return True
        if not all(has_arrived(part, whole["goal_id"]) for part in parts):
            return False
        group_moves.change(tx, group_move_id, state="settling")
        for part in parts:
            _settle(tx, part, whole)
        return True
    if whole["state"] == "scattered":
        settled = [_settle(tx, part, whole) for part in parts if part["state"] == "waiting"]
        if settled:
            return True
    if whole["state"] == "done" or parts or group_moves.stands(tx, group_move_id):
        return False
    group_moves.change(tx, group_move_id, state="done")
    return True


def has_arrived(part: Row, goal_id: str) -> bool:
    """Whether the member waits where the group is to be."""
    return part["state"] == "waiting" and _waits_at(part) == goal_id


def _waits_at(part: Row) -> str:
    """Where a member that waits lives: at the last line it has arrived, at the first it never left."""
    at: str = part["source_id"] if part["line"] == 0 else part["target_id"]
    return at


def _was_turned(part: Row, goal_id: str) -> bool:
    """Whether the member waits at the wrong end, and not because it failed to come here: the group was
    turned round while it was on its way."""
    if part["state"] != "waiting" or _waits_at(part) == goal_id:
        return False
    return part["target_id"] != goal_id or bool(part["facts"].get("recalled"))


def keeps(part: Row, goal_id: str) -> bool:
    """Whether the member cannot go on to where the group is to be: an operator is needed."""
    if part["state"] == "stuck":
        return True
    failed = part["state"] == "undoing" or (part["state"] == "waiting" and part["line"] == 0)
    return failed and part["target_id"] == goal_id and not part["facts"].get("recalled")


def _go(tx: Tx, part: Row, goal_id: str, by: By) -> bool:
    """Send a member that waits to the other of its two hosts, unless it is there; whether it was sent."""
    server = servers.find(tx, part["server_id"])
    assert server is not None, f"move {part['id']} has no server"
    here = claims.home_of(tx, part["server_id"])
    if here is None:
        raise Again(f"server {part['server_id']} was deleted")
    if here.host_id == goal_id:
        return False
    # Whoever has arrived once has lived on both hosts, and comes back to either.
    was_there = bool(part["facts"].get("was_there")) or part["line"] > 0
    way = _way(server, here, was_there)
    number = actions.begin(
        tx,
        request_id=by.request_id,
        server_id=part["server_id"],
        move_id=part["id"],
        name=way.action,
        user_id=by.user_id,
        project_id=by.project_id,
    )
    _still(
        moves.resume,
        tx,
        part["id"],
        playbook=way.playbook,
        request_id=by.request_id,
        # Its lines may have been asked before: they are asked anew.
        facts={"action": number, "was_there": was_there, "round": part["facts"].get("round", 0) + 1},
        line=1,
        kind=way.kind,
        source_id=here.host_id,
        target_id=goal_id,
        failure={},
    )
    if way is ANEW and hosts.lock(tx, here.host_id, must_be_up=False).status != "fenced":
        raise Again(f"{here.host_name} may act again")  # `hosts.unfence` came first
    return True


def _still(f: Callable[..., None], tx: Tx, part_id: str, **more: Any) -> None:
    """Go on with a part that was seen to wait. A delete may have ended it since: then look again."""
    try:
        f(tx, part_id, **more)
    except WrongState as changed:
        raise Again(changed.message) from changed


def _way(server: Row, here: claims.Claim, was_there: bool) -> Way:
    """A host that is fenced sends nothing any more; but a stopped member's disk is still where it was."""
    if here.host_status == "fenced" and not (was_there and server["condition"] == "stopped"):
        return ANEW
    return ALIVE if server["condition"] == "active" else COLD


def _settle(tx: Tx, part: Row, whole: Row) -> bool:
    """A member that waits stays where it is, and gives up the other host. No action of its own: the
    one that brought it here has ended."""
    arrived = _waits_at(part) == whole["target_id"]
    # An evacuation is one from where it came: that host stays fenced until the move is over.
    ends = {} if part["kind"] == ANEW.kind else {each: whole[each] for each in ("source_id", "target_id")}
    _still(
        moves.resume,
        tx,
        part["id"],
        playbook="group-arrival" if arrived else "group-return",
        request_id=part["request_id"],
        facts={"round": part["facts"].get("round", 0) + 1},
        **ends,
    )
    return True
