"""Snapshot (`createImage`): an image of a server's disk, made while the server stays as it is.

    make image ══ it is complete
        ▲      ║
        └ undo ╨

The image's id follows from the move's (`neighbours.snapshot_id`), so whoever began the move can
tell it at once; and it is announced before anybody is told, so that it is found from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from berthold.errors import Unavailable
from berthold.ledger import moves, servers
from berthold.ledger.store import Store, Tx
from berthold.moves.playbook import Call, Playbook, PointOfNoReturn, Scene
from berthold.neighbours import Image, Neighbours

log = structlog.get_logger("berthold.moves")


def described(server: Mapping[str, Any], wish: Mapping[str, Any]) -> dict[str, Any]:
    """The image, but for its bytes."""
    properties = {**wish.get("metadata", {}), "instance_uuid": server["id"], "image_type": "snapshot"}
    return {"name": wish["name"], "base": server["image_id"], "properties": properties}


async def make_image(neighbours: Neighbours, scene: Scene) -> Image:
    server = scene.server
    return await neighbours.images.snapshot(server["project_id"], scene.id, **described(server, scene.wish))


async def unmake_image(neighbours: Neighbours, scene: Scene) -> None:
    await neighbours.images.undo_snapshot(scene.server["project_id"], scene.id)


async def announce(store: Store, neighbours: Neighbours, move_id: str) -> None:
    """Let the image be seen, still without its bytes. If the image service does not answer now the move
    does it; if the move has failed meanwhile nothing of the image stays."""
    server, move = await store.read(_of, move_id)
    try:
        await neighbours.images.announce_snapshot(
            server["project_id"], move_id, **described(server, move["wish"])
        )
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
