"""What is true, as one reads it: servers with their home and move, groups with their members,
hosts with what they offer.

Nothing here writes. A page costs a constant number of statements, however many rows it has.
Whoever passes a `project_id` is shown that project's things only; what belongs to another is
not found, in the same words as what never was (T1).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, bindparam, func, literal, or_, select

from berthold.errors import Malformed, NotFound
from berthold.ledger import schema
from berthold.ledger.conditions import IS_UNFINISHED
from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Tx

Row = dict[str, Any]

server, claim, host, move = schema.server, schema.claim, schema.host, schema.move
heartbeat, group_table, inventory = schema.heartbeat, schema.server_group, schema.inventory

BATCH = 1000
# A filter that only Python can judge looks at this many servers at most.
JUDGED_MAX = 50_000

# -- Servers ------------------------------------------------------------------------------

_HOST = [host.c[name] for name in ("id", "name", "status", "disabled", "zone")] + [heartbeat.c.heard_at]

# What servers may be sorted by. What may be NULL counts as empty, so that pages have an order.
SORT_KEYS: dict[str, ColumnElement[Any]] = {
    "created_at": server.c.created_at,
    "updated_at": server.c.updated_at,
    "launched_at": func.coalesce(server.c.launched_at, 0.0),
    "display_name": server.c.name,
    "display_description": func.coalesce(server.c.description, ""),
    "uuid": server.c.id,
    "host": func.coalesce(host.c.name, ""),
    "node": func.coalesce(host.c.name, ""),
    "vm_state": server.c.condition,
    "project_id": server.c.project_id,
    "user_id": server.c.user_id,
    "image_ref": func.coalesce(server.c.image_id, ""),
    "key_name": func.coalesce(server.c.key_name, ""),
    "availability_zone": func.coalesce(host.c.zone, server.c.zone, ""),
    "locked": server.c.locked,
    "instance_type_id": server.c.flavor["id"].as_string(),
}


@dataclass(frozen=True)
class ServersWanted:
    """Which servers. `equal`: column -> value. `name_like` is a LIKE pattern with `\\` before what is meant
    literally. `judge` sees the whole record and decides what SQL cannot."""

    project_id: str | None = None
    deleted: bool | None = False  # None: both
    soft_deleted: bool = False  # whether also those that may still be restored
    equal: Mapping[str, Any] = field(default_factory=dict)
    host: str | None = None
    flavor_id: str | None = None
    name_like: str | None = None
    changed_since: float | None = None
    changed_before: float | None = None
    judge: Callable[[Row], bool] | None = None


def server_of(tx: Tx, server_id: str, project_id: str | None, *, deleted: bool = False) -> Row:
    """One server with `host` (its home) and `move` (its unfinished one); either may be None.

    Raises `NotFound`.
    """
    row = _ONE.row(tx, {"server": server_id})
    found = _server(row) if row is not None else {}
    gone = found.get("deleted_at") is not None and not deleted
    if not found or gone or project_id not in (None, found["project_id"]):
        raise NotFound(f"Instance {server_id} could not be found.")
    return found


def servers(
    tx: Tx,
    wanted: ServersWanted,
    *,
    sort: Sequence[tuple[str, bool]] = (("created_at", True),),
    limit: int,
    marker: str | None = None,
) -> list[Row]:
    """A page of servers as `server_of` gives them. Raises `Malformed` for an unknown marker."""
    order = [*((SORT_KEYS[key], down) for key, down in sort), (server.c.id, sort[-1][1])]
    beyond = _beyond(order, _place_of(tx, marker, wanted, order)) if marker is not None else None
    found: list[Row] = []
    judged = 0
    while len(found) < limit:
        size = BATCH if wanted.judge else limit
        statement = _servers(*(key for key, _ in order)).where(*_matching(wanted)).limit(size)
        if beyond is not None:
            statement = statement.where(beyond)
        rows = tx.execute(
            statement.order_by(*(key.desc() if down else key.asc() for key, down in order))
        ).all()
        records = [_server(row) for row in rows]
        found += filter(wanted.judge, records) if wanted.judge else records
        if len(rows) < size or not wanted.judge:
            break
        judged += len(rows)
        if judged >= JUDGED_MAX:
            raise Malformed(
                f"This filter would look at more than {JUDGED_MAX} servers; narrow it by project or host."
            )
        beyond = _beyond(order, rows[-1][-len(order) :])
    return found[:limit]


def _servers(*more: Any) -> Select[Any]:
    """Servers with home, its heartbeat and unfinished move, one row each."""
    return (
        select(*server.c, *_HOST, *move.c, *more)
        .select_from(server)
        .outerjoin(claim, and_(claim.c.server_id == server.c.id, claim.c.role == "home"))
        .outerjoin(host, host.c.id == claim.c.host_id)
        .outerjoin(heartbeat, heartbeat.c.host_id == host.c.id)
        .outerjoin(move, and_(move.c.server_id == server.c.id, IS_UNFINISHED))
    )


_ONE = Prepared(_servers().where(server.c.id == bindparam("server")))


def _server(row: Sequence[Any]) -> Row:
    columns, hosts = len(server.c), len(_HOST)
    record = dict(zip(server.c.keys(), row, strict=False))
    home = dict(zip((c.name for c in _HOST), row[columns:], strict=False))
    under_way = dict(zip(move.c.keys(), row[columns + hosts :], strict=False))
    record["host"] = home if home["id"] is not None else None
    record["move"] = under_way if under_way["id"] is not None else None
    return record


def _matching(wanted: ServersWanted) -> list[ColumnElement[bool]]:
    where: list[ColumnElement[bool]] = [server.c[name] == value for name, value in wanted.equal.items()]
    if wanted.project_id is not None:
        where.append(server.c.project_id == wanted.project_id)
    gone, restorable = server.c.deleted_at.is_not(None), server.c.condition == "soft-deleted"
    if wanted.deleted is not None:
        where.append(or_(gone, restorable) if wanted.deleted else ~gone)
    if not wanted.soft_deleted:
        where.append(~restorable)
    if wanted.host is not None:
        where.append(host.c.name == wanted.host)
    if wanted.flavor_id is not None:
        where.append(server.c.flavor["id"].as_string() == wanted.flavor_id)
    if wanted.name_like is not None:
        where.append(func.lower(server.c.name).like(wanted.name_like.lower(), escape="\\"))
    if wanted.changed_since is not None:
        where.append(server.c.updated_at >= wanted.changed_since)
    if wanted.changed_before is not None:
        where.append(server.c.updated_at <= wanted.changed_before)
    return where


def _place_of(tx: Tx, marker: str, wanted: ServersWanted, order: Sequence[tuple[Any, bool]]) -> Sequence[Any]:
    """The marker's own sort values. A marker of another project is not found."""
    statement = _servers(*(key for key, _ in order)).where(server.c.id == marker)
    if wanted.project_id is not None:
        statement = statement.where(server.c.project_id == wanted.project_id)
    row = tx.execute(statement).first()
    if row is None:
        raise Malformed(f"marker [{marker}] not found")
    return row[-len(order) :]


