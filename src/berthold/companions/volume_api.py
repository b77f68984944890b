"""Block storage v3 over HTTP: volumes. One is ready when its creation is answered."""

from __future__ import annotations

import ast
import uuid
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, structs
from sqlalchemy import Row
from starlette.responses import Response

from berthold.companions import image, snapshots, volume, volume_changes
from berthold.companions.http import Asked, Document, answer, nothing, page, stamp, whole_number, yes
from berthold.companions.lists import fitting, in_order
from berthold.companions.snapshots import MOST_PAIRS
from berthold.companions.volume_changes import LARGEST_GIB
from berthold.errors import Malformed, NotFound
from berthold.ledger.store import Tx

STAMP = "%Y-%m-%dT%H:%M:%S.%f"
TYPE_NAME = "file"
TYPE_ID = str(uuid.uuid5(uuid.NAMESPACE_URL, "berthold/volume-type/file"))
FAULTS = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    409: "conflictingRequest",
    413: "overLimit",
    503: "serviceUnavailable",
}

Name = Annotated[str, Meta(max_length=255)]
Key = Annotated[str, Meta(min_length=1, max_length=255)]
Pairs = Annotated[dict[Key, Annotated[str, Meta(max_length=255)]], Meta(max_length=MOST_PAIRS)]


class NewVolume(Struct):
    size: Annotated[int, Meta(ge=1, le=LARGEST_GIB)] | None = None
    name: Name | None = None
    description: Name | None = None
    imageRef: str | None = None
    source_volid: str | None = None
    snapshot_id: str | None = None
    backup_id: str | None = None
    consistencygroup_id: str | None = None
    volume_type: str | None = None
    availability_zone: str | None = None
    metadata: Pairs | None = None
    multiattach: bool | None = None


class NewVolumeBody(Struct):
    volume: NewVolume


class VolumeChange(Struct):
    name: Name | UnsetType | None = UNSET
    description: Name | UnsetType | None = UNSET
    metadata: Pairs | UnsetType = UNSET


class VolumeChangeBody(Struct):
    volume: VolumeChange


class Metadata(Struct):
    metadata: Pairs


def fault(status: int, title: str, message: str) -> Document:
    """A failure as Cinder says it."""
    told: Document = {"code": status, "message": message}
    if status == 413:
        told["retryAfter"] = "0"
    return {FAULTS.get(status, "computeFault"): told}


# -- Volumes ------------------------------------------------------------------------------


def document_of(asked: Asked, row: Row[Any], holder: Row[Any] | None) -> Document:
    """A volume as Cinder shows it."""
    document: Document = {
        "id": row.id,
        "name": row.name,
        "description": row.description,
        "status": row.status,
        "size": row.size,
        "volume_type": row.volume_type,
        "volume_type_id": TYPE_ID,
        "availability_zone": row.zone,
        "bootable": "true" if row.bootable else "false",
        "encrypted": False,
        "multiattach": False,
        "replication_status": None,
        "consistencygroup_id": None,
        "group_id": None,
        "snapshot_id": row.snapshot_id,
        "source_volid": row.source_id,
        "backup_id": None,
        "cluster_name": None,
        "consumes_quota": True,
        "service_uuid": None,
        "shared_targets": False,
        "provider_id": None,
        "metadata": row.metadata,
        "user_id": row.user_id,
        "created_at": stamp(row.created_at, STAMP),
        "updated_at": stamp(row.updated_at, STAMP),
        "attachments": [attachment(row, holder)] if holder is not None else [],
        "links": links(asked, row),
        "os-vol-tenant-attr:tenant_id": row.project_id,
    }
    if row.image_metadata:
        document["volume_image_metadata"] = row.image_metadata
    if asked.actor.is_admin:
        document["os-vol-host-attr:host"] = "companion@file#file"
        document["os-vol-mig-status-attr:migstat"] = None
        document["os-vol-mig-status-attr:name_id"] = None
    return document


def attachment(row: Row[Any], holder: Row[Any]) -> Document:
    return {
        "id": row.id,
        "attachment_id": holder.id,
        "volume_id": row.id,
        "server_id": holder.server_id,
        "host_name": None,
        "device": holder.device,
        "attached_at": stamp(holder.attached_at, STAMP),
    }


def links(asked: Asked, row: Row[Any]) -> list[Document]:
    path = f"{row.project_id}/volumes/{row.id}"
    return [
        {"rel": "self", "href": f"{asked.home}/volume/v3/{path}"},
        {"rel": "bookmark", "href": f"{asked.home}/volume/{path}"},
    ]


# What a list is asked for by; besides, for all projects, by an administrator.
FILTERS = ("size", "availability_zone", "user_id", "volume_type", "created_at", "updated_at")
SORT_KEYS = ("name", "status", "size", "bootable", "availability_zone", "created_at", "updated_at", "id")


def check_project(asked: Asked) -> None:
    """An address that names a project names the caller's."""
    if asked.path.get("project_id", asked.actor.project_id) != asked.actor.project_id:
        raise Malformed("the project in the address is not the token's")


