"""Aggregates: operators' names for sets of hosts. One with `availability_zone` in its metadata
makes its hosts that zone; a host is in one zone at most. One with `filter_tenant_id` (and whatever
follows) in its metadata reserves its hosts for the servers of the projects that it names. Whatever else
it says is there for flavors to ask for.

Every change is announced as `hosts`: the scheduler may see any of them differently. None takes a host out
of a zone that the owner of a server there has asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, delete, select, update

from berthold.errors import NotFound, WrongState
from berthold.ledger import schema
from berthold.ledger.store import Tx, announce, clock_of, insert, now
from berthold.records.schema import aggregate, aggregate_host

Aggregate = Mapping[str, Any]
ZONE = "availability_zone"
RESERVED_FOR = "filter_tenant_id"  # and whatever follows: one key for each project, or a list


@dataclass(frozen=True)
class Bounds:
    """What aggregates say of hosts, by host name: the zone that it is in, for whose servers it is
    reserved, and every key and value beside. A host of which nothing is said is not there."""

    zones: Mapping[str, str]
    projects: Mapping[str, frozenset[str]]
    words: Mapping[str, frozenset[tuple[str, str]]]


def create(tx: Tx, name: str, zone: str | None) -> Aggregate:
    """A new aggregate without hosts. Raises `WrongState` when the name is taken."""
    statement = insert(tx, aggregate).values(
        id=clock_of(tx).new_id(),
        name=name,
        metadata={ZONE: zone} if zone else {},
        created_at=now(tx),
    )
    row = tx.execute(statement.on_conflict_do_nothing().returning(aggregate)).mappings().first()
    if row is None:
        raise WrongState(f"Aggregate {name} already exists.")
    return {**row, "hosts": []}


def every(tx: Tx) -> list[Aggregate]:
    """All aggregates with the names of their hosts, in two statements."""
    return _with_hosts(tx, None)


def get(tx: Tx, key: str) -> Aggregate:
    """The aggregate with this number or, as newer clients say, UUID. Raises `NotFound`."""
    found = _with_hosts(tx, _is(key))
    if not found:
        raise NotFound(f"Aggregate {key} could not be found.")
    return found[0]


def change(tx: Tx, key: str, *, name: str | None, zone: str | None) -> Aggregate:
    """Rename it, or name its zone. Raises `NotFound`, `WrongState`."""
    standing = _hold(tx, key)
    values: dict[str, Any] = {"updated_at": now(tx)}
    if name is not None:
        other = select(aggregate.c.number).where(aggregate.c.name == name)
        if tx.execute(other.where(aggregate.c.number != standing["number"])).first():
            raise WrongState(f"Aggregate {name} already exists.")
        values["name"] = name
    if zone is not None:
        values["metadata"] = {**standing["metadata"], ZONE: zone}
        _one_zone_each(tx, standing["number"], zone, standing["hosts"])
    with _wishes_kept(tx):
        tx.execute(update(aggregate).where(aggregate.c.number == standing["number"]).values(values))
    announce(tx, "hosts")
    return get(tx, key)


def set_metadata(tx: Tx, key: str, changes: Mapping[str, str | None]) -> Aggregate:
    """Merge `changes` into its metadata; None takes a key away. Raises `NotFound`, `WrongState`."""
    standing = _hold(tx, key)
    metadata = {k: v for k, v in {**standing["metadata"], **changes}.items() if v is not None}
    _one_zone_each(tx, standing["number"], metadata.get(ZONE), standing["hosts"])
    values = {"metadata": metadata, "updated_at": now(tx)}
    with _wishes_kept(tx):
        tx.execute(update(aggregate).where(aggregate.c.number == standing["number"]).values(values))
    announce(tx, "hosts")
    return get(tx, key)


def remove(tx: Tx, key: str) -> None:
    """Raises `NotFound`, `WrongState` while it has hosts."""
    standing = _hold(tx, key)
    if standing["hosts"]:
        raise WrongState(f"Cannot remove aggregate {standing['number']}: it is not empty.")
    tx.execute(delete(aggregate).where(aggregate.c.number == standing["number"]))


def add_host(tx: Tx, key: str, host: str) -> Aggregate:
    """Raises `NotFound` for the aggregate, `WrongState` when the host is in it or in another zone."""
    standing = _hold(tx, key)
    _one_zone_each(tx, standing["number"], standing["metadata"].get(ZONE), [host])
    statement = insert(tx, aggregate_host).values(aggregate=standing["number"], host_name=host)
    with _wishes_kept(tx):
        added = tx.execute(statement.on_conflict_do_nothing().returning(aggregate_host.c.host_name)).first()
    if added is None:
        raise WrongState(f"Aggregate {standing['number']} already has host {host}.")
    announce(tx, "hosts")
    return get(tx, key)


def remove_host(tx: Tx, key: str, host: str) -> Aggregate:
    """Raises `NotFound` for either, `WrongState` if servers there were asked for in the aggregate's zone."""
    standing = _hold(tx, key)
    statement = delete(aggregate_host).where(
        aggregate_host.c.aggregate == standing["number"], aggregate_host.c.host_name == host
    )
    with _wishes_kept(tx):
        removed = tx.execute(statement.returning(aggregate_host.c.host_name)).first()
    if removed is None:
        raise NotFound(f"Aggregate {standing['number']} has no host {host}.")
    announce(tx, "hosts")
    return get(tx, key)