def _beyond(order: Sequence[tuple[Any, bool]], values: Sequence[Any]) -> ColumnElement[bool]:
    """What sorts after a row with these values: later in one key and equal in all before it."""
    ways = []
    for i, (key, down) in enumerate(order):
        later = key < literal(values[i], key.type) if down else key > literal(values[i], key.type)
        ways.append(
            and_(*(k == literal(v, k.type) for (k, _), v in zip(order[:i], values, strict=False)), later)
        )
    return or_(*ways)


_SPAN = [
    server.c[name]
    for name in ("id", "name", "project_id", "flavor", "condition", "created_at", "launched_at", "deleted_at")
]


def servers_between(
    tx: Tx,
    start: float,
    end: float,
    *,
    project_id: str | None,
    limit: int | None = None,
    marker: str | None = None,
) -> list[Row]:
    """Servers, deleted ones too, that ran at some time in the period, by project and id. Raises
    `Malformed` for an unknown marker (the id of one)."""
    c = server.c
    statement = select(*_SPAN).where(
        c.launched_at.is_not(None), c.launched_at <= end, or_(c.deleted_at.is_(None), c.deleted_at >= start)
    )
    if project_id is not None:
        statement = statement.where(c.project_id == project_id)
    if marker is not None:
        place = tx.execute(statement.with_only_columns(c.project_id, c.id).where(c.id == marker)).first()
        if place is None:
            raise Malformed(f"marker [{marker}] not found")
        statement = statement.where(_beyond([(c.project_id, False), (c.id, False)], place))
    rows = tx.execute(statement.order_by(c.project_id, c.id).limit(limit)).mappings()
    return [dict(row) for row in rows]


