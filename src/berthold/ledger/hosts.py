"""Hosts: who they are, whether they may act, and the lock that every claim takes first.

M5: a host acts at an epoch. Registering and fencing raise it, and whatever carries an older
one is refused. M1: a host that was fenced comes back as `cleaning` and takes nothing until
all that it left behind is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, delete, exists, func, select, update

from berthold.errors import Malformed, NotFound, Refused, WrongState
from berthold.ledger import inventories, outbox, schema
from berthold.ledger.conditions import IS_UNFINISHED
from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Insert, Tx, clock_of, now

host = schema.host
claim = schema.claim

one_host = select(host.c.id, host.c.name, host.c.status, host.c.disabled, host.c.epoch).where(
    host.c.id == bindparam("host")
)
LOCK = Prepared(one_host.with_for_update())
SHARE = Prepared(one_host.with_for_update(read=True))
HEARD = Insert(
    schema.heartbeat,
    lambda row: row.on_conflict_do_update(
        index_elements=["host_id"], set_={"heard_at": row.excluded.heard_at}
    ),
)


@dataclass(frozen=True)
class Locked:
    """A host whose row this transaction holds."""

    id: str
    name: str
    status: str
    epoch: int


def lock(tx: Tx, host_id: str, *, epoch: int | None = None, must_be_up: bool = True) -> Locked:
    """Hold the host's row until the transaction ends.

    Raises `NotFound`, and `Refused` M5 when the host may not be given anything: it is not up,
    it is disabled, or its epoch is not `epoch` any more.
    """
    row = LOCK.row(tx, {"host": host_id})
    if row is None:
        raise NotFound(f"Compute host {host_id} could not be found.")
    _, name, status, disabled, present = row
    if must_be_up and status != "up":
        raise Refused("M5", f"host {name} is {status}")
    if must_be_up and disabled:
        raise Refused("M5", f"host {name} is disabled")
    if epoch is not None and present != epoch:
        raise Refused("M5", f"host {name} is at epoch {present}, not {epoch}")
    return Locked(host_id, name, status, present)


def register(
    tx: Tx,
    *,
    name: str,
    key: str,
    offers: Mapping[str, Mapping[str, float]],
    traits: Iterable[str] = (),
    facts: Mapping[str, Any] | None = None,
    zone: str = "nova",
) -> Locked:
    """An agent introduces its host: a new host, or an old one at a new epoch.

    Asks that nobody has answered are for the new epoch from now on. Raises `Refused` M5 when
    another machine (another `key`) already holds servers under this name, or this machine under
    another: a server whose host seems dead would be made anew while it runs here. Where nothing is
    claimed under its former name the machine has the new one, and an agent of the former is fenced.
    """
    known = tx.execute(select(host.c.id).where(host.c.name == name)).scalar()
    former = tx.execute(select(host.c.id).where(host.c.agent_key == key, host.c.name != name)).scalar()
    both = sorted(each for each in (known, former) if each is not None)
    held = {each: lock(tx, each, must_be_up=False) for each in both}
    if former is not None:
        _rename(tx, held[former], key)
    if known is None:
        known = _introduce(tx, name, key, zone)
        held[known] = lock(tx, known, must_be_up=False)
    locked = held[known]
    standing = tx.execute(select(host.c.agent_key).where(host.c.id == known)).scalar()
    if standing != key and _has_claims(tx, known):
        raise Refused(
            "M5",
            f"another machine is registered as {name} and servers are claimed there; give this one"
            " another name, or move or evacuate those servers first",
        )
    epoch = locked.epoch + 1
    tx.execute(
        update(host)
        .where(host.c.id == known)
        .values(epoch=epoch, agent_key=key, zone=zone, facts=dict(facts or {}), updated_at=now(tx))
    )
    outbox.readdress(tx, known, epoch)
    inventories.set_inventory(tx, known, offers)
    inventories.set_traits(tx, known, traits)
    heard(tx, [known])
    return Locked(known, name, come_back(tx, known), epoch)


def _rename(tx: Tx, former: Locked, key: str) -> None:
    """The machine is not this host any more, which the caller holds. Raises `Refused` M5."""
    if _has_claims(tx, former.id):
        raise Refused(
            "M5",
            f"this machine is registered as {former.name} and servers are claimed there; start its agent"
            " under that name, or move those servers first",
        )
    nobodys = f"no machine since {clock_of(tx).new_id()}"
    mine = (host.c.id == former.id) & (host.c.agent_key == key)
    tx.execute(update(host).where(mine).values(agent_key=nobodys, epoch=former.epoch + 1, updated_at=now(tx)))


def _has_claims(tx: Tx, host_id: str) -> bool:
    return bool(tx.execute(select(exists().where(claim.c.host_id == host_id))).scalar())


def _introduce(tx: Tx, name: str, key: str, zone: str) -> str:
    new = clock_of(tx).new_id()
    inventories.make_provider(tx, new, name)
    tx.execute(
        host.insert().values(
            id=new,
            name=name,
            status="up",
            epoch=0,
            agent_key=key,
            zone=zone,
            created_at=now(tx),
            updated_at=now(tx),
        )
    )
    return new


def heard(tx: Tx, host_ids: Iterable[str]) -> None:
    """These hosts were heard just now. One statement for all of them."""
    rows = [{"host_id": each, "heard_at": clock_of(tx).now()} for each in sorted(set(host_ids))]
    if not rows:
        return
    tx.execute(HEARD(tx), rows)


def any_unheard(tx: Tx, since: float) -> bool:
    """Whether a host that might take servers has not been heard since then."""
    beat = schema.heartbeat
    waited_for = (
        select(host.c.id)
        .select_from(host.outerjoin(beat, beat.c.host_id == host.c.id))
        .where(host.c.status == "up", ~host.c.disabled, func.coalesce(beat.c.heard_at, 0.0) < since)
    )
    return tx.execute(waited_for.limit(1)).first() is not None


def check_epoch(tx: Tx, host_id: str, epoch: int) -> None:
    """Raises `Refused` M5 unless the host acts at `epoch` now and until this transaction ends."""
    row = SHARE.mapping(tx, {"host": host_id})
    if row is None or row["epoch"] != epoch:
        raise Refused("M5", f"this host's epoch {epoch} is over; register anew")


def set_disabled(tx: Tx, host_id: str, disabled: bool, reason: str | None = None) -> None:
    """The operator's wish that the host gets no new servers, or gets them again."""
    lock(tx, host_id, must_be_up=False)
    tx.execute(
        update(host)
        .where(host.c.id == host_id)
        .values(disabled=disabled, disabled_reason=reason if disabled else None, updated_at=now(tx))
    )
    inventories.raise_generation(tx, host_id)


