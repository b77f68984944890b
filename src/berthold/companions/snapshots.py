"""Snapshots of volumes: whole copies of their bytes.

A snapshot takes of its project's quota, `snapshots` and `gigabytes`, in the transaction that
begins it, and becomes `available` when its file is complete. It does not need its volume any
more from then on: a volume that is removed with its server leaves its snapshots behind.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from sqlalchemy import Row, and_, delete, select, update

from berthold.companions import quotas
from berthold.companions.files import Files, copy_sparse, storage_speaks
from berthold.companions.schema import volume_snapshot
from berthold.errors import Malformed, NotFound, Unavailable, WrongState
from berthold.ledger.store import Store, Tx, clock_of, insert, now
from berthold.neighbours import Actor

GIB = 1 << 30
MOST_PAIRS = 128


class Snapshots:
    """The copies, and the directory that they are in."""

    def __init__(self, store: Store, directory: Path) -> None:
        self.store = store
        self.files = Files(directory)

    async def take(self, of: Row[Any], path: Path, fields: dict[str, Any]) -> Row[Any]:
        """Copy a volume, `of`, whose bytes are at `path`. What fails leaves no snapshot. With an "id" in
        `fields` it may be repeated, at the same time too: the snapshot of that id is taken once, and
        what fails is left to whoever repeats it or undoes it."""
        row = await self.store.write(begin, of, fields)
        if row.status == "available":
            self.files.keep_only(row.id, row.file)
            return row
        name = f"{row.id}.{self.store.clock.new_id()}"
        try:
            if self.store.inline:
                self._copy(name, path, of.size * GIB)
            else:
                await asyncio.to_thread(self._copy, name, path, of.size * GIB)
            if await self.store.write(complete, row.id, name):
                self.files.keep_only(row.id, name)
            else:
                self.files.remove(name)
        except BaseException:
            # One that has its id from a move may be complete by now: another process went on with the move.
            if "id" not in fields:
                await self.delete(row.id)
            raise
        return await self.store.read(snapshot_row, row.id)

    async def delete(self, snapshot_id: str) -> None:
        """Remove a snapshot, then its bytes; nothing to do if it is gone."""
        await self.store.write(drop, snapshot_id)
        self.files.keep_only(snapshot_id)

    def _copy(self, name: str, path: Path, size: int) -> None:
        with self.files.making(name) as file, storage_speaks():
            try:
                original = path.open("rb")
            except FileNotFoundError as gone:
                raise Unavailable("the bytes to copy from are gone") from gone
            with original:
                copy_sparse(original, file, size)
            file.truncate(size)


# -- Looking ------------------------------------------------------------------------------


def snapshot_of(tx: Tx, actor: Actor, snapshot_id: str) -> Row[Any]:
    """A snapshot of the actor's project (an admin's: any); raises `NotFound`."""
    row = snapshot_row(tx, snapshot_id)
    if not (actor.is_admin or row.project_id == actor.project_id):
        raise _missing(snapshot_id)
    return row


def snapshot_row(tx: Tx, snapshot_id: str) -> Row[Any]:
    """A snapshot that is there, whoever's; raises `NotFound`."""
    wanted = select(volume_snapshot).where(volume_snapshot.c.id == snapshot_id)
    row = tx.execute(wanted).one_or_none()
    if row is None:
        raise _missing(snapshot_id)
    return row


def ready_snapshot(tx: Tx, snapshot_id: str) -> Row[Any]:
    """A snapshot that has its bytes; raises `NotFound` or `WrongState`."""
    row = snapshot_row(tx, snapshot_id)
    if row.status != "available":
        raise WrongState(f"snapshot {row.id} is {row.status}; it cannot be copied")
    return row


