"""Shelve, shelve offload, unshelve: give a server's host back and find one again later.

    shelve:    stop guest ─ make image ══ settle ( ─ discard guest ─ give the host back )
                   ▲            ▲       ║
                   └─── undo ───┴ undo ─╨─ it is stopped, and all of its disk is in the image

    offload:   ══ discard guest ─ give the host back
    unshelve:  claim host ─ spawn ══ take home ─ move ports ─ remove image ─ settle
                    ▲         ▲   ║
                    └─ undo ──┴───╨─ the guest runs
    unshelve of a server that was not offloaded:  start guest ══ remove image ─ settle

A shelved server that is offloaded holds no claim: it has no host, no seat and no place. So to
unshelve it is to place it anew, with every rule that a first place must obey (R2). If that fails it
stays on the shelf, image and all, and may be unshelved again.
"""

from __future__ import annotations

from berthold.ledger import servers
from berthold.ledger.store import Tx, clock_of
from berthold.moves import steps
from berthold.moves.playbook import (
    Ask,
    Call,
    Errand,
    Facts,
    Line,
    Place,
    Playbook,
    PointOfNoReturn,
    Scene,
    Write,
    source,
    target,
)
from berthold.moves.power import AS_IT_WAS
from berthold.neighbours import Image, Neighbours

# In the server's details, while it is on the shelf.
SHELVED_IMAGE = "shelved_image_id"
SHELVED_SINCE = "shelved_at"


def boots_from_volume(scene: Scene) -> bool:
    """Then there is no disk to keep beside the volume."""
    return scene.server["image_id"] is None and bool(scene.server["volumes"])


async def make_image(neighbours: Neighbours, scene: Scene) -> Image | None:
    if boots_from_volume(scene):
        return None
    server = scene.server
    return await neighbours.images.snapshot(
        server["project_id"],
        scene.id,
        name=f"{server['name']}-shelved",
        base=server["image_id"],
        properties={"instance_uuid": server["id"], "image_type": "snapshot"},
    )


async def unmake_image(neighbours: Neighbours, scene: Scene) -> None:
    await neighbours.images.undo_snapshot(scene.server["project_id"], scene.id)


def remember_image(tx: Tx, scene: Scene, made: Image | None) -> Facts:
    return {"image": made.id if made else None}


def put_on_shelf(tx: Tx, scene: Scene) -> None:
    """All that makes the server is in its image, and where its guest was it still is."""
    details = {**scene.server["details"], SHELVED_SINCE: clock_of(tx).now()}
    if image := scene.facts["image"]:
        details[SHELVED_IMAGE] = image
    steps.set_condition(tx, scene, "shelved", details=details)


def give_host_back(tx: Tx, scene: Scene) -> None:
    """The server is on no host any more."""
    for claim in scene.claims_in("home"):
        steps.give_up(tx, scene, claim)
    steps.set_condition(tx, scene, "shelved_offloaded")


SHELVE_LINES = (
    Ask("stop guest", Errand("stop", source), undo=AS_IT_WAS, task="shelving"),
    Call(
        "make image",
        make_image,
        undo=unmake_image,
        then=remember_image,
        event="compute_shelve_instance",
        task="shelving_image_uploading",
    ),
    PointOfNoReturn("the guest is stopped and all of its disk is in the image"),
    Write("settle", put_on_shelf, task="shelving_image_uploading"),
)
OFFLOAD_LINES: tuple[Line, ...] = (
    Ask("discard guest", Errand("discard", source), task="shelving_offloading"),
    Write(
        "give the host back",
        give_host_back,
        event="compute_shelve_offload_instance",
        task="shelving_offloading",
    ),
)

SHELVE = Playbook("shelve", *SHELVE_LINES)
SHELVE_AND_OFFLOAD = Playbook("shelve-and-offload", *SHELVE_LINES, *OFFLOAD_LINES)
OFFLOAD = Playbook(
    "shelve-offload", PointOfNoReturn("all of its disk is in the image already"), *OFFLOAD_LINES
)

# -- Unshelve -----------------------------------------------------------------------------


def guest_from_shelf(scene: Scene) -> Facts:
    """The guest with the disk that its image holds."""
    guest = steps.guest(scene.server, scene.server["flavor"])
    return {"guest": {**guest, "image": scene.server["details"].get(SHELVED_IMAGE, guest["image"])}}


async def remove_image(neighbours: Neighbours, scene: Scene) -> None:
    """Nobody needs the image that the server was shelved as any more."""
    if image := scene.server["details"].get(SHELVED_IMAGE):
        await neighbours.images.remove_snapshot(scene.server["project_id"], image)


def take_off_shelf(tx: Tx, scene: Scene) -> None:
    details = {
        key: value
        for key, value in scene.server["details"].items()
        if key not in (SHELVED_IMAGE, SHELVED_SINCE)
    }
    steps.set_condition(tx, scene, "active", details=details)
    if "zone" in scene.wish:  # asked for with the unshelve; None: any zone will do from now on
        servers.change(tx, scene.server["id"], zone=scene.wish["zone"])


UNSHELVE = Playbook(
    "unshelve",
    Place("claim host", event="schedule_instances", task="unshelving", leaves_source=False),
    Ask(
        "spawn",
        Errand("spawn", target, guest_from_shelf),
        undo=Errand("discard", target),
        event="compute_unshelve_instance",
        task="spawning",
    ),
    PointOfNoReturn("the guest runs"),
    Write("take home", lambda tx, scene: steps.switch_home(tx, scene), task="spawning"),
    Call("move ports", steps.bind_ports_to_target, task="spawning"),
    Call("remove image", remove_image, task="spawning"),
    Write("settle", take_off_shelf, task="spawning"),
)

UNSHELVE_AT_HOME = Playbook(
    "unshelve-at-home",
    Ask(
        "start guest",
        Errand("start", source, steps.guest_as_it_is),
        undo=AS_IT_WAS,
        event="compute_start_instance",
        task="powering-on",
    ),
    PointOfNoReturn("the guest runs"),
    Call("remove image", remove_image, task="powering-on"),
    Write("settle", take_off_shelf, task="powering-on"),
)
