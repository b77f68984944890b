"""Delete: every host that may run the server says that it is gone, then nothing of it is left.

    ══ discard everywhere ─ let volumes go ─ remove ports ─ bury

Deleting takes the place of the server's unfinished move, whatever that was doing (M3): it
takes over that move's claims and cleans every claimed host. There is no way back, so the
point of no return comes first.
"""

from __future__ import annotations

from berthold.ledger import servers
from berthold.ledger.store import Tx
from berthold.moves import steps
from berthold.moves.create import remove_ports, undo_volumes
from berthold.moves.playbook import (
    Ask,
    Call,
    Errand,
    Playbook,
    PointOfNoReturn,
    Scene,
    Write,
    every_claimed_host,
)
from berthold.moves.shelve import remove_image
from berthold.moves.snapshot import undo_copies
from berthold.neighbours import Neighbours


async def let_volumes_go(neighbours: Neighbours, scene: Scene) -> None:
    """Detach all, one that was being attached too; remove those that were to go with the server, and
    those of a create that never ended. If it is on the shelf, or was on its way there, its image goes too."""
    for volume in scene.server["volumes"]:
        await neighbours.volumes.detach(volume["volume_id"], scene.server["id"], for_good=True)
        if volume.get("delete_on_termination"):
            await neighbours.volumes.delete(volume["volume_id"])
    if unfinished := scene.wish.get("unfinished_volume"):
        await neighbours.volumes.detach(unfinished, scene.server["id"], for_good=True)
    await remove_image(neighbours, scene)
    if unfinished := scene.wish.get("unfinished_image"):
        await neighbours.images.undo_snapshot(scene.server["project_id"], unfinished)
        await undo_copies(neighbours, scene.server, unfinished)
    if unfinished := scene.wish.get("unfinished_create"):
        await undo_volumes(neighbours, scene.server, unfinished, scene.wish["unfinished_volumes"])


def bury(tx: Tx, scene: Scene) -> None:
    servers.hold_bill(tx, scene.server["id"])
    for claim in scene.claims:
        if claim.role != "left":
            steps.give_up(tx, scene, claim)
    servers.bury(tx, scene.server["id"])


DELETE = Playbook(
    "delete",
    PointOfNoReturn("the owner has said that the server goes"),
    Ask(
        "discard everywhere",
        Errand("discard", every_claimed_host),
        event="compute_terminate_instance",
        task="deleting",
    ),
    Call("let volumes go", let_volumes_go, task="deleting"),
    Call("remove ports", remove_ports, task="deleting"),
    Write("bury", bury, task="deleting"),
    ends="completed",
)
