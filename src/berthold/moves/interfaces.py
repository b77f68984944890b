"""Network interfaces: attach one to a server that exists, or take it back.

    attach:  take port ─ attach to guest ══ note port
                 ▲              ▲         ║
                 └──── undo ────┴── undo ─╨─ the guest has it
    detach:  detach from guest ══ give port back ─ forget port

A port that is made counts in its project's quota until it goes (Q1); one that the owner made
is lent to the server, and stays his when it is detached.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berthold.errors import Malformed, NotFound
from berthold.ledger import servers
from berthold.ledger.store import Tx
from berthold.moves import steps
from berthold.moves.playbook import Ask, Call, Errand, Facts, Playbook, PointOfNoReturn, Scene, Write, source
from berthold.neighbours import Neighbours, Port


def attachable(server: Mapping[str, Any], port_id: str | None) -> None:
    """Raise `Malformed` for a port that the server has already."""
    if port_id and any(port["id"] == port_id for port in server["ports"]):
        raise Malformed(f"Port {port_id} is already attached to instance {server['id']}")


def detachable(server: Mapping[str, Any], port_id: str) -> Mapping[str, Any]:
    """The server's port, to be detached. Raises `NotFound`."""
    for port in server["ports"]:
        if port["id"] == port_id:
            found: Mapping[str, Any] = port
            return found
    raise NotFound(f"Instance {server['id']} does not have a port with id {port_id}")


async def take(neighbours: Neighbours, scene: Scene) -> Port:
    host = scene.host_name(scene.move["source_id"])
    assert host, f"move {scene.id} has no claim on its source"
    server = scene.server
    return await neighbours.networks.attach(
        server["project_id"], server["id"], scene.id, dict(scene.wish["interface"]), host
    )


def taken(tx: Tx, scene: Scene, port: Port) -> Facts:
    return {"port": steps.noted(port, scene.wish["interface"].get("tag"))}


async def take_back(neighbours: Neighbours, scene: Scene) -> None:
    await neighbours.networks.undo_attach(scene.server["id"], scene.id, dict(scene.wish["interface"]))


def the_port(scene: Scene) -> Facts:
    return {"port": scene.facts.get("port") or scene.wish["port"]}


def note(tx: Tx, scene: Scene) -> None:
    servers.change(tx, scene.server["id"], ports=[*_others(scene), the_port(scene)["port"]])


async def give_back(neighbours: Neighbours, scene: Scene) -> None:
    await neighbours.networks.detach(scene.server["id"], the_port(scene)["port"]["id"], scene.id)


def forget(tx: Tx, scene: Scene) -> None:
    servers.change(tx, scene.server["id"], ports=_others(scene))


def _others(scene: Scene) -> list[dict[str, Any]]:
    mine = the_port(scene)["port"]["id"]
    return [port for port in scene.server["ports"] if port["id"] != mine]


ATTACH_INTERFACE = Playbook(
    "attach-interface",
    Call("take port", take, undo=take_back, then=taken),
    Ask(
        "attach to guest",
        Errand("attach_interface", source, the_port),
        undo=Errand("detach_interface", source, the_port),
        event="compute_attach_interface",
    ),
    PointOfNoReturn("the guest has the interface"),
    Write("note port", note),
)

DETACH_INTERFACE = Playbook(
    "detach-interface",
    Ask(
        "detach from guest",
        Errand("detach_interface", source, the_port),
        undo=Errand("attach_interface", source, the_port),
        event="compute_detach_interface",
    ),
    PointOfNoReturn("the guest has let go of the interface"),
    Call("give port back", give_back),
    Write("forget port", forget),
)
