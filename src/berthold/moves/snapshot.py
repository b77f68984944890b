"""Snapshot (`createImage`): an image of a server's disk, made while the server stays as it is.

    make image ══ it is complete
        ▲      ║
        └ undo ╨

The image's id follows from the move's (`neighbours.snapshot_id`), so whoever began the move can
tell it at once.
"""

from __future__ import annotations

from berthold.moves.playbook import Call, Playbook, PointOfNoReturn, Scene
from berthold.neighbours import Image, Neighbours


async def make_image(neighbours: Neighbours, scene: Scene) -> Image:
    server = scene.server
    return await neighbours.images.snapshot(
        server["project_id"],
        scene.id,
        name=scene.wish["name"],
        base=server["image_id"],
        properties={
            **scene.wish.get("metadata", {}),
            "instance_uuid": server["id"],
            "image_type": "snapshot",
        },
    )


async def unmake_image(neighbours: Neighbours, scene: Scene) -> None:
    await neighbours.images.undo_snapshot(scene.server["project_id"], scene.id)


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