def fence(tx: Tx, host_id: str) -> None:
    """M5: from now on the host cannot act; whatever it says at its old epoch is refused."""
    lock(tx, host_id, must_be_up=False)
    _set_status(tx, host_id, "fenced", epoch=host.c.epoch + 1)


def is_silent(tx: Tx, host_id: str, since: float) -> bool:
    """Whether nobody has heard of the host since that moment."""
    heard_at = schema.heartbeat.c.heard_at
    last = tx.execute(select(heard_at).where(schema.heartbeat.c.host_id == host_id)).scalar()
    return last is None or last < since


def any_heard(tx: Tx, since: float) -> bool:
    """Whether any host was heard since that moment."""
    beats = schema.heartbeat.c
    return tx.execute(select(beats.host_id).where(beats.heard_at >= since).limit(1)).first() is not None


def unfence(tx: Tx, host_id: str) -> None:
    """An operator lets the host act again. Raises `Malformed` (400, as Nova) while servers are being
    evacuated from it, and until all that it left behind is known to be gone."""
    locked = lock(tx, host_id, must_be_up=False)
    if _is_being_evacuated(tx, host_id):
        raise Malformed(f"Unable to force up host {locked.name}: servers are being evacuated from it.")
    if _left_something(tx, host_id):
        raise Malformed(
            f"Unable to force up host {locked.name}: evacuated servers are not yet removed from it. Start"
            " its agent, which removes them, or delete the service if the host will never return."
        )
    _set_status(tx, host_id, "up", epoch=host.c.epoch + 1)


def come_back(tx: Tx, host_id: str) -> str:
    """The fenced host's agent is back: the host is `cleaning` if it has left something behind, else as
    it was; its status. While servers are being evacuated from it, it stays fenced."""
    locked = lock(tx, host_id, must_be_up=False)
    if locked.status != "fenced" or not _left_something(tx, host_id) or _is_being_evacuated(tx, host_id):
        return locked.status
    _set_status(tx, host_id, "cleaning")
    return "cleaning"


def must_clean(tx: Tx, host_id: str) -> None:
    """Something was left behind on a host that is back already: it takes nothing until that is gone."""
    if lock(tx, host_id, must_be_up=False).status == "up":
        _set_status(tx, host_id, "cleaning")


def cleaned(tx: Tx, host_id: str) -> bool:
    """Something that was left behind is gone: if it was the last and the host is back, the host is up
    again; whether it is."""
    locked = lock(tx, host_id, must_be_up=False)
    if locked.status != "cleaning" or _left_something(tx, host_id):
        return False
    _set_status(tx, host_id, "up")
    return True


# Each of these looks in a statement of its own after the one that locked the host: a statement that
# waited for the lock would still see what was there before.


def _left_something(tx: Tx, host_id: str) -> bool:
    left = exists().where(claim.c.host_id == host_id, claim.c.role == "left")
    return bool(tx.execute(select(left)).scalar())


def _is_being_evacuated(tx: Tx, host_id: str) -> bool:
    move = schema.move.c
    under_way = select(move.id).where(move.source_id == host_id, move.kind == "evacuation", IS_UNFINISHED)
    return bool(tx.execute(select(under_way.exists())).scalar())


def _set_status(tx: Tx, host_id: str, status: str, **columns: Any) -> None:
    changed = update(host).where(host.c.id == host_id)
    tx.execute(changed.values(status=status, updated_at=now(tx), **columns))
    inventories.raise_generation(tx, host_id)


def remove(tx: Tx, host_id: str) -> None:
    """Forget a host. Raises `WrongState` while a server is claimed there or a move comes from or goes
    to it (M1: what it may be running would be forgotten with it), `NotFound`."""
    locked = lock(tx, host_id, must_be_up=False)
    move = schema.move.c
    if tx.execute(select(exists().where(claim.c.host_id == host_id))).scalar():
        raise WrongState(f"Compute host {locked.name} still has servers, or what it left behind of some.")
    concerns = (move.source_id == host_id) | (move.target_id == host_id)
    if tx.execute(select(exists().where(IS_UNFINISHED, concerns))).scalar():
        raise WrongState(f"Unable to delete compute host {locked.name}: migrations of servers use it.")
    tx.execute(delete(schema.heartbeat).where(schema.heartbeat.c.host_id == host_id))
    tx.execute(delete(host).where(host.c.id == host_id))
    inventories.remove_provider(tx, host_id)


def by_name(tx: Tx, name: str) -> str:
    """The id of the host called `name`. Raises `NotFound`."""
    found: str | None = tx.execute(select(host.c.id).where(host.c.name == name)).scalar()
    if found is None:
        raise NotFound(f"Compute host {name} could not be found.")
    return found
