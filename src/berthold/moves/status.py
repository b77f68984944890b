"""What users see of a server and its move. Derived, never stored: it cannot disagree with what happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from berthold.moves.books import PLAYBOOKS
from berthold.moves.playbook import Line

RUNNING, SHUTDOWN, PAUSED, NO_STATE = 1, 4, 3, 0

# A server at rest: its condition → (status, vm_state, power_state).
AT_REST: Mapping[str, tuple[str, str, int]] = {
    "building": ("BUILD", "building", NO_STATE),
    "active": ("ACTIVE", "active", RUNNING),
    "stopped": ("SHUTOFF", "stopped", SHUTDOWN),
    "paused": ("PAUSED", "paused", PAUSED),
    "suspended": ("SUSPENDED", "suspended", SHUTDOWN),
    "rescued": ("RESCUE", "rescued", RUNNING),
    "shelved": ("SHELVED", "shelved", SHUTDOWN),
    "shelved_offloaded": ("SHELVED_OFFLOADED", "shelved_offloaded", NO_STATE),
    "soft-deleted": ("SOFT_DELETED", "soft-delete", SHUTDOWN),
    "error": ("ERROR", "error", NO_STATE),
    "deleted": ("DELETED", "deleted", NO_STATE),
}

# A server on the move: its task → the status that its task gives it.
ON_THE_MOVE: Mapping[str, str] = {
    "migrating": "MIGRATING",
    "resize_prep": "RESIZE",
    "resize_migrating": "RESIZE",
    "resize_migrated": "RESIZE",
    "resize_finish": "RESIZE",
    "resize_reverting": "REVERT_RESIZE",
    "rebuilding": "REBUILD",
    "rebuild_spawning": "REBUILD",
}
# The same, where only a running server shows it.
WHILE_ACTIVE: Mapping[str, str] = {"rebooting": "REBOOT", "rebooting_hard": "HARD_REBOOT"}

# The server stays where a resize has brought it.
CONFIRMING = frozenset({"confirm-resize", "confirm-and-soft-delete"})

# What a move does that waits for a place (M7).
WAITS = "berthold_wait_for_place"

# A move that is over, unless its playbook says how it ended.
ENDED: Mapping[str, str] = {"undone": "error", "superseded": "cancelled", "stuck": "error"}


@dataclass(frozen=True)
class Status:
    """A server as the API shows it. `power_state` is Nova's number; `progress` is in percent."""

    status: str
    vm_state: str
    task_state: str | None
    power_state: int
    progress: int


def status_of(server: Mapping[str, Any], move: Mapping[str, Any] | None) -> Status:
    """What to show of a server whose unfinished move is `move` (None when nothing is under way)."""
    status, vm_state, power = AT_REST[server["condition"]]
    if move is None:
        return Status(status, vm_state, None, power, 0)
    if move["state"] == "stuck":
        return Status("ERROR", "error", None, power, 0)
    line = line_of(move)
    if (move["state"] == "waiting" and not line.task) or move["playbook"] in CONFIRMING:
        return Status("VERIFY_RESIZE", "resized", line.task, power, 0)
    if move["playbook"] == "revert-resize":
        vm_state = "resized"
    shown = ON_THE_MOVE.get(line.task or "", status)
    if server["condition"] == "active":
        shown = WHILE_ACTIVE.get(line.task or "", shown)
    return Status(shown, vm_state, line.task, power, _progress(move))


def fault_of(server: Mapping[str, Any], move: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Why the server is in error: code, message, details (for operators), created. A move that is
    stuck says it for as long as it is; {} where nothing is wrong."""
    if move is not None and move["state"] == "stuck":
        failure = move["failure"]
        return {
            "code": failure.get("code", 500),
            "message": failure["message"],
            "details": failure.get("traceback", ""),
            "created": move["updated_at"],
        }
    fault: Mapping[str, Any] = server["fault"]
    return fault


def migration_status(move: Mapping[str, Any]) -> str:
    """The status of a move as a migration: accepted, preparing, running … completed, error."""
    if move["state"] == "done":
        if move["facts"].get("collected"):  # see moves/left.py
            return "completed"
        return PLAYBOOKS[move["playbook"]].ends
    if move["state"] == "undone" and move["failure"].get("aborted"):
        return "cancelled"
    waits = move["state"] == "running" and move["facts"].get("waits")
    return ENDED.get(move["state"]) or (waits and "queued") or line_of(move).migration or "running"


def running_event(move: Mapping[str, Any]) -> tuple[str, float, str | None] | None:
    """The event of the line that is being done right now, since when, and what there is to say of it:
    of a move that waits for a place, for what."""
    if move["state"] != "running":
        return None
    if waits := move["facts"].get("waits"):
        return WAITS, waits["since"], waits["message"]
    event = line_of(move).event
    return (event, move["line_since"], None) if event else None


def line_of(move: Mapping[str, Any]) -> Line:
    """The line that an unfinished move is at."""
    number: int = move["line"]
    return PLAYBOOKS[move["playbook"]].lines[number]


def _progress(move: Mapping[str, Any]) -> int:
    book = PLAYBOOKS[move["playbook"]]
    number: int = move["line"]
    return 100 * number // len(book.lines)
