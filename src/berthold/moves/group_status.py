"""What operators see of a whole-group move. Derived from the rows, never stored: it cannot disagree with
what happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berthold.errors import NotFound
from berthold.ledger import claims, group_moves, moves, reading, servers
from berthold.ledger.store import Tx
from berthold.moves.together import has_arrived, keeps

Row = Mapping[str, Any]

# What a part is called that does not work or wait for the group any more.
OVER = {"done": "done", "superseded": "deleted", "undone": "done"}
# Words of a group move that has ended, or that only an operator gets on.
AT_REST = frozenset({"held", "done", "returned", "refused"})
# Words of a member that is not where it goes, and needs nobody to get there.
IN_MOTION = frozenset({"moving", "turning back", "settling"})


def look(tx: Tx, group_id: str) -> dict[str, Any]:
    """The group's move that is under way, or the last one: its row, `status`, the hosts' names as `source`
    and `target`, its `members`; and the `reason`, if it waits for a host or was given none. Raises
    `NotFound` if it was never moved as a whole."""
    whole = group_moves.latest(tx, group_id)
    if whole is None:
        raise NotFound(f"Instance group {group_id} was never moved as a whole.")
    parts = group_moves.members(tx, whole["id"], ended=True)
    names = {host_id: name for name, host_id in reading.host_names(tx).items()}
    return {
        **whole,
        "status": status_of(whole, parts),
        "reason": _reason(whole, parts) if whole["target_id"] is None else None,
        "source": names.get(whole["source_id"]),
        "target": names.get(whole["target_id"]),
        "members": [_member(tx, whole, part) for part in parts],
    }


def is_at_rest(seen: Mapping[str, Any]) -> bool:
    """Whether nothing more will change by itself, of what `look` has found. While one member is held the
    others go on; and it may itself be on its way back to where it is held."""
    return seen["status"] in AT_REST and not any(member["in_motion"] for member in seen["members"])


def status_of(whole: Row, parts: list[Row]) -> str:
    """waiting for a host; moving or returning; held while a member cannot go on, or not settle; settling;
    done or returned; refused if there was no host; scattered."""
    if whole["state"] == "done" and whole["target_id"] is None:
        return "refused"
    returns = whole["goal_id"] == whole["source_id"]
    if whole["state"] == "done":
        return "returned" if returns else "done"
    if whole["state"] == "settling" and any(part["state"] == "stuck" for part in parts):
        return "held"
    if whole["state"] != "moving":
        return str(whole["state"])
    if any(keeps(part, whole["goal_id"]) for part in parts):
        return "held"
    return "returning" if returns else "moving"


def _reason(whole: Row, parts: list[Row]) -> str:
    """For what a group waits that has no host, or why it has none, as the member says that waits for all."""
    last = parts[-1] if parts else None
    if last is not None and last["state"] in moves.WORKED_ON:
        waits = last["facts"].get("waits", {}).get("message")
        return str(last["failure"].get("message") or waits or "It looks for a host")
    if whole["state"] == "waiting":
        return "It looks for a host as soon as one of its members has nothing else under way"
    if last is not None and last["failure"]:
        return str(last["failure"]["message"])
    return "Until its time was over none of its members could look for a host, or it was taken back"


def status_of_part(whole: Row, part: Row) -> str:
    """Of one member: moving, turning back, held, arrived, settling; done or deleted. Of the one that waits
    for all: waiting, or stayed."""
    if whole["target_id"] is None and part["state"] != "superseded":
        return "waiting" if part["state"] in moves.WORKED_ON else "stayed"
    if part["state"] in OVER:
        return OVER[part["state"]]
    if part["state"] == "stuck":
        return "held"
    if whole["state"] != "moving":
        return "settling"
    if keeps(part, whole["goal_id"]):
        return "held"
    if has_arrived(part, whole["goal_id"]):
        return "arrived"
    return "moving" if part["target_id"] == whole["goal_id"] else "turning back"


def _member(tx: Tx, whole: Row, part: Row) -> dict[str, Any]:
    server = servers.find(tx, part["server_id"])
    status = status_of_part(whole, part)
    failure = part["failure"] if status in ("held", "stayed") else {}
    home = claims.home_of(tx, part["server_id"])
    return {
        "server_id": part["server_id"],
        "name": server["name"] if server else None,
        "move_id": part["id"],
        "status": status,
        "in_motion": status in IN_MOTION or part["state"] in moves.WORKED_ON,
        "host": home.host_name if home else None,
        "reason": failure.get("message"),
        "said": failure.get("said"),
        "hosts": failure.get("hosts", {}),
    }
