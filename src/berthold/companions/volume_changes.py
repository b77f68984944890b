"""What an owner or an administrator changes of a volume: its size, its words, what is said of its state.

Each is one transaction that locks the volume's row first and looks then, so that of two changes
that meet the second sees what the first has made of it.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, select, update

from berthold.companions import quotas
from berthold.companions.schema import volume, volume_attachment, volume_snapshot
from berthold.companions.snapshots import pairs_from
from berthold.companions.volume import GIB, EmbeddedVolumes, volume_of
from berthold.errors import Malformed, NotFound, WrongState
from berthold.ledger.store import Tx, now
from berthold.neighbours import Actor

LARGEST_GIB = 65536


async def extend(volumes: EmbeddedVolumes, actor: Actor, volume_id: str, size: int) -> None:
    """Make a volume larger. Raises `Malformed` for a size that is none, `WrongState` for a volume that
    cannot grow now, `OverQuota`.

    The file grows first: what is beyond the volume's size is nobody's, if the row then is refused.
    """
    row = await volumes.store.read(may_extend, actor, volume_id, size)
    await volumes.work(lambda: volumes.files.grow(row.file, size * GIB))
    await volumes.store.write(write_size, actor, volume_id, size)


def may_extend(tx: Tx, actor: Actor, volume_id: str, size: int) -> Row[Any]:
    """The volume, if it may grow to this size as far as can be seen."""
    row = volume_of(tx, actor, volume_id)
    if row.status == "in-use":
        raise WrongState(f"volume {row.id} is in use, and cannot grow under a server here: detach it first")
    if row.status != "available":
        raise WrongState(f"volume {row.id} is {row.status}; only an available one can be extended")
    if not row.size < size <= LARGEST_GIB:
        raise Malformed(
            f"New size for extend must be greater than current size. (current: {row.size},"
            f" extended: {size}, at most {LARGEST_GIB})"
        )
    quotas.need_room(tx, row.project_id, per_volume_gigabytes=size, gigabytes=size - row.size)
    return row


def write_size(tx: Tx, actor: Actor, volume_id: str, size: int) -> None:
    """The volume is so large from now on; its project pays for the difference."""
    _locked(tx, volume_id)
    row = may_extend(tx, actor, volume_id, size)
    quotas.charge(tx, row.project_id, gigabytes=size - row.size)
    tx.execute(update(volume).where(volume.c.id == volume_id).values(size=size, updated_at=now(tx)))


def change(tx: Tx, actor: Actor, volume_id: str, fields: dict[str, Any]) -> None:
    """Change what the volume says of itself."""
    _locked(tx, volume_id)
    row = volume_of(tx, actor, volume_id)
    if "name" in fields and row.move_id is not None:
        raise Malformed("the volume was made for a server and keeps its name")
    tx.execute(update(volume).where(volume.c.id == volume_id).values(updated_at=now(tx), **fields))


def change_pairs(
    tx: Tx, actor: Actor, volume_id: str, pairs: dict[str, str], *, keep: bool
) -> dict[str, str]:
    """Set the volume's metadata to these, or add them to what it has; what it then has."""
    _locked(tx, volume_id)
    row = volume_of(tx, actor, volume_id)
    pairs = pairs_from(row.metadata, pairs, keep=keep)
    tx.execute(update(volume).where(volume.c.id == volume_id).values(metadata=pairs, updated_at=now(tx)))
    return pairs


def drop_pair(tx: Tx, actor: Actor, volume_id: str, key: str) -> None:
    """Take one item of the volume's metadata away; raises `NotFound`."""
    _locked(tx, volume_id)
    pairs = dict(volume_of(tx, actor, volume_id).metadata)
    if pairs.pop(key, None) is None:
        raise NotFound(f"volume {volume_id} has no metadata with key {key}")
    tx.execute(update(volume).where(volume.c.id == volume_id).values(metadata=pairs, updated_at=now(tx)))


def reset_status(tx: Tx, actor: Actor, volume_id: str, status: str) -> None:
    """Say that the volume is in a state; only in one that is true of its bytes and its server."""
    _locked(tx, volume_id)
    row = volume_of(tx, actor, volume_id)
    held = tx.execute(select(volume_attachment).where(volume_attachment.c.volume_id == volume_id)).first()
    if status == "available" and held:
        raise WrongState(f"volume {volume_id} is attached to server {held.server_id}: detach it first")
    if status == "in-use" and not held:
        raise WrongState(f"volume {volume_id} is attached to no server")
    if status != "error" and row.file is None:
        raise WrongState(f"volume {volume_id} has no data; it can only be deleted")
    tx.execute(update(volume).where(volume.c.id == volume_id).values(status=status, updated_at=now(tx)))


def need_no_snapshots(tx: Tx, actor: Actor, volume_id: str) -> None:
    """Whether its owner may delete the volume: not before the snapshots that he took of it."""
    row = volume_of(tx, actor, volume_id)
    taken = select(volume_snapshot.c.id).where(volume_snapshot.c.volume_id == row.id)
    if (one := tx.execute(taken.limit(1)).scalar_one_or_none()) is not None:
        raise WrongState(f"volume {volume_id} has snapshots (one is {one}): delete them first")


def _locked(tx: Tx, volume_id: str) -> None:
    tx.execute(select(volume.c.id).where(volume.c.id == volume_id).with_for_update()).first()
