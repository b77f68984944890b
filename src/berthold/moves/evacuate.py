"""Evacuate: make a server anew elsewhere, from what it has outside of its dead host.

    claim target ─ rebuild on target ══ leave source behind ─ move ports ─ stop if it shall not run
         ▲                ▲            ║      ─ settle
         └───── undo ─────┴─── undo ───╚═ the guest runs on the target

Its host was fenced before the first line, in the transaction that began the move, and stays so
until the move is over (`hosts.unfence`, `hosts.come_back`). So the guest cannot begin to run
there again, whatever happens to the host meanwhile.

Up to the point of no return nothing of the source is touched: if no host is found the server is
what it was, at home on its dead host, and can be evacuated again. After it the source's claim is
`left`: it keeps capacity and seat until that host has said that the guest is gone (M1).
"""

from __future__ import annotations

from berthold.ledger import claims, hosts
from berthold.ledger.store import Tx
from berthold.moves import steps
from berthold.moves.playbook import (
    Ask,
    Call,
    Errand,
    Facts,
    Place,
    Playbook,
    PointOfNoReturn,
    Scene,
    Write,
    target,
)


def shall_be_stopped(scene: Scene) -> bool:
    """It was, or whoever asked wants to look at it first."""
    return scene.server["condition"] == "stopped" or bool(scene.wish.get("stopped"))


def if_it_shall_be_stopped(scene: Scene) -> list[str]:
    return target(scene) if shall_be_stopped(scene) else []


def leave_source(tx: Tx, scene: Scene) -> None:
    """M2: the target is home. What the source may have is left behind."""
    steps.switch_home(tx, scene)
    for claim in claims.of_server(tx, scene.server["id"]):
        if claim.role == "source":
            steps.leave_behind(tx, claim)


def settle(tx: Tx, scene: Scene) -> Facts:
    """It runs, unless it was stopped or shall be; whatever was in its memory is lost."""
    condition = "stopped" if shall_be_stopped(scene) else "active"
    steps.set_condition(tx, scene, condition, fault={})
    source_id = scene.move["source_id"]
    hosts.lock(tx, source_id, must_be_up=False)  # whoever collects what was left holds it too
    left = [claim for claim in claims.of_server(tx, scene.server["id"]) if claim.host_id == source_id]
    return {"collected": not left}


EVACUATION = Playbook(
    "evacuation",
    Place("claim target", event="rebuild_server", task="rebuilding", migration="accepted"),
    Ask(
        "rebuild on target",
        Errand("spawn", target, steps.guest_as_it_is),
        undo=Errand("discard", target),
        event="compute_rebuild_instance",
        task="rebuild_spawning",
        migration="pre-migrating",
    ),
    PointOfNoReturn("the guest runs on the target"),
    Write("leave source behind", leave_source, task="rebuild_spawning", migration="pre-migrating"),
    Call("move ports", steps.bind_ports_to_target, task="rebuild_spawning", migration="pre-migrating"),
    Ask(
        "stop if it shall not run",
        Errand("stop", if_it_shall_be_stopped),
        task="rebuild_spawning",
        migration="pre-migrating",
    ),
    Write("settle", settle, task="rebuild_spawning", migration="pre-migrating"),
    ends="done",  # and "completed" once its old host has removed what it had of it
)
