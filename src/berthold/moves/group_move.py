"""A member's part in a whole-group move: three ways to go, and two ways to end.

    (wait to go) ─ check target ─ prepare target ─ send memory ══ switch home ─ move ports ─ (wait for all)
         ▲               └──────── undo ───────────────┘       ║
         └─ what cannot go on waits here, its place still held ╚═ it waits here, its source still held

    all have arrived:   discard the other host ─ release it

    before, if the group waits for a host:   claim places, done by one member's move for all

The way back is the same list with source and target exchanged: both hosts stay claimed until all
have arrived, so a member can always turn round. A running member is sent alive; of a stopped one
the disk is copied, once; one whose host is fenced is made anew on the other, as by an evacuation.
What moves a member from one waiting line to the next is in `moves/together.py`.

Promises:
    G2  No member's source is given up before the last has arrived.
    M6  A member that cannot go on is what it was before, where it was before.
"""

from __future__ import annotations

from dataclasses import dataclass

from berthold.ledger import claims
from berthold.ledger.store import Tx
from berthold.moves import steps
from berthold.moves.evacuate import if_it_shall_be_stopped
from berthold.moves.playbook import (
    NOTHING,
    Ask,
    Call,
    Errand,
    Park,
    Place,
    Playbook,
    PointOfNoReturn,
    Scene,
    Write,
    source,
    target,
)


@dataclass(frozen=True)
class Way:
    """How a member goes: the kind of its move, its playbook, and what Nova calls that."""

    kind: str
    playbook: str
    action: str


ALIVE = Way("live-migration", "group-live-migration", "live-migration")
COLD = Way("migration", "group-migration", "migrate")
ANEW = Way("evacuation", "group-evacuation", "evacuate")

WAITS_TO_GO = Park("wait to go", task="migrating", migration="queued")
WAITS_FOR_ALL = Park("wait for all", task="migrating", migration="post-migrating")


def new_target(scene: Scene) -> list[str]:
    """A host that it comes back to has its disk still, as it is."""
    return [] if scene.facts.get("was_there") else target(scene)


def source_of_new_target(scene: Scene) -> list[str]:
    return [] if scene.facts.get("was_there") else source(scene)


def elsewhere(scene: Scene) -> list[str]:
    """Where it holds a claim and does not live."""
    return sorted(claim.host_id for claim in scene.claims_in("target", "source"))


def arrive(tx: Tx, scene: Scene) -> None:
    """M2: the target is home, on the way there or on the way back. Done already if it is."""
    if not any(claim.host_id == scene.move["target_id"] for claim in scene.claims_in("home")):
        claims.switch_home(tx, scene.server["id"])


def release_elsewhere(tx: Tx, scene: Scene) -> None:
    for claim in scene.claims_in("target", "source"):
        steps.give_up(tx, scene, claim)


# It never comes to its end: once every member has its place this is a part like the others'.
GROUP_PLACES = Playbook(
    "group-places",
    Place("claim places", whole=True, task="migrating", migration="queued"),
    PointOfNoReturn("every member has its place"),
)

GROUP_LIVE_MIGRATION = Playbook(
    "group-live-migration",
    WAITS_TO_GO,
    Ask(
        "check target",
        Errand("check", target, steps.guest_as_it_is),
        undo=NOTHING,
        event="compute_check_can_live_migrate_destination",
        task="migrating",
        migration="accepted",
    ),
    Ask(
        "prepare target",
        Errand("prepare", target, steps.guest_as_it_is),
        undo=Errand("discard", target),
        event="compute_pre_live_migration",
        task="migrating",
        migration="preparing",
    ),
    Ask(
        "send memory",
        Errand("send", source, steps.to_target),
        undo=NOTHING,  # whether it was sent is asked before anything is undone
        decides=True,
        long=True,
        event="compute_live_migration",
        task="migrating",
        migration="running",
    ),
    PointOfNoReturn("the guest runs on the target"),
    Write("switch home", arrive, task="migrating", migration="post-migrating"),
    Call(
        "move ports",
        steps.bind_ports_to_target,
        event="compute_post_live_migration_at_destination",
        task="migrating",
        migration="post-migrating",
    ),
    WAITS_FOR_ALL,
)

GROUP_MIGRATION = Playbook(
    "group-migration",
    WAITS_TO_GO,
    Ask(
        "prepare target",
        Errand("prepare", new_target, steps.guest_as_it_is),
        undo=Errand("discard", new_target),
        event="compute_prep_resize",
        task="migrating",
        migration="pre-migrating",
    ),
    Ask(
        "copy disk",
        Errand("send_disk", source_of_new_target, steps.to_target),
        undo=NOTHING,  # the copy goes with what was prepared
        long=True,
        event="compute_resize_instance",
        task="migrating",
        migration="migrating",
    ),
    PointOfNoReturn("its disk is on both hosts, and it runs on neither"),
    Write("switch home", arrive, task="migrating", migration="post-migrating"),
    Call(
        "move ports",
        steps.bind_ports_to_target,
        event="compute_finish_resize",
        task="migrating",
        migration="post-migrating",
    ),
    WAITS_FOR_ALL,
)

GROUP_EVACUATION = Playbook(
    "group-evacuation",
    WAITS_TO_GO,
    Ask(
        "rebuild on target",
        Errand("spawn", target, steps.guest_as_it_is),
        undo=Errand("discard", target),
        event="compute_rebuild_instance",
        task="migrating",
        migration="pre-migrating",
    ),
    PointOfNoReturn("the guest runs on the target"),
    Write("switch home", arrive, task="migrating", migration="pre-migrating"),
    Call("move ports", steps.bind_ports_to_target, task="migrating", migration="pre-migrating"),
    Ask(
        "stop if it was stopped",
        Errand("stop", if_it_shall_be_stopped),
        task="migrating",
        migration="pre-migrating",
    ),
    WAITS_FOR_ALL,
)


def _ending(name: str, because: str, ends: str) -> Playbook:
    return Playbook(
        name,
        PointOfNoReturn(because),
        Ask("discard elsewhere", Errand("discard", elsewhere), task="migrating", migration="post-migrating"),
        Write("release elsewhere", release_elsewhere, task="migrating", migration="post-migrating"),
        ends=ends,
    )


GROUP_ARRIVAL = _ending("group-arrival", "all members are on the new host", "completed")
GROUP_RETURN = _ending("group-return", "all members are back", "reverted")
