"""Block storage: volumes as rows and sparse files.

A volume is `creating` until its file is complete; then one guarded write makes it
`available`. One that is made for a move is `creating` until that move has attached it: nobody
else gets it before. It is attached to one server at most, which a constraint keeps. What a move
asks for it may ask again: it gets the same volume, and one that was deleted since is not
made a second time. A volume takes of its project's quota in the transaction that begins it
and gives the same back in the one that removes it (Q1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Row, and_, case, delete, or_, select, update

from berthold.companions import quotas
from berthold.companions.files import Files, copy_sparse, storage_speaks
from berthold.companions.image import EmbeddedImages, image_of
from berthold.companions.schema import image, volume, volume_attachment, volume_parting
from berthold.companions.snapshots import Snapshots, ready_snapshot, snapshot_of
from berthold.errors import Failure, Malformed, NotFound, Unavailable, WrongState
from berthold.ledger.store import Store, Tx, clock_of, insert, now
from berthold.neighbours import Actor, Volume, VolumeSnapshot, volume_snapshot_id

T = TypeVar("T")

GIB = 1 << 30
VOLUME_TYPE = "file"
READY = ("available", "in-use")


@dataclass(frozen=True)
class Source:
    """What a volume begins as a copy of, of how many of its bytes, and what the row then says of it."""

    path: Path | None = None
    most: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)


class EmbeddedVolumes:
    """`neighbours.Volumes` on our own tables and a directory of files."""

    def __init__(self, store: Store, directory: Path, images: EmbeddedImages) -> None:
        self.store = store
        self.files = Files(directory)
        self.images = images
        self.snapshots = Snapshots(store, directory.with_name("snapshots"))

    async def get(self, actor: Actor, volume_id: str) -> Volume:
        row = await self.store.read(volume_of, actor, volume_id)
        holder = await self.store.read(attachments_of, [row.id])
        return volume_from(row, holder.get(row.id))

    async def create(
        self,
        project_id: str,
        move: str,
        *,
        name: str,
        size: int,
        image_id: str | None = None,
        snapshot_id: str | None = None,
        volume_type: str | None = None,
    ) -> Volume:
        if volume_type not in (None, VOLUME_TYPE):
            raise NotFound(f"volume type {volume_type} could not be found")
        fields = {"name": name, "size": size, "image_id": image_id, "snapshot_id": snapshot_id}
        row = await self.store.write(begin, project_id, move, fields)
        if row.status == "deleted":
            raise WrongState(f"volume {name!r} of move {move} was deleted; it is not made again")
        if row.file is None:
            await self.fill(row)
        else:
            self.files.keep_only(row.id, row.file)
        row = await self.store.read(volume_row, row.id)
        return volume_from(row, None)

    async def undo_create(self, project_id: str, move: str, *, name: str, server_id: str) -> None:
        if gone := await self.store.write(undo_begin, project_id, move, name, server_id):
            self.files.keep_only(gone)

    async def get_snapshot(self, actor: Actor, snapshot_id: str) -> VolumeSnapshot:
        return snapshot_from(await self.store.read(snapshot_of, actor, snapshot_id))

    async def snapshot(self, volume_id: str, move: str, *, name: str) -> VolumeSnapshot:
        row = await self.store.read(volume_row, volume_id)
        if row.status not in READY:
            raise WrongState(f"volume {row.id} is {row.status}; no snapshot can be taken of it")
        fields = {"id": volume_snapshot_id(move, volume_id), "name": name}
        return snapshot_from(await self.snapshots.take(row, self.path(row), fields))

    async def undo_snapshot(self, volume_id: str, move: str) -> None:
        await self.snapshots.delete(volume_snapshot_id(move, volume_id))

    async def fill(self, row: Row[Any]) -> None:
        """Write a volume's bytes, as its row asks, and let it be used. May be repeated."""
        name = f"{row.id}.{self.store.clock.new_id()}"
        source = await self._source(row)
        await self.work(lambda: self._write(name, row.size, source))
        if await self.store.write(complete, row.id, name, source.facts):
            self.files.keep_only(row.id, name)
        else:
            self.files.remove(name)

    async def attach(
        self, volume_id: str, server_id: str, move: str, *, device: str, mode: str = "rw"
    ) -> dict[str, Any]:
        return await self.store.write(attach, volume_id, server_id, device, mode, move)

    async def undo_attach(self, volume_id: str, server_id: str, move: str) -> None:
        await self.store.write(undo_attach, volume_id, server_id, move)

    async def detach(
        self, volume_id: str, server_id: str, *, attachment_id: str | None = None, for_good: bool = False
    ) -> None:
        await self.store.write(detach, volume_id, server_id, for_good, attachment_id)

    async def delete(self, volume_id: str) -> None:
        await self.store.write(drop, volume_id)
        self.files.keep_only(volume_id)

    def path(self, row: Row[Any]) -> Path:
        """Where a volume's bytes are."""
        return self.files.path(row.file)

    async def _source(self, row: Row[Any]) -> Source:
        if row.image_id:
            of = await self.store.read(_image_row, row.image_id)
            if of is None or of.status != "active":
                raise NotFound(f"image {row.image_id} is gone or has no data")
            facts = {"bootable": True, "image_metadata": told_of(of)}
            return Source(self.images.files.path(of.file), None, facts)
        if row.snapshot_id:
            of = await self.store.read(ready_snapshot, row.snapshot_id)
            return Source(self.snapshots.files.path(of.file), of.size * GIB, _facts_of(of))
        if row.source_id:
            of = await self.store.read(volume_row, row.source_id)
            if of.status not in READY:
                raise WrongState(f"volume {of.id} is {of.status}; it cannot be copied")
            # A file may be longer than its volume, after an extension that was refused.
            return Source(self.files.path(of.file), of.size * GIB, _facts_of(of))
        return Source()

    def _write(self, name: str, size: int, source: Source) -> None:
        with self.files.making(name) as file, storage_speaks():
            if source.path is not None:
                try:
                    original = source.path.open("rb")
                except FileNotFoundError as gone:
                    raise Unavailable("the bytes to copy from are gone") from gone
                with original:
                    copy_sparse(original, file, source.most)
            if file.tell() > size * GIB:
                raise Malformed(f"what it is to hold is larger than {size} GiB")
            file.truncate(size * GIB)

    async def work(self, f: Callable[[], T]) -> T:
        """File work: in a thread, except where everything runs in the caller's turn."""
        return f() if self.store.inline else await asyncio.to_thread(f)


