"""Image: rows, and files that come back byte for byte.

An image is `queued` until its bytes are complete on disk; then one guarded write makes it
`active` with size and hashes. Of two uploads that race one wins, the other is told so.
Public and community images are for everybody to use, private and shared ones for their
project (sharing with named members is not offered).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from sqlalchemy import Row, and_, bindparam, delete, or_, select, update

from berthold.companions.files import CHUNK, Files, storage_speaks, write_all
from berthold.companions.schema import image
from berthold.errors import NotAllowed, NotFound, WrongState
from berthold.ledger.store import Store, Tx, clock_of, insert, now
from berthold.neighbours import Actor, Image, snapshot_id

OPEN_TO_ALL = ("public", "community")
FIND = select(image).where(image.c.id == bindparam("image"))


@dataclass(frozen=True)
class Stored:
    """A complete file and what it measures."""

    file: str
    size: int
    checksum: str
    os_hash_value: str


class EmbeddedImages:
    """`neighbours.Images` on our own table and a directory of files."""

    def __init__(self, store: Store, directory: Path) -> None:
        self.store = store
        self.files = Files(directory)

    async def get(self, actor: Actor, image_id: str) -> Image:
        return image_from(await self.store.read(image_of, actor, image_id))

    async def upload(self, actor: Actor, image_id: str, chunks: AsyncIterator[bytes]) -> None:
        """Give a queued image its bytes. Raises `WrongState` if it has some already."""
        row = await self.store.read(own_image, actor, image_id)
        if row.status != "queued":
            raise WrongState(f"image {image_id} has its data already")
        stored = await self._store(image_id, chunks)
        await self.keep(image_id, stored)

    async def keep(self, image_id: str, stored: Stored) -> None:
        """Make a complete file the image's; remove the file again if the image will not have it. Whatever
        else ends the wait does not say whether the row names the file by then, so the file stays."""
        try:
            await self.store.write(activate, image_id, stored)
        except WrongState:
            self.files.remove(stored.file)
            raise
        self.files.keep_only(image_id, stored.file)

    def open(self, row: Row[Any]) -> BinaryIO:
        """The bytes of an image; `NotFound` while it has none."""
        if row.file is None:
            raise NotFound(f"image {row.id} has no data yet")
        return self.files.open(row.file)

    async def delete(self, actor: Actor, image_id: str) -> None:
        """Remove the image, then its bytes."""
        await self.store.write(drop, actor, image_id)
        self.files.keep_only(image_id)

    async def announce_snapshot(
        self,
        project_id: str,
        move: str,
        *,
        name: str,
        base: str | None,
        properties: dict[str, Any],
        begin: Callable[[Tx], object],
    ) -> None:
        def both(tx: Tx) -> None:
            begin(tx)
            begin_snapshot(tx, project_id, move, name, base, properties)

        await self.store.write(both)

    async def snapshot(
        self,
        project_id: str,
        move: str,
        *,
        name: str,
        base: str | None,
        properties: dict[str, Any],
        announced: bool = False,
    ) -> Image:
        """The bytes are those of `base`: the guests of simulated hosts write nothing to their disks. A
        server that was made from no image has an empty one."""
        if announced:
            row = await self.store.write(describe_snapshot, move, properties)
        else:
            row = await self.store.write(begin_snapshot, project_id, move, name, base, properties)
        if row.status == "queued":
            of = await self.store.read(active_image, base) if base else None
            await self.keep(row.id, await self._copy(row.id, of))
        else:
            self.files.keep_only(row.id, row.file)
        return image_from(await self.store.read(image_row, row.id))

    async def undo_snapshot(self, project_id: str, move: str) -> None:
        await self.remove_snapshot(project_id, snapshot_id(move))

    async def rotate_backups(self, project_id: str, server_id: str, backup_type: str, most: int) -> None:
        said = {"instance_uuid": server_id, "image_type": "backup", "backup_type": backup_type}
        for image_id in await self.store.write(drop_oldest, project_id, said, most):
            self.files.keep_only(image_id)

    async def remove_snapshot(self, project_id: str, image_id: str) -> None:
        if await self.store.write(drop_snapshot, project_id, image_id):
            self.files.keep_only(image_id)

    async def _copy(self, image_id: str, of: Row[Any] | None) -> Stored:
        name = f"{image_id}.{self.store.clock.new_id()}"

        def copy() -> Stored:
            md5, sha512, size = hashlib.md5(usedforsecurity=False), hashlib.sha512(), 0
            with self.files.making(name) as file, storage_speaks():
                if of is not None:
                    with self.open(of) as original:
                        while data := original.read(CHUNK):
                            write_all(file, data)
                            md5.update(data)
                            sha512.update(data)
                            size += len(data)
            return Stored(name, size, md5.hexdigest(), sha512.hexdigest())

        # In a thread, except where everything runs in the caller's turn.
        return copy() if self.store.inline else await asyncio.to_thread(copy)

    async def _store(self, image_id: str, chunks: AsyncIterator[bytes]) -> Stored:
        name = f"{image_id}.{self.store.clock.new_id()}"
        md5, sha512 = hashlib.md5(usedforsecurity=False), hashlib.sha512()
        size = 0

        def put(file: BinaryIO, data: bytes) -> None:
            with storage_speaks():
                write_all(file, data)
            md5.update(data)
            sha512.update(data)

        making = self.files.making(name)
        file = making.__enter__()
        try:
            async for data in gathered(chunks):
                size += len(data)
                await asyncio.to_thread(put, file, data)
        except BaseException as error:
            making.__exit__(type(error), error, error.__traceback__)
            raise
        await asyncio.to_thread(making.__exit__, None, None, None)
        return Stored(name, size, md5.hexdigest(), sha512.hexdigest())


async def gathered(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in pieces of about a megabyte: few trips to the disk's thread."""
    held = bytearray()
    async for chunk in chunks:
        held += chunk
        if len(held) >= CHUNK:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)


