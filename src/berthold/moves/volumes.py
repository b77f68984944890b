"""Volumes: attach one to a server that exists, or take it back.

    attach:  take volume ─ attach to guest ══ note volume
                  ▲               ▲         ║
                  └──── undo ─────┴── undo ─╨─ the guest has it
    detach:  detach from guest ══ give volume back ─ forget volume

Of a server that is shelved and offloaded there is no guest to ask; its next one has what is noted.

The device's name is chosen in the transaction that begins the move and holds the server's
row, and a server has one unfinished move (M3): two racers never get one name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from berthold.errors import Malformed, NotAllowed, NotFound, WrongState
from berthold.ledger import servers
from berthold.ledger.store import Tx
from berthold.moves.playbook import Ask, Call, Errand, Facts, Playbook, PointOfNoReturn, Scene, Write, source
from berthold.neighbours import Neighbours

DEVICE = re.compile(r"(?:/dev/)?(x?[a-z]d)([a-z])")
# The first letter is the boot disk's, on its host or a volume.
LETTERS = "bcdefghijklmnopqrstuvwxyz"


def device_for(server: Mapping[str, Any], wanted: str | None) -> str:
    """A device name that no other block device of the server has: the one that is `wanted`, or a free one.

    Raises `Malformed` for what is no name, `WrongState` for a name that is taken, `NotAllowed` when
    none is left.
    """
    taken = {"a"}
    for volume in server["volumes"]:
        if named := DEVICE.fullmatch(volume.get("device") or ""):
            taken.add(named[2])
    if wanted:
        name = DEVICE.fullmatch(wanted)
        if name is None:
            raise Malformed(f"The supplied device path ({wanted}) is invalid.")
        if name[2] in taken:
            raise WrongState(f"The supplied device path ({wanted}) is in use.")
        return f"/dev/{name[1]}{name[2]}"
    free = next((letter for letter in LETTERS if letter not in taken), None)
    if free is None:
        raise NotAllowed(
            "The maximum allowed number of disk devices (26) to attach to a single instance has been"
            " exceeded."
        )
    return f"/dev/vd{free}"


def attachable(server: Mapping[str, Any], volume_id: str, wanted: str | None) -> str:
    """The device name under which the volume may be attached. Raises as `device_for` does."""
    if any(volume["volume_id"] == volume_id for volume in server["volumes"]):
        raise Malformed(f"Invalid volume: volume {volume_id} is already attached to instance {server['id']}")
    return device_for(server, wanted)


def detachable(server: Mapping[str, Any], volume_id: str) -> Mapping[str, Any]:
    """The server's volume, to be detached. Raises `NotFound`, or `Malformed` for the one it boots from."""
    volume = next((each for each in server["volumes"] if each["volume_id"] == volume_id), None)
    if volume is None:
        raise NotFound(f"Instance {server['id']} is not attached to volume {volume_id}.")
    if volume.get("boot_index") == 0:
        raise Malformed("Cannot detach a root device volume")
    found: Mapping[str, Any] = volume
    return found


def the_volume(scene: Scene) -> Facts:
    return {"volume": {**scene.wish["volume"], **scene.facts.get("attached", {})}}


async def take(neighbours: Neighbours, scene: Scene) -> dict[str, Any]:
    volume = scene.wish["volume"]
    return await neighbours.volumes.attach(
        volume["volume_id"], scene.server["id"], scene.id, device=volume["device"]
    )


async def take_back(neighbours: Neighbours, scene: Scene) -> None:
    await neighbours.volumes.undo_attach(scene.wish["volume"]["volume_id"], scene.server["id"], scene.id)


def note(tx: Tx, scene: Scene) -> None:
    volumes = [*_others(scene), dict(the_volume(scene)["volume"])]
    servers.change(tx, scene.server["id"], volumes=volumes)


async def give_back(neighbours: Neighbours, scene: Scene) -> None:
    volume = scene.wish["volume"]
    await neighbours.volumes.detach(
        volume["volume_id"], scene.server["id"], attachment_id=volume.get("attachment_id")
    )


def forget(tx: Tx, scene: Scene) -> None:
    servers.change(tx, scene.server["id"], volumes=_others(scene))


def _others(scene: Scene) -> list[dict[str, Any]]:
    mine = scene.wish["volume"]["volume_id"]
    return [volume for volume in scene.server["volumes"] if volume["volume_id"] != mine]


ATTACH_VOLUME = Playbook(
    "attach-volume",
    Call("take volume", take, undo=take_back, then=lambda tx, scene, made: {"attached": made}),
    Ask(
        "attach to guest",
        Errand("attach_volume", source, the_volume),
        undo=Errand("detach_volume", source, the_volume),
        event="compute_attach_volume",
    ),
    PointOfNoReturn("the guest has the volume"),
    Write("note volume", note),
)

ATTACH_VOLUME_OFFLOADED = Playbook(
    "attach-volume-offloaded",
    Call(
        "take volume",
        take,
        undo=take_back,
        then=lambda tx, scene, made: {"attached": made},
        event="compute_attach_volume",
    ),
    PointOfNoReturn("the volume is the server's, and no guest need be asked"),
    Write("note volume", note),
)

DETACH_VOLUME = Playbook(
    "detach-volume",
    Ask(
        "detach from guest",
        Errand("detach_volume", source, the_volume),
        undo=Errand("attach_volume", source, the_volume),
        event="compute_detach_volume",
    ),
    PointOfNoReturn("the guest has let go of the volume"),
    Call("give volume back", give_back),
    Write("forget volume", forget),
)

DETACH_VOLUME_OFFLOADED = Playbook(
    "detach-volume-offloaded",
    PointOfNoReturn("no guest has the volume"),
    Call("give volume back", give_back, event="compute_detach_volume"),
    Write("forget volume", forget),
)
