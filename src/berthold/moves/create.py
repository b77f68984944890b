"""Create: a server's first place.

    claim host ─ make ports ─ make volumes ─ spawn ══ settle
        ▲            ▲             ▲           ▲    ║
        └── undo ────┴──── undo ───┴── undo ───┘    ╚═ the guest runs

If a host fails the guest, the next candidate is tried; ports and volumes are kept for it.
A create that finds no host leaves a server in error that holds no claim (M6).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berthold.ledger import claims, servers
from berthold.ledger.store import Tx, clock_of
from berthold.moves import steps
from berthold.moves.playbook import Ask, Call, Errand, Place, Playbook, PointOfNoReturn, Scene, Write, target
from berthold.neighbours import Neighbours, Port


async def make_ports(neighbours: Neighbours, scene: Scene) -> list[Port]:
    server = scene.server
    host = scene.host_name(scene.move["target_id"])
    assert host, f"move {scene.id} has no claim on its target"
    wishes = list(scene.wish.get("networks", []))
    return await neighbours.networks.plug(server["project_id"], server["id"], scene.id, wishes, host)


async def remove_ports(neighbours: Neighbours, scene: Scene) -> None:
    await neighbours.networks.unplug(scene.server["id"])


def write_ports(tx: Tx, scene: Scene, ports: list[Port]) -> None:
    servers.change(
        tx,
        scene.server["id"],
        ports=[
            steps.noted(port, wish.get("tag"))
            for port, wish in zip(ports, scene.wish.get("networks", []), strict=True)
        ],
    )


async def make_volumes(neighbours: Neighbours, scene: Scene) -> list[dict[str, Any]]:
    """Every block device that is a volume: made if need be, and attached."""
    volumes = []
    for number, wish in enumerate(scene.wish.get("volumes", [])):
        volume_id = wish.get("volume_id") or await _make(neighbours, scene, number, wish)
        first = "b" if scene.server["image_id"] else "a"
        device = wish.get("device") or f"/dev/vd{chr(ord(first) + number)}"
        attached = await neighbours.volumes.attach(volume_id, scene.server["id"], scene.id, device=device)
        volumes.append({**wish, **attached, "volume_id": volume_id, "device": device})
    return volumes


async def _make(neighbours: Neighbours, scene: Scene, number: int, wish: Mapping[str, Any]) -> str:
    made = await neighbours.volumes.create(
        scene.server["project_id"],
        scene.id,
        name=volume_name(scene.server, number),
        size=wish["size"],
        image_id=wish.get("image_id"),
        snapshot_id=wish.get("snapshot_id"),
        volume_type=wish.get("volume_type"),
    )
    return made.id


def volume_name(server: Mapping[str, Any], number: int) -> str:
    """What the server's volume number `number` is called, if it is made for the server."""
    return f"{server['id']}-{number}"


async def let_volumes_go(neighbours: Neighbours, scene: Scene) -> None:
    await undo_volumes(neighbours, scene.server, scene.id, scene.wish.get("volumes", []))


async def undo_volumes(
    neighbours: Neighbours, server: Mapping[str, Any], create_id: str, wishes: list[dict[str, Any]]
) -> None:
    """Give back what was lent to the create and remove what was made for it, for good."""
    for number, wish in enumerate(wishes):
        if volume_id := wish.get("volume_id"):
            await neighbours.volumes.detach(volume_id, server["id"], for_good=True)
        else:
            made = {"name": volume_name(server, number), "server_id": server["id"]}
            await neighbours.volumes.undo_create(server["project_id"], create_id, **made)


def write_volumes(tx: Tx, scene: Scene, volumes: list[dict[str, Any]]) -> None:
    servers.change(tx, scene.server["id"], volumes=volumes)


def settle(tx: Tx, scene: Scene) -> None:
    """The server is active, at home."""
    steps.switch_home(tx, scene)
    steps.set_condition(tx, scene, "active", launched_at=clock_of(tx).now())


def failed(tx: Tx, scene: Scene) -> None:
    """State and fault become visible together. The server still exists and still counts."""
    assert not [claim for claim in claims.of_server(tx, scene.server["id"]) if claim.role != "left"]
    steps.set_condition(tx, scene, "error", fault=steps.fault_of(tx, scene), ports=[], volumes=[])


CREATE = Playbook(
    "create",
    Place("claim host", event="conductor_build_instances", task="scheduling", leaves_source=False),
    Call("make ports", make_ports, undo=remove_ports, then=write_ports, task="networking"),
    Call(
        "make volumes",
        make_volumes,
        undo=let_volumes_go,
        then=write_volumes,
        needless=lambda scene: not scene.wish.get("volumes"),
        task="block_device_mapping",
    ),
    Ask(
        "spawn",
        Errand("spawn", target, steps.guest_as_it_is),
        undo=Errand("discard", target),
        event="compute__do_build_and_run_instance",
        task="spawning",
    ),
    PointOfNoReturn("the guest runs"),
    Write("settle", settle, task="spawning"),
    failed=failed,
)