def volume_from(row: Row[Any], holder: Row[Any] | None) -> Volume:
    """A row as moves and the compute API see it."""
    return Volume(
        id=row.id,
        name=row.name or "",
        status=row.status,
        size=row.size,
        bootable=row.bootable,
        image_id=row.image_id,
        server_id=holder.server_id if holder is not None else None,
    )


def snapshot_from(row: Row[Any]) -> VolumeSnapshot:
    """A snapshot's row as moves and the compute API see it."""
    return VolumeSnapshot(row.id, row.volume_id, row.status, row.size, row.bootable)


def _facts_of(of: Row[Any]) -> dict[str, Any]:
    return {"bootable": of.bootable, "image_metadata": of.image_metadata}


def told_of(of: Row[Any]) -> dict[str, Any]:
    """What a volume remembers of the image that it was made from; all values are text."""
    told = {
        "image_id": of.id,
        "image_name": of.name,
        "checksum": of.checksum,
        "container_format": of.container_format,
        "disk_format": of.disk_format,
        "min_disk": of.min_disk,
        "min_ram": of.min_ram,
        "size": of.size,
        **of.properties,
    }
    return {key: str(value) for key, value in told.items() if value is not None}


# -- Looking ------------------------------------------------------------------------------


def volume_of(tx: Tx, actor: Actor, volume_id: str) -> Row[Any]:
    """A volume of the actor's project (an admin's: any); raises `NotFound`."""
    row = volume_row(tx, volume_id)
    if not (actor.is_admin or row.project_id == actor.project_id):
        raise _missing(volume_id)
    return row