def forget_host(tx: Tx, host: str) -> None:
    """The host is in no aggregate any more: it is gone."""
    tx.execute(delete(aggregate_host).where(aggregate_host.c.host_name == host))


def zones(tx: Tx) -> dict[str, str]:
    """The zone of each host (by name) that an aggregate gives one to."""
    joined = aggregate_host.join(aggregate, aggregate.c.number == aggregate_host.c.aggregate)
    rows = tx.execute(select(aggregate_host.c.host_name, aggregate.c.metadata).select_from(joined))
    return {row.host_name: row.metadata[ZONE] for row in rows if row.metadata.get(ZONE)}


def bounds(tx: Tx) -> Bounds:
    """What aggregates say of every host that is in one."""
    joined = aggregate_host.join(aggregate, aggregate.c.number == aggregate_host.c.aggregate)
    zones: dict[str, str] = {}
    projects: dict[str, frozenset[str]] = {}
    words: dict[str, frozenset[tuple[str, str]]] = {}
    for host, said in tx.execute(
        select(aggregate_host.c.host_name, aggregate.c.metadata).select_from(joined)
    ):
        if zone := said.get(ZONE):
            zones[host] = zone
        if reserved := _projects(said):
            projects[host] = projects.get(host, frozenset()) | reserved
        more = {(k, v) for k, v in said.items() if k != ZONE and not k.startswith(RESERVED_FOR)}
        if more:
            words[host] = words.get(host, frozenset()) | more
    return Bounds(zones, projects, words)


def _projects(said: Mapping[str, str]) -> frozenset[str]:
    """The projects for which an aggregate's metadata reserves its hosts."""
    lists = [value for key, value in said.items() if key.startswith(RESERVED_FOR)]
    return frozenset(each.strip() for value in lists for each in value.split(",") if each.strip())


def _one_zone_each(tx: Tx, number: int, zone: str | None, hosts: list[str]) -> None:
    """Raise `WrongState` if one of `hosts` would be in `zone` and in another one."""
    if not zone or not hosts:
        return
    joined = aggregate_host.join(aggregate, aggregate.c.number == aggregate_host.c.aggregate)
    rows = tx.execute(
        select(aggregate_host.c.host_name, aggregate.c.metadata)
        .select_from(joined)
        .where(aggregate_host.c.host_name.in_(hosts), aggregate.c.number != number)
    )
    for row in rows:
        other = row.metadata.get(ZONE)
        if other and other != zone:
            raise WrongState(f"Host {row.host_name} is already in availability zone {other}.")


@contextmanager
def _wishes_kept(tx: Tx) -> Iterator[None]:
    """Around a change; raises `WrongState` after one that gives a host another zone than servers that have a
    claim there were asked for in."""
    before = zones(tx)
    yield
    after = zones(tx)
    changed = [host for host in before.keys() | after.keys() if before.get(host) != after.get(host)]
    host, claim, server = schema.host, schema.claim, schema.server
    there = host.join(claim, claim.c.host_id == host.c.id).join(server, server.c.id == claim.c.server_id)
    wishes = (
        select(host.c.name, host.c.zone, server.c.zone).select_from(there).where(host.c.name.in_(changed))
    )
    for name, own, wanted in tx.execute(wishes.order_by(host.c.name)):
        if wanted == before.get(name, own) and wanted != after.get(name, own):
            raise WrongState(
                f"Host {name} has servers that were asked for in availability zone {wanted}: move them first."
            )


def _is(key: str) -> ColumnElement[bool]:
    """Whether `key` means a row: its number if it is one, else its UUID."""
    if key.isascii() and key.isdigit() and len(key) < 19:
        return aggregate.c.number == int(key)
    return aggregate.c.id == key


def _hold(tx: Tx, key: str) -> Aggregate:
    """The aggregate, its row held: changes of one aggregate come one after the other."""
    tx.execute(select(aggregate.c.number).where(_is(key)).with_for_update())
    return get(tx, key)


def _with_hosts(tx: Tx, where: ColumnElement[bool] | None) -> list[Aggregate]:
    statement = select(aggregate).order_by(aggregate.c.number)
    rows = tx.execute(statement if where is None else statement.where(where)).mappings().all()
    hosts: dict[int, list[str]] = {row["number"]: [] for row in rows}
    members = select(aggregate_host).where(aggregate_host.c.aggregate.in_(hosts))
    for member in tx.execute(members.order_by(aggregate_host.c.host_name)):
        hosts[member.aggregate].append(member.host_name)
    return [{**row, "hosts": hosts[row["number"]]} for row in rows]