# -- Groups -------------------------------------------------------------------------------


def group(tx: Tx, group_id: str, project_id: str | None) -> Row:
    """One group with `member_ids`. Raises `NotFound`."""
    statement = select(group_table).where(group_table.c.id == group_id)
    if project_id is not None:
        statement = statement.where(group_table.c.project_id == project_id)
    found = _with_members(tx, statement)
    if not found:
        raise NotFound(f"Instance group {group_id} could not be found.")
    return found[0]


def groups(tx: Tx, *, project_id: str | None, limit: int, offset: int = 0) -> list[Row]:
    """Groups in the order of their making, each with `member_ids`."""
    statement = select(group_table).order_by(group_table.c.created_at, group_table.c.id)
    if project_id is not None:
        statement = statement.where(group_table.c.project_id == project_id)
    return _with_members(tx, statement.limit(limit).offset(offset))


def _with_members(tx: Tx, statement: Select[Any]) -> list[Row]:
    found = [dict(row) for row in tx.execute(statement).mappings()]
    members: dict[str, list[str]] = defaultdict(list)
    rows = tx.execute(
        select(server.c.group_id, server.c.id)
        .where(server.c.group_id.in_([each["id"] for each in found]), server.c.deleted_at.is_(None))
        .order_by(server.c.created_at, server.c.id)
    )
    for row in rows:
        members[row.group_id].append(row.id)
    for each in found:
        each["member_ids"] = members[each["id"]]
    return found


# -- Migrations ---------------------------------------------------------------------------

MIGRATIONS = ("live-migration", "migration", "resize", "evacuation")


@dataclass(frozen=True)
class MigrationsWanted:
    """Which migrations. `server_project_id` is whose servers, `equal` columns of the move itself."""

    server_project_id: str | None = None
    equal: Mapping[str, Any] = field(default_factory=dict)
    host: str | None = None  # source or target
    source: str | None = None
    unfinished: bool = False
    changed_since: float | None = None
    changed_before: float | None = None
    judge: Callable[[Row], bool] | None = None


def migrations(tx: Tx, wanted: MigrationsWanted, *, limit: int, marker: str | None = None) -> list[Row]:
    """Migrations, newest first: the move with `source` and `target` ({"name", "facts"} or None), and the
    server's flavor. Raises `Malformed` for an unknown marker (the UUID of one)."""
    source, target = host.alias("source"), host.alias("target")
    statement = (
        select(*move.c, source.c.name, source.c.facts, target.c.name, target.c.facts, server.c.flavor)
        .select_from(move)
        .join(server, server.c.id == move.c.server_id)
        .outerjoin(source, source.c.id == move.c.source_id)
        .outerjoin(target, target.c.id == move.c.target_id)
        .where(move.c.kind.in_(MIGRATIONS), *(move.c[k] == v for k, v in wanted.equal.items()))
    )
    if wanted.server_project_id is not None:
        statement = statement.where(server.c.project_id == wanted.server_project_id)
    if wanted.host is not None:
        statement = statement.where(or_(source.c.name == wanted.host, target.c.name == wanted.host))
    if wanted.source is not None:
        statement = statement.where(source.c.name == wanted.source)
    if wanted.unfinished:
        statement = statement.where(IS_UNFINISHED)
    if wanted.changed_since is not None:
        statement = statement.where(move.c.updated_at >= wanted.changed_since)
    if wanted.changed_before is not None:
        statement = statement.where(move.c.updated_at <= wanted.changed_before)
    if marker is not None:
        last = tx.execute(statement.with_only_columns(move.c.number).where(move.c.id == marker)).scalar()
        if last is None:
            raise Malformed(f"Marker {marker} could not be found.")
        statement = statement.where(move.c.number < last)
    statement = statement.order_by(move.c.number.desc())
    return _judged(tx, statement, wanted.judge, limit)


