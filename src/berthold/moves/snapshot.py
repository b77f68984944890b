"""Snapshot (`createImage`) and backup: an image of a server's disk, made while the server stays as it is.

    make image ══ it is complete         of a server that starts from a volume:
        ▲      ║
        └ undo ╨                         copy volumes ─ make image ══ it is complete
                                               ▲            ▲      ║
                                               └─── undo ───┴ undo ╨

A backup (`createBackup`) goes on from there: the oldest of its type go, so that as many are left as
are wanted.

The image of a server that starts from a volume holds no bytes. It names a snapshot of each of its
volumes, as the block devices of whoever starts from it.

The ids of image and snapshots follow from a key (`neighbours.snapshot_id`). Whoever has drawn one may
announce the image as the move begins: then it is found from the first moment, and one that its
owner has deleted meanwhile is not made again. Without one the move's own id is the key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from berthold.moves.playbook import Call, Playbook, PointOfNoReturn, Scene
from berthold.neighbours import Image, Neighbours, volume_snapshot_id


def starts_from_volume(server: Mapping[str, Any]) -> bool:
    return server["image_id"] is None and bool(server["volumes"])


KEY = "image_key"  # in the move's wish, if the image was announced
BACKUP_WISH = "backup"  # in the wish for a backup: {"type", "rotation": how many of that type are kept}


def key_of(move: Mapping[str, Any]) -> str:
    """What the ids of the move's image and snapshots follow from."""
    key: str = move["wish"].get(KEY) or move["id"]
    return key


def described(server: Mapping[str, Any], wish: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The image, but for its bytes."""
    properties = {**wish.get("metadata", {}), "instance_uuid": server["id"], "image_type": "snapshot"}
    if backup := wish.get(BACKUP_WISH):
        properties |= {"image_type": "backup", "backup_type": backup["type"]}
    if starts_from_volume(server):
        devices = [device_of(volume, key) for volume in server["volumes"]]
        (root,) = [volume["device"] for volume in server["volumes"] if volume["boot_index"] == 0]
        properties |= {"bdm_v2": "True", "root_device_name": root}
        properties["block_device_mapping"] = json.dumps(devices)
    return {"name": wish["name"], "base": server["image_id"], "properties": properties}


def device_of(volume: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The block device that the snapshot of a volume is to whoever starts from the image."""
    return {
        "source_type": "snapshot",
        "destination_type": "volume",
        "snapshot_id": volume_snapshot_id(key, volume["volume_id"]),
        "boot_index": volume["boot_index"],
        "device_name": volume["device"],
        "delete_on_termination": bool(volume.get("delete_on_termination")),
    }


async def copy_volumes(neighbours: Neighbours, scene: Scene) -> None:
    for volume in scene.server["volumes"]:
        name = f"{scene.wish['name']} {volume['device']}"
        await neighbours.volumes.snapshot(volume["volume_id"], key_of(scene.move), name=name)


async def remove_copies(neighbours: Neighbours, scene: Scene) -> None:
    await undo_copies(neighbours, scene.server, key_of(scene.move))


async def undo_copies(neighbours: Neighbours, server: Mapping[str, Any], key: str) -> None:
    """Remove the snapshots of the server's volumes that were taken under that key."""
    for volume in server["volumes"]:
        await neighbours.volumes.undo_snapshot(volume["volume_id"], key)


async def make_image(neighbours: Neighbours, scene: Scene) -> Image:
    key = key_of(scene.move)
    made = described(scene.server, scene.wish, key)
    announced = KEY in scene.wish
    return await neighbours.images.snapshot(scene.server["project_id"], key, announced=announced, **made)


async def unmake_image(neighbours: Neighbours, scene: Scene) -> None:
    await neighbours.images.undo_snapshot(scene.server["project_id"], key_of(scene.move))


async def rotate(neighbours: Neighbours, scene: Scene) -> None:
    server, backup = scene.server, scene.wish[BACKUP_WISH]
    await neighbours.images.rotate_backups(
        server["project_id"], server["id"], backup["type"], backup["rotation"]
    )


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

BACKUP = Playbook(
    "backup",
    Call(
        "make image",
        make_image,
        undo=unmake_image,
        event="compute_backup_instance",
        task="image_backup",
    ),
    PointOfNoReturn("the image is complete"),
    Call("remove old backups", rotate, task="image_backup"),
)
