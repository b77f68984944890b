"""Cold migration and resize: move a stopped server, then wait for its owner's word.

    claim target ─ prepare target ─ stop guest ─ copy disk ─ start on target ══ switch home ─ move ports
         ▲               ▲              ▲                          ▲          ║       ─ (wait)
         └──── undo ─────┴──── undo ────┴────────── undo ──────────┘          ╚═ the guest runs on the target

    confirm:  discard source ─ release source
    revert:   stop on target ─ discard target ─ switch home back ─ start on source
              ─ move ports back ─ release target

While it waits (VERIFY_RESIZE) both hosts stay claimed and the source keeps its seat, so a
revert can never break a rule. A resize may stay on its host if the site allows that: then
the asks to the other host are not needed.
"""

from __future__ import annotations

from berthold.ledger import claims, servers
from berthold.ledger.store import Tx
from berthold.moves import steps
from berthold.moves.playbook import (
    NOTHING,
    Ask,
    Call,
    Errand,
    Facts,
    Park,
    Place,
    Playbook,
    PointOfNoReturn,
    Scene,
    Write,
    other_source,
    other_target,
    source,
    target,
)
from berthold.neighbours import Neighbours


def if_it_ran_on_target(scene: Scene) -> list[str]:
    return target(scene) if scene.server["condition"] == "active" else []


def if_it_ran_on_source(scene: Scene) -> list[str]:
    return source(scene) if scene.server["condition"] == "active" else []


def arrive(tx: Tx, scene: Scene) -> Facts:
    """The target is home, with the new flavor; the old one is kept for a revert."""
    steps.switch_home(tx, scene)
    old = scene.facts.get("old_flavor") or scene.server["flavor"]
    servers.change(tx, scene.server["id"], flavor=dict(steps.new_flavor(scene)))
    return {"old_flavor": old}


def return_home(tx: Tx, scene: Scene) -> None:
    """The source is home again, with the old flavor. Done already if the source is the home."""
    if any(claim.host_id == scene.move["source_id"] for claim in scene.claims_in("source")):
        claims.switch_home(tx, scene.server["id"])
    servers.change(tx, scene.server["id"], flavor=dict(scene.facts["old_flavor"]))


def settle_confirmed(tx: Tx, scene: Scene) -> None:
    _charge(tx, scene)
    steps.release_source(tx, scene)


def settle_reverted(tx: Tx, scene: Scene) -> None:
    _charge(tx, scene)
    steps.release_target(tx, scene)


def _charge(tx: Tx, scene: Scene) -> None:
    """The project pays for the flavor that the server has now, no longer for the larger of two."""
    flavor = scene.server["flavor"]
    servers.recharge(tx, scene.server["id"], flavor["vcpus"], flavor["ram"])


def failed(tx: Tx, scene: Scene) -> None:
    _charge(tx, scene)


async def bind_ports_to_source(neighbours: Neighbours, scene: Scene) -> None:
    name = scene.host_name(scene.move["source_id"])
    assert name, f"move {scene.id} has no claim on its source"
    await neighbours.networks.bind(scene.server["id"], name)


RESIZE = Playbook(
    "resize",
    Place("claim target", event="conductor_migrate_server", task="resize_prep", migration="queued"),
    Ask(
        "prepare target",
        Errand("prepare", other_target, steps.guest_to_be),
        undo=Errand("discard", other_target),
        event="compute_prep_resize",
        task="resize_prep",
        migration="pre-migrating",
    ),
    Ask(
        "stop guest",
        Errand("stop", source),
        undo=Errand("start", if_it_ran_on_source, steps.guest_as_it_is),
        task="resize_migrating",
        migration="migrating",
    ),
    Ask(
        "copy disk",
        Errand("send_disk", other_source, steps.to_target),
        undo=NOTHING,  # the copy goes with what was prepared
        long=True,
        event="compute_resize_instance",
        task="resize_migrated",
        migration="post-migrating",
    ),
    Ask(
        "start on target",
        Errand("start", if_it_ran_on_target, steps.guest_to_be),
        undo=Errand("stop", target),
        decides=True,
        event="compute_finish_resize",
        task="resize_finish",
        migration="post-migrating",
    ),
    PointOfNoReturn("the guest runs on the target"),
    Write("switch home", arrive, task="resize_finish", migration="post-migrating"),
    Call("move ports", steps.bind_ports_to_target, task="resize_finish", migration="post-migrating"),
    Park("wait for confirm or revert", migration="finished"),
    ends="finished",
    failed=failed,
)

CONFIRM_LINES = (
    Ask(
        "discard source",
        Errand("discard", other_source),
        event="compute_confirm_resize",
        migration="confirming",
    ),
    Write("release source", settle_confirmed, migration="confirming"),
)

CONFIRM_RESIZE = Playbook(
    "confirm-resize",
    PointOfNoReturn("the owner has said that the server stays"),
    *CONFIRM_LINES,
    ends="confirmed",
)

REVERT_RESIZE = Playbook(
    "revert-resize",
    PointOfNoReturn("the owner has said that the server goes back"),
    Ask("stop on target", Errand("stop", target), task="resize_reverting", migration="reverting"),
    Ask(
        "discard target",
        Errand("discard", other_target),
        event="compute_revert_resize",
        task="resize_reverting",
        migration="reverting",
    ),
    Write("switch home back", return_home, task="resize_reverting", migration="reverting"),
    Ask(
        "start on source",
        Errand("start", if_it_ran_on_source, steps.guest_as_it_is),
        event="compute_finish_revert_resize",
        task="resize_reverting",
        migration="reverting",
    ),
    Call("move ports back", bind_ports_to_source, task="resize_reverting", migration="reverting"),
    Write("release target", settle_reverted, task="resize_reverting", migration="reverting"),
    ends="reverted",
)