def _judged(tx: Tx, statement: Select[Any], judge: Callable[[Row], bool] | None, limit: int) -> list[Row]:
    found: list[Row] = []
    last: int | None = None
    while len(found) < limit:
        size = BATCH if judge else limit
        batch = statement if last is None else statement.where(move.c.number < last)
        rows = tx.execute(batch.limit(size)).all()
        for row in rows:
            record = dict(zip(move.c.keys(), row, strict=False))
            source, source_facts, target, target_facts, flavor = row[-5:]
            record["source"] = {"name": source, "facts": source_facts} if source else None
            record["target"] = {"name": target, "facts": target_facts} if target else None
            record["flavor"] = flavor
            last = record["number"]
            if judge is None or judge(record):
                found.append(record)
        if len(rows) < size:
            break
    return found[:limit]


# -- Hosts --------------------------------------------------------------------------------


def hosts(tx: Tx, *, ids: Sequence[str] | None = None) -> list[Row]:
    """Hosts by name, each with `heard_at`, `inventory` (class -> row), `guests` and `moving` (how many)."""
    heard = heartbeat.c.host_id == host.c.id
    statement = select(host, heartbeat.c.heard_at).outerjoin(heartbeat, heard).order_by(host.c.name)
    offers = select(inventory)
    claims = select(claim.c.host_id, claim.c.role, func.count().label("many")).group_by(
        claim.c.host_id, claim.c.role
    )
    if ids is not None:
        statement = statement.where(host.c.id.in_(ids))
        offers = offers.where(inventory.c.provider_id.in_(ids))
        claims = claims.where(claim.c.host_id.in_(ids))
    found = {
        row["id"]: {**row, "inventory": {}, "guests": 0, "moving": 0}
        for row in tx.execute(statement).mappings()
    }
    for row in tx.execute(offers).mappings():
        if row["provider_id"] in found:
            found[row["provider_id"]]["inventory"][row["class"]] = dict(row)
    for counted in tx.execute(claims):
        if counted.host_id in found:
            what = "guests" if counted.role == "home" else "moving"
            found[counted.host_id][what] += counted.many
    return list(found.values())


def host_names(tx: Tx) -> dict[str, str]:
    """The id of every host, by name."""
    return {row.name: row.id for row in tx.execute(select(host.c.name, host.c.id))}


def host_zones(tx: Tx) -> dict[str, str]:
    """The availability zone that every host's agent gives it, by the host's name."""
    return {row.name: row.zone for row in tx.execute(select(host.c.name, host.c.zone))}


def servers_on(tx: Tx, host_ids: Sequence[str]) -> dict[str, list[Row]]:
    """The servers that live on each of these hosts: {"id", "name"}."""
    found: dict[str, list[Row]] = defaultdict(list)
    rows = tx.execute(
        select(claim.c.host_id, server.c.id, server.c.name)
        .join(server, server.c.id == claim.c.server_id)
        .where(claim.c.role == "home", claim.c.host_id.in_(host_ids))
        .order_by(server.c.name, server.c.id)
    )
    for row in rows:
        found[row[0]].append({"id": row[1], "name": row[2]})
    return found


# -- Projects -----------------------------------------------------------------------------


def project(tx: Tx, project_id: str) -> Row | None:
    """What a project uses and may use; None if nothing was ever made in it."""
    row = tx.execute(select(schema.project).where(schema.project.c.id == project_id)).mappings().first()
    return dict(row) if row else None


def count_claims(tx: Tx) -> int:
    """How many claims there are in the whole cloud."""
    number: int = tx.execute(select(func.count()).select_from(claim)).scalar_one()
    return number
