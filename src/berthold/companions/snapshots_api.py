"""Block storage v3 over HTTP: snapshots. One is ready when its creation is answered."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType, structs
from sqlalchemy import Row
from starlette.responses import Response

from berthold.companions import snapshots, volume
from berthold.companions.http import Asked, Document, answer, nothing, page, stamp, yes
from berthold.companions.lists import fitting, in_order
from berthold.companions.volume_api import (
    STAMP,
    Metadata,
    Name,
    Pairs,
    check_project,
    listing,
    wanted_metadata,
)
from berthold.errors import WrongState


class NewSnapshot(Struct):
    volume_id: str
    name: Name | None = None
    description: Name | None = None
    metadata: Pairs | None = None
    force: bool | str | None = None  # a volume in use is copied as it is, asked to or not


class NewSnapshotBody(Struct):
    snapshot: NewSnapshot


class SnapshotChange(Struct):
    name: Name | UnsetType | None = UNSET
    description: Name | UnsetType | None = UNSET


class SnapshotChangeBody(Struct):
    snapshot: SnapshotChange


def document_of(row: Row[Any]) -> Document:
    """A snapshot as Cinder shows it."""
    return {
        "id": row.id,
        "name": row.name,
        "description": row.description,
        "volume_id": row.volume_id,
        "status": row.status,
        "size": row.size,
        "metadata": row.metadata,
        "user_id": row.user_id,
        "group_snapshot_id": None,
        "consumes_quota": True,
        "created_at": stamp(row.created_at, STAMP),
        "updated_at": stamp(row.updated_at, STAMP),
        "os-extended-snapshot-attributes:project_id": row.project_id,
        "os-extended-snapshot-attributes:progress": "100%" if row.status == "available" else "0%",
    }


FILTERS = ("id", "size", "created_at", "updated_at")
SORT_KEYS = ("name", "status", "size", "volume_id", "created_at", "updated_at", "id")
BRIEF = ("id", "name", "description", "volume_id", "status", "size", "metadata", "created_at", "updated_at")


async def chosen(asked: Asked) -> tuple[list[Document], str | None]:
    """The page of snapshots that the query asks for."""
    check_project(asked)
    query = asked.query
    everybody = asked.actor.is_admin and yes(query.get("all_tenants", "false"))
    where: Document = {key: query[key] for key in ("name", "status", "volume_id") if key in query}
    owner = query.get("project_id") if everybody else asked.actor.project_id
    rows = await asked.four.store.read(snapshots.snapshots_of, owner, where)
    documents = fitting([document_of(row) for row in rows], {k: query[k] for k in FILTERS if k in query})
    documents = [each for each in documents if wanted_metadata(asked).items() <= each["metadata"].items()]
    return page(asked, in_order(asked, documents, SORT_KEYS, "desc"))


async def list_snapshots(asked: Asked) -> Response:
    documents, following = await chosen(asked)
    brief = [{key: document[key] for key in BRIEF} for document in documents]
    return answer(listing(asked, "snapshots", brief, following))


async def list_details(asked: Asked) -> Response:
    return answer(listing(asked, "snapshots", *await chosen(asked)))


async def show_snapshot(asked: Asked) -> Response:
    check_project(asked)
    row = await asked.four.store.read(snapshots.snapshot_of, asked.actor, asked.path["id"])
    return answer({"snapshot": document_of(row)})


async def make_snapshot(asked: Asked) -> Response:
    check_project(asked)
    wish = (await asked.body(NewSnapshotBody)).snapshot
    of = await asked.four.store.read(volume.volume_of, asked.actor, wish.volume_id)
    if of.status not in volume.READY:
        raise WrongState(f"volume {of.id} is {of.status}; no snapshot can be taken of it")
    fields = {
        "name": wish.name,
        "description": wish.description,
        "user_id": asked.actor.user_id,
        "metadata": wish.metadata or {},
    }
    row = await asked.four.volumes.snapshots.take(of, asked.four.volumes.path(of), fields)
    return answer({"snapshot": document_of(row)}, 202)


async def change_snapshot(asked: Asked) -> Response:
    check_project(asked)
    wish = structs.asdict((await asked.body(SnapshotChangeBody)).snapshot)
    fields = {key: value for key, value in wish.items() if value is not UNSET}
    row = await asked.four.store.write(snapshots.change, asked.actor, asked.path["id"], fields)
    return answer({"snapshot": document_of(row)})


async def show_metadata(asked: Asked) -> Response:
    check_project(asked)
    row = await asked.four.store.read(snapshots.snapshot_of, asked.actor, asked.path["id"])
    return answer({"metadata": row.metadata})


async def add_metadata(asked: Asked) -> Response:
    return await changed_metadata(asked, keep=True)


async def replace_metadata(asked: Asked) -> Response:
    return await changed_metadata(asked, keep=False)


async def changed_metadata(asked: Asked, *, keep: bool) -> Response:
    check_project(asked)
    pairs, snapshot_id = (await asked.body(Metadata)).metadata, asked.path["id"]
    kept = await asked.four.store.write(
        lambda tx: snapshots.change_pairs(tx, asked.actor, snapshot_id, pairs, keep=keep)
    )
    return answer({"metadata": kept})


async def delete_snapshot(asked: Asked) -> Response:
    check_project(asked)
    row = await asked.four.store.read(snapshots.snapshot_of, asked.actor, asked.path["id"])
    await asked.four.volumes.snapshots.delete(row.id)
    return nothing(202)