async def chosen(asked: Asked) -> tuple[list[Document], str | None]:
    """The page of volumes that the query asks for."""
    check_project(asked)
    query = asked.query
    everybody = asked.actor.is_admin and yes(query.get("all_tenants", "false"))
    where: Document = {key: query[key] for key in ("name", "status") if key in query}
    where |= {"bootable": yes(query["bootable"])} if "bootable" in query else {}
    owner = query.get("project_id") if everybody else asked.actor.project_id
    rows = await asked.four.store.read(volume.volumes_of, owner, where)
    if "id" in query:
        rows = [row for row in rows if row.id in query["id"].removeprefix("in:").split(",")]
    holders = await asked.four.store.read(volume.attachments_of, [row.id for row in rows])
    documents = [document_of(asked, row, holders.get(row.id)) for row in rows]
    documents = fitting(documents, {key: query[key] for key in FILTERS if key in query})
    documents = [each for each in documents if wanted_metadata(asked).items() <= each["metadata"].items()]
    documents = in_order(asked, documents, SORT_KEYS, "desc")
    skipped = 0 if "marker" in query else whole_number(query.get("offset"), "offset", 0)
    return page(asked, documents[skipped:])


def wanted_metadata(asked: Asked) -> dict[str, str]:
    """Which metadata the query asks for, as clients of Cinder write it: {"k": "v"} in any quotes."""
    text = asked.query.get("metadata", "{}")
    try:
        wanted = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        wanted = None
    if not isinstance(wanted, dict):
        raise Malformed(f"metadata is an object of keys and values, not {text[:100]!r}")
    return {str(key): str(value) for key, value in wanted.items()}


def listing(asked: Asked, noun: str, documents: list[Document], following: str | None) -> Document:
    answered: Document = {noun: documents}
    if following:
        here = f"{asked.home}{asked.request.url.path}?{following}"
        answered[f"{noun}_links"] = [{"rel": "next", "href": here}]
    return answered


async def list_volumes(asked: Asked) -> Response:
    documents, following = await chosen(asked)
    brief = [{key: document[key] for key in ("id", "name", "links")} for document in documents]
    return answer(listing(asked, "volumes", brief, following))


async def list_details(asked: Asked) -> Response:
    return answer(listing(asked, "volumes", *await chosen(asked)))


async def show_volume(asked: Asked) -> Response:
    return await shown(asked, asked.path["id"])


async def shown(asked: Asked, volume_id: str, status: int = 200) -> Response:
    check_project(asked)
    row = await asked.four.store.read(volume.volume_of, asked.actor, volume_id)
    holders = await asked.four.store.read(volume.attachments_of, [row.id])
    return answer({"volume": document_of(asked, row, holders.get(row.id))}, status)


async def make_volume(asked: Asked) -> Response:
    """A volume, blank or as a copy. One that cannot be filled is taken back before the answer."""
    check_project(asked)
    wish = (await asked.body(NewVolumeBody)).volume
    if wish.backup_id or wish.consistencygroup_id:
        raise Malformed("backups and consistency groups are not offered here")
    if wish.multiattach:
        raise Malformed("a volume is attached to one server at most here")
    if len([each for each in (wish.imageRef, wish.source_volid, wish.snapshot_id) if each]) > 1:
        raise Malformed("a volume begins as a copy of one thing: an image, a volume or a snapshot")
    if wish.volume_type not in (None, "", TYPE_NAME, TYPE_ID):
        raise NotFound(f"volume type {wish.volume_type} could not be found")
    if wish.availability_zone not in (None, "", "nova"):
        raise Malformed(f"there is no availability zone {wish.availability_zone} here, only nova")
    fields = {
        "name": wish.name,
        "description": wish.description,
        "user_id": asked.actor.user_id,
        "image_id": wish.imageRef or None,
        "source_id": wish.source_volid or None,
        "snapshot_id": wish.snapshot_id or None,
        "size": await asked.four.store.read(size_for, asked, wish),
        "metadata": wish.metadata or {},
    }
    row = await asked.four.store.write(volume.begin, asked.actor.project_id, None, fields)
    try:
        await asked.four.volumes.fill(row)
    except BaseException:
        await asked.four.volumes.delete(row.id)
        raise
    return await shown(asked, row.id, 202)


def size_for(tx: Tx, asked: Asked, wish: NewVolume) -> int:
    """How large the volume is to be: as asked, and large enough for what it is to hold."""
    size, least = wish.size, 1
    if wish.source_volid:
        least = volume.volume_of(tx, asked.actor, wish.source_volid).size
        size = size or least
    if wish.snapshot_id:
        of = snapshots.snapshot_of(tx, asked.actor, wish.snapshot_id)
        least = snapshots.ready_snapshot(tx, of.id).size
        size = size or least
    if wish.imageRef:
        of = image.image_of(tx, asked.actor, wish.imageRef)
        if of.status != "active":
            raise Malformed(f"image {of.id} is {of.status}: it has no data yet")
        least = max(of.min_disk, -(-of.size // volume.GIB), 1)
    if size is None:
        raise Malformed("say the size, in GiB")
    if size < least:
        raise Malformed(f"the volume needs at least {least} GiB for what it is to hold")
    return size


async def change_volume(asked: Asked) -> Response:
    check_project(asked)
    wish = structs.asdict((await asked.body(VolumeChangeBody)).volume)
    fields = {key: value for key, value in wish.items() if value is not UNSET}
    await asked.four.store.write(volume_changes.change, asked.actor, asked.path["id"], fields)
    return await shown(asked, asked.path["id"])


async def delete_volume(asked: Asked) -> Response:
    check_project(asked)
    await asked.four.store.read(volume_changes.need_no_snapshots, asked.actor, asked.path["id"])
    await asked.four.volumes.delete(asked.path["id"])
    return nothing(202)
