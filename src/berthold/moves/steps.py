"""What several playbooks do in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from berthold.ledger import claims, hosts, occupants, outbox, servers
from berthold.ledger.store import Tx, clock_of
from berthold.moves.playbook import Facts, Scene
from berthold.neighbours import Neighbours, Port


def resources_of(flavor: Mapping[str, Any]) -> dict[str, int]:
    """What a server of this flavor claims of its host, by resource class."""
    wanted = {
        "VCPU": flavor["vcpus"],
        "MEMORY_MB": flavor["ram"],
        "DISK_GB": flavor.get("disk", 0) + flavor.get("ephemeral", 0) + -(-flavor.get("swap", 0) // 1024),
    }
    return {name: amount for name, amount in wanted.items() if amount > 0}


def guest(server: Mapping[str, Any], flavor: Mapping[str, Any]) -> dict[str, Any]:
    """What an agent must know to make the server's guest (`agent.protocol.Guest`)."""
    return {
        "server": server["id"],
        "name": server["name"],
        "vcpus": flavor["vcpus"],
        "memory_mb": flavor["ram"],
        "disk_gb": flavor.get("disk", 0),
        "image": server["image_id"],
        "volumes": server["volumes"],
        "ports": server["ports"],
    }


def new_flavor(scene: Scene) -> Mapping[str, Any]:
    """The flavor that the server will have when the move is done."""
    flavor: Mapping[str, Any] = scene.wish.get("flavor") or scene.server["flavor"]
    return flavor


def guest_to_be(scene: Scene) -> Facts:
    return {"guest": guest(scene.server, new_flavor(scene))}


def guest_as_it_is(scene: Scene) -> Facts:
    return {"guest": guest(scene.server, scene.server["flavor"])}


def to_target(scene: Scene) -> Facts:
    """Where a source sends the guest: the target's name."""
    return {"target": scene.host_name(scene.move["target_id"])}


# What an agent is asked that leaves nothing behind.
LOOKS = frozenset({"check", "locate"})

# The slot of an ask that waits for a host to come back; in the place of its move is the claim.
LEFT = "left"


def leave_behind(tx: Tx, claim: claims.Claim) -> None:
    """The host cannot be asked now. What it has of the guest it shall remove before anything else when
    it returns: the ask waits for its agent, and the claim for the answer (`moves/left.py`)."""
    claims.leave_behind(tx, claim.id)
    outbox.send(
        tx,
        move_id=claim.id,
        slot=LEFT,
        server_id=claim.server_id,
        host_id=claim.host_id,
        verb="discard",
        args={},
    )


def give_up(tx: Tx, scene: Scene, claim: claims.Claim) -> None:
    """M1: the host has said that the server is gone from it. Else the claim is left behind: the host is
    fenced, or was when it should have been asked, and may be back by now."""
    if claim.host_status != "fenced" and claims.release(tx, claim.id, partial(_is_gone, tx, scene, claim)):
        return
    leave_behind(tx, claim)
    hosts.must_clean(tx, claim.host_id)


def _is_gone(tx: Tx, scene: Scene, claim: claims.Claim) -> bool:
    """Whether the host has told this move so, or never had anything of the server, or keeps it anyway."""
    if any(other.host_id == claim.host_id and other.id != claim.id for other in scene.claims):
        return True
    asked = [
        each
        for each in outbox.all_of(tx, scene.id)
        if each.host_id == claim.host_id and each.verb not in LOOKS
    ]
    if asked:  # a move may have come to a host a second time since it was cleared
        return asked[-1].verb == "discard" and asked[-1].is_good
    return claim.move_id == scene.id


def release_target(tx: Tx, scene: Scene) -> None:
    for claim in scene.claims_in("target"):
        give_up(tx, scene, claim)


def release_source(tx: Tx, scene: Scene) -> None:
    for claim in scene.claims_in("source"):
        give_up(tx, scene, claim)


def switch_home(tx: Tx, scene: Scene) -> None:
    """M2. Done already if the move's target is the server's home."""
    if any(claim.host_id == scene.move["target_id"] for claim in scene.claims_in("target")):
        claims.switch_home(tx, scene.server["id"])


async def bind_ports_to_target(neighbours: Neighbours, scene: Scene) -> None:
    name = scene.host_name(scene.move["target_id"])
    assert name, f"move {scene.id} has no claim on its target"
    await neighbours.networks.bind(scene.server["id"], name)


def noted(port: Port, tag: str | None) -> dict[str, Any]:
    """What a server remembers of a port; with the tag by which its owner finds the interface in the guest."""
    kept = {
        "id": port.id,
        "network_id": port.network_id,
        "network_name": port.network_name,
        "mac_address": port.mac_address,
        "addresses": port.addresses,
    }
    return {**kept, "tag": tag} if tag else kept


def set_condition(tx: Tx, scene: Scene, condition: str, **columns: Any) -> None:
    servers.change(tx, scene.server["id"], condition=condition, **columns)


def group_there(tx: Tx, scene: Scene) -> dict[str, Any]:
    """Who of its group is where, for a move that has not got a host: what a rule's refusals rest on."""
    group_id = scene.server["group_id"]
    if group_id is None or scene.move["target_id"] is not None:
        return {}
    return {"members": occupants.others(tx, group_id, scene.server["id"])}


def fault_of(tx: Tx, scene: Scene) -> dict[str, Any]:
    """Why the move failed, in the form in which a server shows it."""
    failure = scene.move["failure"]
    return {
        "code": failure.get("code", 500),
        "message": failure["message"],
        "details": failure.get("traceback", ""),
        "created": clock_of(tx).now(),
    }