def volume_row(tx: Tx, volume_id: str) -> Row[Any]:
    """A volume that is there, whoever's; raises `NotFound`."""
    there = and_(volume.c.id == volume_id, volume.c.status != "deleted")
    row = tx.execute(select(volume).where(there)).one_or_none()
    if row is None:
        raise _missing(volume_id)
    return row


def volumes_of(tx: Tx, project_id: str | None, where: dict[str, Any]) -> list[Row[Any]]:
    """The volumes of a project (None: of all), newest first."""
    wanted = select(volume).where(volume.c.status != "deleted")
    if project_id is not None:
        wanted = wanted.where(volume.c.project_id == project_id)
    wanted = wanted.where(*(volume.c[key] == value for key, value in where.items()))
    return list(tx.execute(wanted.order_by(volume.c.created_at.desc(), volume.c.id.desc())))


def attachments_of(tx: Tx, volume_ids: list[str]) -> dict[str, Row[Any]]:
    """Who has these volumes."""
    chosen = volume_attachment.c.volume_id.in_(volume_ids)
    return {row.volume_id: row for row in tx.execute(select(volume_attachment).where(chosen))}


def files_named(tx: Tx) -> set[str]:
    """Every file that a volume has."""
    return set(tx.execute(select(volume.c.file).where(volume.c.file.is_not(None))).scalars())


def _image_row(tx: Tx, image_id: str) -> Row[Any] | None:
    return tx.execute(select(image).where(image.c.id == image_id)).one_or_none()


def _missing(volume_id: str) -> Failure:
    return NotFound(f"volume {volume_id} could not be found")


# -- Changing -----------------------------------------------------------------------------


def begin(tx: Tx, project_id: str, move_id: str | None, fields: dict[str, Any]) -> Row[Any]:
    """A volume that is `creating`, or the one that this move began before, as it is now."""
    first = and_(volume.c.move_id == move_id, volume.c.name == fields["name"])
    if move_id is not None and (row := tx.execute(select(volume).where(first)).one_or_none()) is not None:
        return row
    owner = Actor(user_id="", user_name="", project_id=project_id, project_name="")
    if fields.get("image_id"):
        image_of(tx, owner, fields["image_id"])
    if move_id is not None and fields.get("snapshot_id"):
        snapshot_of(tx, owner, fields["snapshot_id"])
    values = {"id": clock_of(tx).new_id(), "created_at": now(tx), "updated_at": now(tx), **fields}
    made = insert(tx, volume).values(project_id=project_id, status="creating", move_id=move_id, **values)
    made = made.on_conflict_do_nothing(index_elements=["move_id", "name"]).returning(volume)
    row = tx.execute(made).one_or_none()
    if row is None:
        return tx.execute(select(volume).where(first)).one()
    quotas.need_room(tx, project_id, per_volume_gigabytes=row.size)
    quotas.charge(tx, project_id, volumes=1, gigabytes=row.size)
    return row


def undo_begin(tx: Tx, project_id: str, move_id: str, name: str, server_id: str) -> str | None:
    """Remove what the move made under this name for the server; if it made none, it never will. The id
    of what is gone; None for what another server has been given since, which stays there."""
    stone = {"id": clock_of(tx).new_id(), "created_at": now(tx), "updated_at": now(tx), "size": 1}
    never = insert(tx, volume).values(
        project_id=project_id, move_id=move_id, name=name, status="deleted", **stone
    )
    tx.execute(never.on_conflict_do_nothing(index_elements=["move_id", "name"]))
    made = select(volume.c.id).where(volume.c.move_id == move_id, volume.c.name == name)
    volume_id: str = tx.execute(made).scalar_one()
    undo_attach(tx, volume_id, server_id, move_id)
    if attachments_of(tx, [volume_id]):
        return None
    drop(tx, volume_id)
    return volume_id


def complete(tx: Tx, volume_id: str, file: str, facts: dict[str, Any]) -> bool:
    """The volume has this file from now on. False if it has another, or is gone."""
    waits = and_(volume.c.id == volume_id, volume.c.status == "creating", volume.c.file.is_(None))
    status = case((volume.c.move_id.is_(None), "available"), else_="creating")
    done = update(volume).where(waits).values(status=status, file=file, updated_at=now(tx), **facts)
    return bool(tx.execute(done).rowcount)