def image_from(row: Row[Any]) -> Image:
    """A row as moves and the compute API see it."""
    return Image(
        id=row.id,
        name=row.name or "",
        status=row.status,
        size=row.size,
        min_disk=row.min_disk,
        min_ram=row.min_ram,
        properties=dict(row.properties),
    )


def image_of(tx: Tx, actor: Actor, image_id: str) -> Row[Any]:
    """An image that the actor may use; raises `NotFound`."""
    row = tx.execute(FIND, {"image": image_id}).one_or_none()
    usable = row is not None and (
        actor.is_admin or row.visibility in OPEN_TO_ALL or row.project_id == actor.project_id
    )
    if row is None or not usable:
        raise NotFound(f"no image found with ID {image_id}")
    return row


def own_image(tx: Tx, actor: Actor, image_id: str) -> Row[Any]:
    """An image that the actor may change."""
    row = image_of(tx, actor, image_id)
    if not (actor.is_admin or row.project_id == actor.project_id):
        raise NotAllowed(f"image {image_id} belongs to another project")
    return row


def image_row(tx: Tx, image_id: str) -> Row[Any]:
    """An image that is there, whoever's; raises `NotFound`."""
    row = tx.execute(FIND, {"image": image_id}).one_or_none()
    if row is None:
        raise NotFound(f"no image found with ID {image_id}")
    return row


def active_image(tx: Tx, image_id: str) -> Row[Any] | None:
    """An image that has its bytes, if it is still there."""
    return tx.execute(select(image).where(image.c.id == image_id, image.c.status == "active")).one_or_none()


def begin_snapshot(
    tx: Tx, project_id: str, move: str, name: str, base: str | None, properties: dict[str, Any]
) -> Row[Any]:
    """The image of a server's disk, queued or complete."""
    of = active_image(tx, base) if base else None
    values = {
        "id": snapshot_id(move),
        "project_id": project_id,
        "status": "queued",
        "name": name,
        "visibility": "private",
        "disk_format": of.disk_format if of else "raw",
        "container_format": of.container_format if of else "bare",
        "min_disk": of.min_disk if of else 0,
        "min_ram": of.min_ram if of else 0,
        "properties": {**(of.properties if of else {}), **properties, "base_image_ref": base or ""},
        "created_at": now(tx),
        "updated_at": now(tx),
    }
    tx.execute(insert(tx, image).values(values).on_conflict_do_nothing())
    return image_row(tx, snapshot_id(move))


