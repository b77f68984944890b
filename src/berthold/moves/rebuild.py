"""Rebuild, rescue, unrescue: give a server's guest another disk to start from, where it is.

    rebuild:   ══ make the guest anew ─ stop it if it was stopped ─ settle
    rescue:    boot from the rescue image ══ settle        unrescue: boot from its own disk ══ settle
                           ▲               ║                                    ▲            ║
                           └──── undo ─────╨─ it runs                           └─── undo ───╨─ it runs

None of them places anything: the server's claim stays as it is, so they cannot be refused for
room, a rule or a disabled host. A rebuild cannot be undone, since it begins by removing the disk.
"""

from __future__ import annotations

from berthold.ledger import servers
from berthold.ledger.store import Tx, clock_of
from berthold.moves import steps
from berthold.moves.playbook import Ask, Errand, Facts, Playbook, PointOfNoReturn, Scene, Write, source
from berthold.moves.power import AS_IT_WAS, hard, now_it_is

RESCUE_IMAGE = "rescue_image_id"  # in the server's details, while it is rescued

# What a rebuild may change of a server beside its disk.
CHANGED = ("name", "description", "metadata", "key_name", "details")


def guest_from(image_id: str | None, scene: Scene) -> Facts:
    return {"guest": {**steps.guest(scene.server, scene.server["flavor"]), "image": image_id}}


def guest_anew(scene: Scene) -> Facts:
    return guest_from(scene.wish["image_id"], scene)


def guest_to_rescue(scene: Scene) -> Facts:
    """The rescue image that was asked for, else the one it was rescued with, else its own."""
    server = scene.server
    known = scene.wish.get("image_id") or server["details"].get(RESCUE_IMAGE)
    return guest_from(known or server["image_id"], scene)


def if_it_was_stopped(scene: Scene) -> list[str]:
    return source(scene) if scene.server["condition"] == "stopped" else []


def settle_rebuilt(tx: Tx, scene: Scene) -> None:
    condition = "stopped" if scene.server["condition"] == "stopped" else "active"
    changed = {what: scene.wish[what] for what in CHANGED if what in scene.wish}
    present = clock_of(tx).now()
    steps.set_condition(
        tx, scene, condition, image_id=scene.wish["image_id"], fault={}, launched_at=present, **changed
    )


def settle_rescued(tx: Tx, scene: Scene) -> None:
    details = {**scene.server["details"], RESCUE_IMAGE: guest_to_rescue(scene)["guest"]["image"]}
    steps.set_condition(tx, scene, "rescued", details=details)


def settle_unrescued(tx: Tx, scene: Scene) -> None:
    now_it_is("active")(tx, scene)
    details = {key: value for key, value in scene.server["details"].items() if key != RESCUE_IMAGE}
    servers.change(tx, scene.server["id"], details=details)


REBUILD = Playbook(
    "rebuild",
    PointOfNoReturn("the owner has said that the disk goes"),
    Ask(
        "make the guest anew",
        Errand("rebuild", source, guest_anew),
        event="compute_rebuild_instance",
        task="rebuilding",
    ),
    Ask("stop it if it was stopped", Errand("stop", if_it_was_stopped), task="rebuild_spawning"),
    Write("settle", settle_rebuilt, task="rebuild_spawning"),
)

RESCUE = Playbook(
    "rescue",
    Ask(
        "boot from the rescue image",
        Errand("rescue", source, guest_to_rescue),
        undo=AS_IT_WAS,
        event="compute_rescue_instance",
        task="rescuing",
    ),
    PointOfNoReturn("it runs from the rescue image"),
    Write("settle", settle_rescued, task="rescuing"),
)

UNRESCUE = Playbook(
    "unrescue",
    Ask(
        "boot from its own disk",
        Errand("reboot", source, hard),
        undo=Errand("rescue", source, guest_to_rescue),
        event="compute_unrescue_instance",
        task="unrescuing",
    ),
    PointOfNoReturn("it runs from its own disk"),
    Write("settle", settle_unrescued, task="unrescuing"),
)
