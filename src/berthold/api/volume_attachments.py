"""A server's volumes: attach, detach, and what becomes of them with their server."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

from berthold.api.call import Call
from berthold.api.microversions import Version
from berthold.api.schemas.volume_attachments import AttachmentChange, NewAttachment
from berthold.api.servers import by, unlocked
from berthold.api.views.fields import Field, column, render, render_all
from berthold.errors import Malformed, NotFound, WrongState
from berthold.ledger import moves, reading, servers
from berthold.ledger.store import Tx
from berthold.moves import begin
from berthold.moves.in_turn import in_turn

FOR_SHELVED = Version(2, 20)
SWAP = "os_compute_api:os-volumes-attachments:swap"
QUERY = frozenset({"limit", "offset"})
Record = Mapping[str, Any]


def _block_device(volume: Record, call: Call) -> str:
    """The id of the server's block device; it follows from server and volume."""
    return str(uuid.uuid5(uuid.UUID(int=0), f"{volume['server_id']}/{volume['volume_id']}"))


NEW: list[Field[Record]] = [
    Field("id", column("volume_id")),
    Field("serverId", column("server_id")),
    Field("volumeId", column("volume_id")),
    Field("device", column("device")),
    Field("tag", lambda volume, call: volume.get("tag"), when="2.70"),
    Field(
        "delete_on_termination",
        lambda volume, call: bool(volume.get("delete_on_termination")),
        when="2.79",
    ),
]
FIELDS: list[Field[Record]] = [
    Field("id", column("volume_id"), when="2.1-2.88"),
    *NEW[1:],
    Field("attachment_id", lambda volume, call: volume.get("attachment_id"), when="2.89"),
    Field("bdm_uuid", _block_device, when="2.89"),
]


async def index(call: Call, server_id: str) -> dict[str, Any]:
    """The server's volumes."""
    volumes = _of(await call.store.read(reading.server_of, server_id, call.scope))
    first = call.query.number("offset") or 0
    page = volumes[first : first + call.query.page(call.settings.page_max).limit]
    return {"volumeAttachments": render_all(FIELDS, page, call)}


async def show(call: Call, server_id: str, volume_id: str) -> dict[str, Any]:
    """One of them."""
    server = await call.store.read(reading.server_of, server_id, call.scope)
    return {"volumeAttachment": render(FIELDS, _one(server, volume_id), call)}


async def attach(call: Call, server_id: str) -> dict[str, Any]:
    """Begin to give the server a volume of its project, when it is its turn."""
    return await in_turn(call.store, server_id, call.settings.turn_s, partial(_ask, call, server_id))


async def _ask(call: Call, server_id: str) -> dict[str, Any]:
    wish: NewAttachment = call.body.attachment
    server = await call.store.read(unlocked, call, server_id)
    owner = call.as_member_of(server["project_id"])
    volume = await call.services.neighbours.volumes.get(owner, wish.volume_id)
    if volume.status != "available":
        raise Malformed(
            f"Invalid volume: volume {volume.id} status must be 'available'. Currently in '{volume.status}'."
        )
    made = await call.store.write(_attach, call, server_id, wish)
    return {"volumeAttachment": render(NEW, {**made, "server_id": server["id"]}, call)}


def _attach(tx: Tx, call: Call, server_id: str, wish: NewAttachment) -> Record:
    unlocked(tx, call, server_id)
    return begin.attach_volume(
        tx,
        server_id,
        by(call),
        wish.volume_id,
        device=wish.device,
        on_shelf=call.version >= FOR_SHELVED,
        delete_on_termination=wish.delete_on_termination,
        tag=wish.tag,
    )


async def detach(call: Call, server_id: str, volume_id: str) -> None:
    """Begin to take one away, when it is its turn; 202 means begun."""
    ask = partial(call.store.write, _detach, call, server_id, volume_id)
    await in_turn(call.store, server_id, call.settings.turn_s, ask)


def _detach(tx: Tx, call: Call, server_id: str, volume_id: str) -> None:
    unlocked(tx, call, server_id)
    begin.detach_volume(tx, server_id, by(call), volume_id, on_shelf=call.version >= FOR_SHELVED)


async def update(call: Call, server_id: str, volume_id: str) -> None:
    """Say (since 2.85) whether a volume goes with its server. Volumes are not swapped here."""
    await call.store.write(_update, call, server_id, volume_id)


def _update(tx: Tx, call: Call, server_id: str, volume_id: str) -> None:
    wish: AttachmentChange = call.body.attachment
    unlocked(tx, call, server_id)
    if wish.volume_id != volume_id:
        call.must(SWAP)
    server = servers.hold(tx, server_id)
    volume = _one(server, volume_id)
    if wish.volume_id != volume_id:
        raise WrongState(
            "Volumes are swapped by the storage service alone, as the last step of moving a volume's data;"
            " this cloud's moves no data. Detach the one volume and attach the other."
        )
    _as_it_is(wish, volume)
    if wish.delete_on_termination is None:
        raise Malformed("delete_on_termination: expected true or false.")
    if moves.unfinished(tx, server_id) is not None:
        raise WrongState(f"Cannot 'update volume' instance {server_id} while something else is under way.")
    fate = {"delete_on_termination": wish.delete_on_termination}
    changed = [{**each, **fate} if each.get("volume_id") == volume_id else each for each in server["volumes"]]
    servers.change(tx, server_id, volumes=changed)


def _as_it_is(wish: AttachmentChange, volume: Record) -> None:
    """Whatever the body names beside `delete_on_termination` cannot change."""
    named = {
        "id": (wish.id, volume["volume_id"]),
        "serverId": (wish.server_id, volume["server_id"]),
        "device": (wish.device, volume["device"]),
        "tag": (wish.tag, volume.get("tag")),
    }
    for name, (asked, standing) in named.items():
        if asked not in (None, standing):
            raise Malformed(f"{name} cannot be changed: it is {standing}.")


def _of(server: Record) -> list[dict[str, Any]]:
    return [{**volume, "server_id": server["id"]} for volume in server["volumes"] if volume.get("volume_id")]


def _one(server: Record, volume_id: str) -> dict[str, Any]:
    for volume in _of(server):
        if volume["volume_id"] == volume_id:
            return volume
    raise NotFound(f"volume_id not found: {volume_id}")