def describe_snapshot(tx: Tx, move: str, properties: dict[str, Any]) -> Row[Any]:
    """An image that was announced, with what is known of it by now; raises `NotFound` if it is gone."""
    row = image_row(tx, snapshot_id(move))
    if row.status == "queued":
        known = {**row.properties, **properties}
        tx.execute(update(image).where(image.c.id == row.id).values(properties=known, updated_at=now(tx)))
    return row


def drop_snapshot(tx: Tx, project_id: str, image_id: str) -> bool:
    """Remove the row, if the project still has it; whether its bytes, if there are any, are nobody's."""
    mine = image.c.id == image_id, image.c.project_id == project_id
    tx.execute(delete(image).where(*mine))
    return tx.execute(select(image.c.id).where(image.c.id == image_id)).first() is None


def drop_oldest(tx: Tx, project_id: str, said: dict[str, str], most: int) -> list[str]:
    """Of the project's images that say all this of themselves keep the newest, so many; the ids of those
    that went. What is protected stays."""
    alike = (image.c.properties[name].as_string() == value for name, value in said.items())
    newest = select(image.c.id).where(image.c.project_id == project_id, *alike)
    newest = newest.order_by(image.c.created_at.desc(), image.c.id.desc())
    old = list(tx.execute(newest).scalars())[most:]
    gone = delete(image).where(image.c.id.in_(old), image.c.protected.is_(False))
    return list(tx.execute(gone.returning(image.c.id)).scalars())


def images_of(tx: Tx, actor: Actor, where: dict[str, Any], ids: list[str] | None = None) -> list[Row[Any]]:
    """The images that the actor may list, newest first. Community ones only when asked for."""
    mine = image.c.project_id == actor.project_id
    if where.get("visibility") == "community":
        seen = or_(mine, image.c.visibility == "community")
    else:
        seen = or_(mine, image.c.visibility == "public")
    if actor.is_admin and "visibility" not in where:
        seen = or_(seen, image.c.visibility != "community")
    wanted = select(image).where(seen, *(image.c[key] == value for key, value in where.items()))
    if ids is not None:
        wanted = wanted.where(image.c.id.in_(ids))
    return list(tx.execute(wanted.order_by(image.c.created_at.desc(), image.c.id.desc())))


def make(tx: Tx, project_id: str, **fields: Any) -> Row[Any]:
    """A new image without bytes; `WrongState` if the id that it asks for is taken."""
    values = {"id": clock_of(tx).new_id(), "created_at": now(tx), "updated_at": now(tx), **fields}
    made = insert(tx, image).values(project_id=project_id, status="queued", **values)
    row = tx.execute(made.on_conflict_do_nothing().returning(image)).one_or_none()
    if row is None:
        raise WrongState(f"image ID {values['id']} is in use")
    return row


def change(tx: Tx, actor: Actor, image_id: str, **fields: Any) -> Row[Any]:
    """Change what the image says of itself."""
    own_image(tx, actor, image_id)
    changed = update(image).where(image.c.id == image_id).values(updated_at=now(tx), **fields)
    row = tx.execute(changed.returning(image)).one_or_none()
    if row is None:
        raise NotFound(f"no image found with ID {image_id}")
    return row


def activate(tx: Tx, image_id: str, stored: Stored) -> None:
    """The image has these bytes from now on; only a queued one takes any."""
    queued = and_(image.c.id == image_id, image.c.status == "queued")
    done = update(image).where(queued)
    done = done.values(
        status="active",
        file=stored.file,
        size=stored.size,
        checksum=stored.checksum,
        os_hash_value=stored.os_hash_value,
        updated_at=now(tx),
    )
    if not tx.execute(done).rowcount:
        raise WrongState(f"image {image_id} is gone or has its data already")


def drop(tx: Tx, actor: Actor, image_id: str) -> None:
    """Remove the row. Its bytes are nobody's from now on."""
    row = own_image(tx, actor, image_id)
    if row.protected:
        raise NotAllowed(f"image {image_id} is protected and cannot be deleted")
    tx.execute(delete(image).where(image.c.id == image_id))


def files_named(tx: Tx) -> set[str]:
    """Every file that an image has."""
    return set(tx.execute(select(image.c.file).where(image.c.file.is_not(None))).scalars())