def attach(
    tx: Tx, volume_id: str, server_id: str, device: str, mode: str, move_id: str | None = None
) -> dict[str, Any]:
    """The server has the volume from now on, or has it already; raises `WrongState`."""
    is_free = volume.c.status == "available"
    if move_id is not None:
        made_for_it = (volume.c.move_id == move_id) & volume.c.file.is_not(None)
        is_free = or_(is_free, and_(volume.c.status == "creating", made_for_it))
    free = and_(volume.c.id == volume_id, is_free)
    taken = update(volume).where(free).values(status="in-use", updated_at=now(tx))
    if not tx.execute(taken).rowcount:
        row = volume_row(tx, volume_id)
        holder = attachments_of(tx, [volume_id]).get(volume_id)
        if holder is None or holder.server_id != server_id:
            raise WrongState(f"volume {volume_id} is {row.status}; it cannot be attached")
        return _answer(holder)
    for_whom = [server_id, *([move_id] if move_id else [])]
    parted = and_(volume_parting.c.volume_id == volume_id, volume_parting.c.server_id.in_(for_whom))
    if tx.execute(select(volume_parting).where(parted)).first():
        raise WrongState(f"server {server_id} has given volume {volume_id} back for good")
    given = insert(tx, volume_attachment).values(
        volume_id=volume_id,
        id=clock_of(tx).new_id(),
        server_id=server_id,
        device=device,
        mode=mode,
        attached_at=now(tx),
    )
    return _answer(tx.execute(given.returning(volume_attachment)).one())


def _answer(row: Row[Any]) -> dict[str, Any]:
    return {"attachment_id": row.id, "volume_id": row.volume_id, "device": row.device}


def undo_attach(tx: Tx, volume_id: str, server_id: str, move_id: str) -> None:
    """The server has not got the volume any more, and never gets it for this move."""
    _part(tx, volume_id, server_id, for_good=move_id)


def detach(tx: Tx, volume_id: str, server_id: str, for_good: bool, attachment_id: str | None = None) -> None:
    """The server has not got the volume any more; `for_good`: and never gets it again."""
    _part(tx, volume_id, server_id, for_good=server_id if for_good else None, attachment_id=attachment_id)


def _part(
    tx: Tx, volume_id: str, server_id: str, *, for_good: str | None, attachment_id: str | None = None
) -> None:
    # The volume's row is locked first, as attaching does, so that the two queue up.
    locked = update(volume).where(volume.c.id == volume_id).values(updated_at=now(tx))
    if not tx.execute(locked).rowcount:
        return
    if for_good:
        stone = insert(tx, volume_parting).values(volume_id=volume_id, server_id=for_good, parted_at=now(tx))
        tx.execute(stone.on_conflict_do_nothing())
    mine = and_(volume_attachment.c.volume_id == volume_id, volume_attachment.c.server_id == server_id)
    if attachment_id:
        mine = and_(mine, volume_attachment.c.id == attachment_id)
    if tx.execute(delete(volume_attachment).where(mine)).rowcount:
        in_use = and_(volume.c.id == volume_id, volume.c.status == "in-use")
        tx.execute(update(volume).where(in_use).values(status="available"))


def drop(tx: Tx, volume_id: str) -> None:
    """Remove a volume that nobody has; nothing to do if it is gone. Its bytes are nobody's from now on."""
    locked = update(volume).where(volume.c.id == volume_id).values(updated_at=now(tx)).returning(volume)
    row = tx.execute(locked).one_or_none()
    if row is None or row.status == "deleted":
        return
    if row.status == "in-use" or attachments_of(tx, [volume_id]):
        raise WrongState(f"volume {volume_id} is in use; detach it first")
    if row.move_id is None:
        tx.execute(delete(volume_parting).where(volume_parting.c.volume_id == volume_id))
        tx.execute(delete(volume).where(volume.c.id == volume_id))
    else:
        tx.execute(update(volume).where(volume.c.id == volume_id).values(status="deleted", file=None))
    quotas.give_back(tx, row.project_id, volumes=1, gigabytes=row.size)
