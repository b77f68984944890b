"""Soft delete and restore: a stop and a start that mean more.

    soft delete:   stop guest ══ settle         restore:   start guest ══ settle
                       ▲       ║                                ▲       ║
                       └ undo ─╨─ it is stopped                 └ undo ─╨─ it runs

    of a server that waits for its owner's word on a resize, which is the word (C-b24):
                   ══ discard source ─ release source ─ stop guest ─ settle

A server that is soft-deleted keeps its claim, its seat, its volumes and what it costs, so that a
restore can never be refused. When its time is over it is deleted (`reclaim.py`).
"""

from __future__ import annotations

from berthold.ledger.store import Tx, clock_of
from berthold.moves import steps
from berthold.moves.playbook import Ask, Errand, Playbook, PointOfNoReturn, Scene, Write, source, target
from berthold.moves.power import AS_IT_WAS
from berthold.moves.resize import CONFIRM_LINES

SINCE = "soft_deleted_at"  # in the server's details, while it is


def put_aside(tx: Tx, scene: Scene) -> None:
    """From now on its time runs."""
    details = {**scene.server["details"], SINCE: clock_of(tx).now()}
    steps.set_condition(tx, scene, "soft-deleted", details=details)


def bring_back(tx: Tx, scene: Scene) -> None:
    details = {key: value for key, value in scene.server["details"].items() if key != SINCE}
    steps.set_condition(tx, scene, "active", details=details)


SOFT_DELETE = Playbook(
    "soft-delete",
    Ask(
        "stop guest",
        Errand("stop", source),
        undo=AS_IT_WAS,
        event="compute_soft_delete_instance",
        task="soft-deleting",
    ),
    PointOfNoReturn("the guest is stopped"),
    Write("settle", put_aside, task="soft-deleting"),
)

CONFIRM_AND_SOFT_DELETE = Playbook(
    "confirm-and-soft-delete",
    PointOfNoReturn("the owner has said that the server goes, so it does not go back"),
    *CONFIRM_LINES,
    Ask(
        "stop guest",
        Errand("stop", target),
        event="compute_soft_delete_instance",
        task="soft-deleting",
        migration="confirming",
    ),
    Write("settle", put_aside, task="soft-deleting", migration="confirming"),
    ends="confirmed",
)

RESTORE = Playbook(
    "restore",
    Ask(
        "start guest",
        Errand("start", source, steps.guest_as_it_is),
        undo=AS_IT_WAS,
        event="compute_restore_instance",
        task="restoring",
    ),
    PointOfNoReturn("the guest runs"),
    Write("settle", bring_back, task="restoring"),
)
