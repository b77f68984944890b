"""Image v2 over HTTP: records of images, and their bytes up and down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, BinaryIO, Literal

import msgspec
from msgspec import Meta, Struct
from sqlalchemy import Row
from starlette.responses import Response, StreamingResponse

from berthold.companions import image
from berthold.companions.files import CHUNK
from berthold.companions.http import Asked, Document, Route, answer, nothing, page, stamp, whole_number, yes
from berthold.companions.lists import fitting, in_order
from berthold.errors import Malformed, NotAllowed, NotFound
from berthold.ledger.store import Tx

SCHEMA = "/v2/schemas/image"
Text = Annotated[str, Meta(max_length=255)]
Amount = Annotated[int, Meta(ge=0, le=2**31 - 1)]
READ_ONLY = {"status", "size", "virtual_size", "checksum", "os_hash_algo", "os_hash_value", "created_at"}
READ_ONLY |= {"updated_at", "self", "file", "schema", "direct_url", "locations", "owner"}
DISK_FORMATS = ("raw", "qcow2", "vhd", "vhdx", "vmdk", "vdi", "iso", "ploop", "ami", "ari", "aki")
CONTAINER_FORMATS = ("bare", "ovf", "ova", "docker", "ami", "ari", "aki", "compressed")
MOST_PROPERTIES = 128
NOT_FILTERS = (
    "limit",
    "marker",
    "tag",
    "member_status",
    "sort",
    "sort_key",
    "sort_dir",
    "size_min",
    "size_max",
)
SORT_KEYS = {"name", "status", "container_format", "disk_format", "size", "id", "created_at", "updated_at"}
SORT_KEYS |= {"owner", "visibility", "min_disk", "min_ram", "protected", "checksum"}


class Fields(Struct, forbid_unknown_fields=True):
    """What a user says of an image, besides free properties."""

    id: Annotated[str, Meta(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")] | None = None
    name: Text | None = None
    visibility: Literal["private", "shared", "community", "public"] | None = None
    disk_format: Text | None = None
    container_format: Text | None = None
    min_disk: Amount | None = None
    min_ram: Amount | None = None
    protected: bool | None = None
    os_hidden: bool | None = None
    tags: Annotated[list[Text], Meta(max_length=MOST_PROPERTIES)] | None = None


class Change(Struct):
    """One line of a JSON patch."""

    op: Literal["add", "replace", "remove"]
    path: str
    value: Any = None


def fault(status: int, title: str, message: str) -> Document:
    """A failure as Glance says it to clients that read JSON."""
    return {"code": f"{status} {title}", "title": title, "message": message}


def document_of(row: Row[Any]) -> Document:
    """An image as Glance shows it: free properties stand beside the known ones."""
    here = f"/v2/images/{row.id}"
    known = {
        "id": row.id,
        "name": row.name,
        "status": row.status,
        "visibility": row.visibility,
        "owner": row.project_id,
        "disk_format": row.disk_format,
        "container_format": row.container_format,
        "min_disk": row.min_disk,
        "min_ram": row.min_ram,
        "protected": row.protected,
        "os_hidden": False,
        "tags": row.tags,
        "size": row.size,
        "virtual_size": None,
        "checksum": row.checksum,
        "os_hash_algo": "sha512" if row.os_hash_value else None,
        "os_hash_value": row.os_hash_value,
        "created_at": stamp(row.created_at),
        "updated_at": stamp(row.updated_at),
        "self": here,
        "file": f"{here}/file",
        "schema": SCHEMA,
    }
    return {**row.properties, **known}


def fields_of(asked: Asked, document: Document) -> Document:
    """What the document says of an image, as columns; free properties are gathered in one."""
    for name in sorted(READ_ONLY & document.keys()):
        raise NotAllowed(f"attribute '{name}' is read-only")
    known = {key: value for key, value in document.items() if key in Fields.__struct_fields__}
    free = {key: value for key, value in document.items() if key not in known and value is not None}
    try:
        fields = msgspec.structs.asdict(msgspec.convert(known, Fields))
    except msgspec.ValidationError as error:
        raise Malformed(f"the body does not fit: {error}") from error
    for name, value in free.items():
        if not isinstance(value, str) or len(name) > 255 or len(value) > 65535:
            raise Malformed(f"property '{name[:80]}' must be text of at most 65535 characters")
    if len(free) > MOST_PROPERTIES:
        raise Malformed(f"an image has at most {MOST_PROPERTIES} properties")
    for name, formats in (("disk_format", DISK_FORMATS), ("container_format", CONTAINER_FORMATS)):
        if fields[name] not in (None, *formats):
            raise Malformed(f"{name} is one of {', '.join(formats)}")
    if fields["visibility"] == "public":
        asked.need_admin()
    if fields.pop("os_hidden"):
        raise Malformed("hidden images are not offered here")
    kept = {key: value for key, value in fields.items() if value is not None}
    if "tags" in kept:
        kept["tags"] = list(dict.fromkeys(kept["tags"]))
    return {**kept, "properties": free}


async def versions(asked: Asked) -> Response:
    links = [{"rel": "self", "href": f"{asked.home}/image/v2/"}]
    return answer({"versions": [{"id": "v2.16", "status": "CURRENT", "links": links}]}, 300)


async def list_images(asked: Asked) -> Response:
    query = {k: v for k, v in asked.query.items() if k not in NOT_FILTERS}
    where: Document = {
        k: query.pop(k) for k in ("name", "status", "visibility") if k in query and ":" not in query[k]
    }
    if "owner" in query:
        where["project_id"] = query.pop("owner")
    if "protected" in query:
        where["protected"] = yes(query.pop("protected"))
    if where.get("visibility") == "all":
        del where["visibility"]
    ids = query.pop("id", None)
    chosen = ids.removeprefix("in:").split(",") if ids is not None else None
    if yes(query.pop("os_hidden", "false")):
        return answer({"images": [], "schema": "/v2/schemas/images", "first": "/v2/images"})
    rows = await asked.four.store.read(image.images_of, asked.actor, where, chosen)
    documents = _of_size(asked, [document_of(row) for row in rows])
    tags = asked.request.query_params.getlist("tag")
    documents = [d for d in documents if set(tags) <= set(d["tags"])]
    documents = in_order(asked, fitting(documents, query), SORT_KEYS, "desc")
    documents, following = page(asked, documents)
    answered: Document = {"images": documents, "schema": "/v2/schemas/images", "first": "/v2/images"}
    if following:
        answered["next"] = f"/v2/images?{following}"
    return answer(answered)


def _of_size(asked: Asked, documents: list[Document]) -> list[Document]:
    """Those that are as large as the query says, if it does."""
    least = whole_number(asked.query.get("size_min"), "size_min", 0)
    most = whole_number(asked.query.get("size_max"), "size_max", 2**63)
    if not {"size_min", "size_max"} & asked.query.keys():
        return documents
    return [each for each in documents if each["size"] is not None and least <= each["size"] <= most]


async def make_image(asked: Asked) -> Response:
    document = await asked.body(dict[str, Any])
    owner = document.pop("owner", None) or asked.actor.project_id
    if owner != asked.actor.project_id:
        asked.need_admin()
    fields = fields_of(asked, document)
    row = await asked.four.store.write(lambda tx: image.make(tx, owner, **fields))
    return answer(document_of(row), 201, Location=f"{asked.home}/image/v2/images/{row.id}")


async def show_image(asked: Asked) -> Response:
    return answer(document_of(await asked.four.store.read(image.image_of, asked.actor, asked.path["id"])))


async def change_image(asked: Asked) -> Response:
    """A JSON patch of single fields and properties."""
    changes = await asked.body(list[Change])
    row = await asked.four.store.read(image.own_image, asked.actor, asked.path["id"])
    known = {key: getattr(row, key) for key in Fields.__struct_fields__ if key not in ("id", "os_hidden")}
    document = {**row.properties, **known}
    for change in changes:
        name = change.path.removeprefix("/").replace("~1", "/").replace("~0", "~")
        if not change.path.startswith("/") or "/" in change.path[1:] or not name:
            raise Malformed(f"{change.path!r} is not the path of a field")
        if name in READ_ONLY or name == "id":
            raise NotAllowed(f"attribute '{name}' is read-only")
        if change.op == "remove" and name in Fields.__struct_fields__:
            raise NotAllowed(f"attribute '{name}' cannot be removed")
        if change.op != "add" and name not in document and name != "os_hidden":
            raise Malformed(f"the image has no property '{name}'")
        document[name] = change.value if change.op != "remove" else None
    if document["visibility"] == row.visibility:
        del document["visibility"]
    fields = fields_of(asked, document)
    changed = await asked.four.store.write(lambda tx: image.change(tx, asked.actor, row.id, **fields))
    return answer(document_of(changed))


async def delete_image(asked: Asked) -> Response:
    await asked.four.images.delete(asked.actor, asked.path["id"])
    return nothing()


async def add_tag(asked: Asked) -> Response:
    if len(asked.path["tag"]) > 255:
        raise Malformed("a tag has at most 255 characters")
    return await tagged(asked, lambda tags, tag: list(dict.fromkeys([*tags, tag])))


async def remove_tag(asked: Asked) -> Response:
    def without(tags: list[str], tag: str) -> list[str]:
        if tag not in tags:
            raise NotFound(f"the image has no tag {tag}")
        return [other for other in tags if other != tag]

    return await tagged(asked, without)


async def tagged(asked: Asked, tags: Callable[[list[str], str], list[str]]) -> Response:
    def change(tx: Tx) -> None:
        row = image.own_image(tx, asked.actor, asked.path["id"])
        image.change(tx, asked.actor, row.id, tags=tags(row.tags, asked.path["tag"]))

    await asked.four.store.write(change)
    return nothing()


async def upload(asked: Asked) -> Response:
    await asked.four.images.upload(asked.actor, asked.path["id"], asked.request.stream())
    return nothing()


async def download(asked: Asked) -> Response:
    row = await asked.four.store.read(image.image_of, asked.actor, asked.path["id"])
    if row.file is None:
        return nothing()
    headers = {"Content-Length": str(row.size), "Content-MD5": row.checksum}
    file = asked.four.images.open(row)
    return StreamingResponse(pieces(file), headers=headers, media_type="application/octet-stream")


async def pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    with file:
        while piece := await asyncio.to_thread(file.read, CHUNK):
            yield piece


async def show_schema(asked: Asked) -> Response:
    """What an image looks like; `is_base` false would mean a free property."""
    text, number = {"type": ["null", "string"]}, {"type": ["null", "integer"]}
    properties: Document = dict.fromkeys(sorted(READ_ONLY | set(Fields.__struct_fields__)), text)
    properties |= dict.fromkeys(("size", "virtual_size", "min_disk", "min_ram"), number)
    properties |= {name: {"type": "boolean"} for name in ("protected", "os_hidden")}
    properties |= {name: {"type": "array"} for name in ("tags", "locations")}
    properties["disk_format"] = {**text, "enum": [None, *DISK_FORMATS]}
    properties["container_format"] = {**text, "enum": [None, *CONTAINER_FORMATS]}
    return answer({"name": "image", "properties": properties, "additionalProperties": {"type": "string"}})


OPEN_ROUTES: tuple[Route, ...] = (
    ("GET", "", versions),
    ("GET", "/", versions),
    ("GET", "/versions", versions),
)

ROUTES: tuple[Route, ...] = (
    ("GET", "/v2/images", list_images),
    ("POST", "/v2/images", make_image),
    ("GET", "/v2/images/{id}", show_image),
    ("PATCH", "/v2/images/{id}", change_image),
    ("DELETE", "/v2/images/{id}", delete_image),
    ("PUT", "/v2/images/{id}/file", upload),
    ("GET", "/v2/images/{id}/file", download),
    ("PUT", "/v2/images/{id}/tags/{tag}", add_tag),
    ("DELETE", "/v2/images/{id}/tags/{tag}", remove_tag),
    ("GET", "/v2/schemas/image", show_schema),
)
