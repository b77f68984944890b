"""Snapshot (`createImage`): an image of a server's disk, made while the server stays as it is.

    make image ══ it is complete         of a server that starts from a volume:
        ▲      ║
        └ undo ╨                         copy volumes ─ make image ══ it is complete
                                               ▲            ▲      ║
                                               └─── undo ───┴ undo ╨

The image of a server that starts from a volume holds no bytes. It names a snapshot of each of its
volumes, as the block devices of whoever starts from it.

The image's id follows from the move's (`neighbours.snapshot_id`), so whoever began the move can
tell it at once; and it is announced before anybody is told, so that it is found from then on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import structlog

from berthold.errors import Unavailable
from berthold.ledger import moves, servers
from berthold.ledger.store import Store, Tx
from berthold.moves.playbook import Call, Playbook, PointOfNoReturn, Scene
from berthold.neighbours import Image, Neighbours, volume_snapshot_id

log = structlog.get_logger("berthold.moves")


def starts_from_volume(server: Mapping[str, Any]) -> bool:
    return server["image_id"] is None and bool(server["volumes"])


def described(server: Mapping[str, Any], wish: Mapping[str, Any], move_id: str) -> dict[str, Any]:
    """The image, but for its bytes."""
    properties = {**wish.get("metadata", {}), "instance_uuid": server["id"], "image_type": "snapshot"}
    if starts_from_volume(server):
        devices = [device_of(volume, move_id) for volume in server["volumes"]]
        (root,) = [volume["device"] for volume in server["volumes"] if volume["boot_index"] == 0]
        properties |= {"bdm_v2": "True", "root_device_name": root}
        properties["block_device_mapping"] = json.dumps(devices)
    return {"name": wish["name"], "base": server["image_id"], "properties": properties}


def device_of(volume: Mapping[str, Any], move_id: str) -> dict[str, Any]:
    """The block device that the snapshot of a volume is to whoever starts from the image."""
    return {
        "source_type": "snapshot",
        "destination_type": "volume",
        "snapshot_id": volume_snapshot_id(move_id, volume["volume_id"]),
        "boot_index": volume["boot_index"],
        "device_name": volume["device"],
        "delete_on_termination": bool(volume.get("delete_on_termination")),
    }


async def copy_volumes(neighbours: Neighbours, scene: Scene) -> None:
    for volume in scene.server["volumes"]:
        name = f"{scene.wish['name']} {volume['device']}"
        await neighbours.volumes.snapshot(volume["volume_id"], scene.id, name=name)


async def remove_copies(neighbours: Neighbours, scene: Scene) -> None:
    await undo_copies(neighbours, scene.server, scene.id)


async def undo_copies(neighbours: Neighbours, server: Mapping[str, Any], move_id: str) -> None:
    """Remove the snapshots of the server's volumes that were taken for that move."""
    for volume in server["volumes"]:
        await neighbours.volumes.undo_snapshot(volume["volume_id"], move_id)


async def make_image(neighbours: Neighbours, scene: Scene) -> Image:
    made = described(scene.server, scene.wish, scene.id)
    return await neighbours.images.snapshot(scene.server["project_id"], scene.id, **made)


async def unmake_image(neighbours: Neighbours, scene: Scene) -> None:
    await neighbours.images.undo_snapshot(scene.server["project_id"], scene.id)


async def announce(store: Store, neighbours: Neighbours, move_id: str) -> None:
    """Let the image be seen, still without its bytes. If the image service does not answer now the move
    does it; if the move has failed meanwhile nothing of the image stays."""
    server, move = await store.read(_of, move_id)
    try:
        seen = described(server, move["wish"], move_id)
        await neighbours.images.announce_snapshot(server["project_id"], move_id, **seen)
    except Unavailable as error:
        log.warning("an image is not announced", move=move_id, reason=error.message)
        return
    # Whoever walks the move back from now on removes the image with it.
    _, move = await store.read(_of, move_id)
    if move["state"] not in ("running", "done"):
        await neighbours.images.undo_snapshot(server["project_id"], move_id)


def _of(tx: Tx, move_id: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    move = moves.find(tx, move_id)
    assert move is not None, f"there is no move {move_id}"
    server = servers.find(tx, move["server_id"])
    assert server is not None, f"move {move_id} has no server"
    return server, move


SNAPSHOT = Playbook(
    "snapshot",
    Call(
        "make image",
        make_image,
        undo=unmake_image,
        event="compute_snapshot_instance",
        task="image_uploading",
    ),
    PointOfNoReturn("the image is complete"),
)

SNAPSHOT_OF_VOLUMES = Playbook(
    "snapshot-of-volumes",
    Call(
        "copy volumes",
        copy_volumes,
        undo=remove_copies,
        event="compute_snapshot_instance",
        task="image_snapshot",
    ),
    Call("make image", make_image, undo=unmake_image, task="image_uploading"),
    PointOfNoReturn("the image is complete"),
)