def snapshots_of(tx: Tx, project_id: str | None, where: dict[str, Any]) -> list[Row[Any]]:
    """The snapshots of a project (None: of all), newest first."""
    wanted = select(volume_snapshot).where(*(volume_snapshot.c[key] == value for key, value in where.items()))
    if project_id is not None:
        wanted = wanted.where(volume_snapshot.c.project_id == project_id)
    return list(tx.execute(wanted.order_by(volume_snapshot.c.created_at.desc(), volume_snapshot.c.id.desc())))


def files_named(tx: Tx) -> set[str]:
    """Every file that a snapshot has."""
    named = select(volume_snapshot.c.file).where(volume_snapshot.c.file.is_not(None))
    return set(tx.execute(named).scalars())


def _missing(snapshot_id: str) -> NotFound:
    return NotFound(f"snapshot {snapshot_id} could not be found")


# -- Changing -----------------------------------------------------------------------------


def begin(tx: Tx, of: Row[Any], fields: dict[str, Any]) -> Row[Any]:
    """A snapshot that is `creating`, of a volume as it was seen, or the one of that id as it is;
    `OverQuota` without room for it."""
    values = {"id": clock_of(tx).new_id(), "created_at": now(tx), "updated_at": now(tx), **fields}
    values |= {"project_id": of.project_id, "volume_id": of.id, "size": of.size, "status": "creating"}
    values |= {"bootable": of.bootable, "image_metadata": of.image_metadata}
    made = insert(tx, volume_snapshot).values(values).on_conflict_do_nothing(index_elements=["id"])
    row = tx.execute(made.returning(volume_snapshot)).one_or_none()
    if row is None:
        return snapshot_row(tx, values["id"])
    quotas.charge(tx, of.project_id, snapshots=1, gigabytes=of.size)
    return row


def complete(tx: Tx, snapshot_id: str, file: str) -> bool:
    """The snapshot has this file from now on. False if it is gone."""
    waits = and_(volume_snapshot.c.id == snapshot_id, volume_snapshot.c.status == "creating")
    done = update(volume_snapshot).where(waits).values(status="available", file=file, updated_at=now(tx))
    return bool(tx.execute(done).rowcount)


def change(tx: Tx, actor: Actor, snapshot_id: str, fields: dict[str, Any]) -> Row[Any]:
    """Change what the snapshot says of itself."""
    snapshot_of(tx, actor, snapshot_id)
    changed = update(volume_snapshot).where(volume_snapshot.c.id == snapshot_id)
    changed = changed.values(updated_at=now(tx), **fields)
    row = tx.execute(changed.returning(volume_snapshot)).one_or_none()
    if row is None:
        raise _missing(snapshot_id)
    return row


def pairs_from(has: dict[str, str], pairs: dict[str, str], *, keep: bool) -> dict[str, str]:
    """The metadata of a volume or a snapshot when these are set, or are added to what it `has`."""
    pairs = {**has, **pairs} if keep else pairs
    if len(pairs) > MOST_PAIRS:
        raise Malformed(f"a volume or a snapshot has at most {MOST_PAIRS} metadata items here")
    return pairs


def change_pairs(
    tx: Tx, actor: Actor, snapshot_id: str, pairs: dict[str, str], *, keep: bool
) -> dict[str, str]:
    """Set the snapshot's metadata to these, or add them to what it has; what it then has."""
    locked = select(volume_snapshot.c.id).where(volume_snapshot.c.id == snapshot_id)
    tx.execute(locked.with_for_update()).first()
    row = snapshot_of(tx, actor, snapshot_id)
    pairs = pairs_from(row.metadata, pairs, keep=keep)
    change(tx, actor, snapshot_id, {"metadata": pairs})
    return pairs


def drop(tx: Tx, snapshot_id: str) -> None:
    """Remove the row, if it is there. Its bytes are nobody's from now on."""
    gone = delete(volume_snapshot).where(volume_snapshot.c.id == snapshot_id).returning(volume_snapshot)
    row = tx.execute(gone).one_or_none()
    if row is not None:
        quotas.give_back(tx, row.project_id, snapshots=1, gigabytes=row.size)
