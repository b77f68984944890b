"""Flavors: what sizes of servers there are, and which projects may use those that are not public.

A server keeps a copy of its flavor, so a flavor may be deleted at any time. `snapshot` is
that copy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Double, bindparam, cast, delete, exists, literal, or_, select, update

from berthold.errors import Malformed, NotFound, WrongState
from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Tx, clock_of, insert
from berthold.records.schema import flavor, flavor_access

Flavor = Mapping[str, Any]
SORT_KEYS: dict[str, ColumnElement[Any]] = {
    "flavorid": flavor.c.id,
    "id": flavor.c.number,
    "name": flavor.c.name,
    "memory_mb": flavor.c.ram,
    "vcpus": flavor.c.vcpus,
    "root_gb": flavor.c.disk,
    "ephemeral_gb": flavor.c.ephemeral,
    "swap": flavor.c.swap,
    "is_public": flavor.c.is_public,
    "rxtx_factor": cast(flavor.c.rxtx_factor, Double),
    "disabled": flavor.c.disabled,
}


def _open_to(project: Any) -> ColumnElement[bool]:
    granted = exists().where(flavor_access.c.flavor_id == flavor.c.id, flavor_access.c.project_id == project)
    return or_(flavor.c.is_public, granted)


FIND = select(flavor).where(flavor.c.id == bindparam("flavor"))
ANY, USABLE = Prepared(FIND), Prepared(FIND.where(_open_to(bindparam("project"))))


def create(tx: Tx, /, *, id: str | None = None, name: str, **columns: Any) -> Flavor:
    """A new flavor; without an `id` it gets a UUID. Raises `WrongState` when id or name is taken."""
    new = id or clock_of(tx).new_id()
    statement = insert(tx, flavor).values(id=new, name=name, extra_specs={}, **columns)
    row = tx.execute(statement.on_conflict_do_nothing().returning(flavor)).mappings().first()
    if row is None:
        same_name = tx.execute(select(flavor.c.id).where(flavor.c.name == name)).first()
        what = f"name {name}" if same_name else f"ID {new}"
        raise WrongState(f"Flavor with {what} already exists.")
    return dict(row)


def get(tx: Tx, flavor_id: str, project_id: str | None) -> Flavor:
    """A flavor that the project may use (None: any). Raises `NotFound`."""
    wanted = {"flavor": flavor_id}
    row = (
        ANY.mapping(tx, wanted)
        if project_id is None
        else USABLE.mapping(tx, {**wanted, "project": project_id})
    )
    if row is None:
        raise NotFound(f"Flavor {flavor_id} could not be found.")
    return row


def page(
    tx: Tx,
    *,
    project_id: str | None,
    is_public: bool | None,
    min_ram: int = 0,
    min_disk: int = 0,
    limit: int,
    marker: str | None = None,
    sort: tuple[str, bool] = ("flavorid", False),
) -> list[Flavor]:
    """Flavors that the project may use (None: any), sorted. Raises `Malformed` for the marker."""
    key, down = SORT_KEYS[sort[0]], sort[1]
    order = [key.desc() if down else key.asc(), flavor.c.number.asc()]
    open_to = [] if project_id is None else [_open_to(project_id)]
    statement = select(flavor).where(flavor.c.ram >= min_ram, flavor.c.disk >= min_disk, *open_to)
    if is_public is not None:
        statement = statement.where(flavor.c.is_public.is_(is_public))
    if marker is not None:
        last = tx.execute(select(flavor.c.number, key).where(flavor.c.id == marker)).first()
        if last is None:
            raise Malformed(f"marker [{marker}] not found")
        place = literal(last[1], key.type)
        beyond = key < place if down else key > place
        statement = statement.where(or_(beyond, (key == place) & (flavor.c.number > last[0])))
    rows = tx.execute(statement.order_by(*order).limit(limit)).mappings()
    return [dict(row) for row in rows]


def describe(tx: Tx, flavor_id: str, description: str | None) -> Flavor:
    """Write the description; the flavor. Raises `NotFound`."""
    statement = update(flavor).where(flavor.c.id == flavor_id).values(description=description)
    row = tx.execute(statement.returning(flavor)).mappings().first()
    if row is None:
        raise NotFound(f"Flavor {flavor_id} could not be found.")
    return dict(row)


def remove(tx: Tx, flavor_id: str) -> None:
    """Delete the flavor; servers that were made with it keep their copy. Raises `NotFound`."""
    row = tx.execute(delete(flavor).where(flavor.c.id == flavor_id).returning(flavor.c.id)).first()
    if row is None:
        raise NotFound(f"Flavor {flavor_id} could not be found.")


def snapshot(record: Flavor) -> dict[str, Any]:
    """What a server keeps of its flavor."""
    kept = ("id", "name", "vcpus", "ram", "disk", "ephemeral", "swap", "extra_specs")
    return {key: record[key] for key in kept}


# -- Extra specs --------------------------------------------------------------------------


def add_specs(tx: Tx, flavor_id: str, specs: Mapping[str, str]) -> None:
    """Add or replace extra specs. Raises `NotFound`."""
    _write_specs(tx, flavor_id, _hold(tx, flavor_id)["extra_specs"] | dict(specs))


def remove_spec(tx: Tx, flavor_id: str, key: str) -> None:
    """Take one extra spec away. Raises `NotFound` for the flavor or the key."""
    specs = dict(_hold(tx, flavor_id)["extra_specs"])
    if key not in specs:
        raise NotFound(f"Flavor {flavor_id} has no extra specs with key {key}.")
    del specs[key]
    _write_specs(tx, flavor_id, specs)


def _hold(tx: Tx, flavor_id: str) -> Flavor:
    row = tx.execute(select(flavor).where(flavor.c.id == flavor_id).with_for_update()).mappings().first()
    if row is None:
        raise NotFound(f"Flavor {flavor_id} could not be found.")
    return dict(row)


def _write_specs(tx: Tx, flavor_id: str, specs: dict[str, str]) -> None:
    tx.execute(update(flavor).where(flavor.c.id == flavor_id).values(extra_specs=specs))


# -- Access -------------------------------------------------------------------------------


def projects_of(tx: Tx, flavor_id: str) -> list[str]:
    """The projects that may use a flavor that is not public. Raises `NotFound`, for a public one too."""
    if get(tx, flavor_id, None)["is_public"]:
        raise NotFound("Access list not available for public flavors.")
    return _projects(tx, flavor_id)


def grant(tx: Tx, flavor_id: str, project_id: str) -> list[str]:
    """Let a project use the flavor; all that may. Raises `NotFound`, `WrongState` if it may already."""
    get(tx, flavor_id, None)
    statement = insert(tx, flavor_access).values(flavor_id=flavor_id, project_id=project_id)
    row = tx.execute(statement.on_conflict_do_nothing().returning(flavor_access.c.flavor_id)).first()
    if row is None:
        raise WrongState(f"Flavor access already exists for flavor {flavor_id} and project {project_id}.")
    return _projects(tx, flavor_id)


def revoke(tx: Tx, flavor_id: str, project_id: str) -> list[str]:
    """Take a project's access away; those that are left. Raises `NotFound`."""
    get(tx, flavor_id, None)
    row = tx.execute(
        delete(flavor_access)
        .where(flavor_access.c.flavor_id == flavor_id, flavor_access.c.project_id == project_id)
        .returning(flavor_access.c.flavor_id)
    ).first()
    if row is None:
        raise NotFound(f"Flavor access not found for {flavor_id} / {project_id} combination.")
    return _projects(tx, flavor_id)


def _projects(tx: Tx, flavor_id: str) -> list[str]:
    statement = select(flavor_access.c.project_id).where(flavor_access.c.flavor_id == flavor_id)
    return list(tx.execute(statement.order_by(flavor_access.c.project_id)).scalars())


def numbers(tx: Tx, ids: Collection[str]) -> dict[str, int]:
    """The number of each of these flavors that still exists."""
    rows = tx.execute(select(flavor.c.id, flavor.c.number).where(flavor.c.id.in_(ids)))
    return {row.id: row.number for row in rows}
