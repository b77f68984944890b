"""Q1: what a project uses never exceeds what it may use, racing or not.

Usage and limits of a project are one row, changed by one guarded update, so nothing is
taken by halves. A limit lowered below the use only stops growth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, bindparam, literal, select, update

from berthold.errors import Refused
from berthold.ledger import schema
from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Insert, Tx, greatest
from berthold.settings import Settings

project, group = schema.project, schema.server_group
COUNTED = ("instances", "cores", "ram", "server_groups")
LIMITED = (*COUNTED, "server_group_members")
NO_LIMIT = 2**62
INTRODUCE = Prepared(Insert(project, lambda row: row.on_conflict_do_nothing(index_elements=["id"])))


def as_number(limit: int) -> int:
    """A limit as it is stored: -1, for none, is a number beyond reach."""
    return NO_LIMIT if limit < 0 else limit


def ensure_project(tx: Tx, project_id: str, settings: Settings) -> None:
    """The project has a row; a new one gets the default limits."""
    values: dict[str, Any] = {
        f"{what}_{end}": as_number(getattr(settings, f"quota_{what}"))
        for what in COUNTED
        for end in ("max", "ceiling")
    }
    values["server_group_members_max"] = as_number(settings.quota_server_group_members)
    INTRODUCE.change(tx, {"id": project_id, **values})


@dataclass(frozen=True)
class Usage:
    """How much is used and may be; a `limit` of -1 is none. Members are counted by group, so `used` is 0."""

    used: int
    limit: int


def of(tx: Tx, project_id: str) -> Mapping[str, Usage]:
    """What the project uses and may use, by name (`LIMITED`); empty for one that was never seen."""
    row = tx.execute(select(project).where(project.c.id == project_id)).mappings().first()
    if row is None:
        return {}
    return {what: Usage(row.get(what, 0), _as_limit(row[f"{what}_max"])) for what in LIMITED}


def _as_limit(number: int) -> int:
    return -1 if number >= NO_LIMIT else number


def set_limits(tx: Tx, /, project_id: str, **limits: int) -> None:
    """The project may use so much from now on (-1: without limit), of what is named. A limit below
    the use takes nothing away; it stops growth only. The caller has made sure of the project's row."""
    assert limits.keys() <= set(LIMITED), limits
    values: dict[str, Any] = {f"{what}_max": as_number(limit) for what, limit in limits.items()}
    for what in limits.keys() & set(COUNTED):
        values[f"{what}_ceiling"] = greatest(tx, literal(values[f"{what}_max"], BigInteger), project.c[what])
    mine = group.c.project_id == project_id
    if "server_group_members" in limits:
        # Groups before projects, as everybody locks them.
        tx.execute(select(group.c.id).where(mine).order_by(group.c.id).with_for_update())
    tx.execute(update(project).where(project.c.id == project_id).values(values))
    if "server_group_members" in limits:
        allowed = greatest(tx, literal(values["server_group_members_max"], BigInteger), group.c.members)
        tx.execute(update(group).where(mine).values(members_max=allowed))


def members_limit(tx: Tx, project_id: str) -> int:
    """How many members a group of the project may have. After `charge` it cannot change meanwhile."""
    limit = select(project.c.server_group_members_max).where(project.c.id == project_id)
    number: int = tx.execute(limit).scalar_one()
    return number


def charge(tx: Tx, project_id: str, **amounts: int) -> None:
    """Take `amounts` of instances, cores, ram (MiB) or server_groups. Raises `Refused` Q1."""
    growing = {what: n for what, n in amounts.items() if n > 0}
    if not growing:
        return
    more = {f"more_{what}": n for what, n in growing.items()}
    if not _charging(tuple(growing)).change(tx, {"of_project": project_id, **more}):
        raise Refused("Q1", _why_not(tx, project_id, growing))


@cache
def _charging(kinds: tuple[str, ...]) -> Prepared:
    """Q1's guard: what is taken of these is still allowed."""
    grown = {what: project.c[what] + bindparam(f"more_{what}", type_=BigInteger) for what in kinds}
    allowed = (total <= project.c[f"{what}_max"] for what, total in grown.items())
    return Prepared(update(project).where(project.c.id == bindparam("of_project"), *allowed).values(grown))


def give_back(tx: Tx, project_id: str, **amounts: int) -> None:
    """Return what was taken."""
    values: dict[str, Any] = {}
    for what, n in amounts.items():
        left = project.c[what] - n
        values[what] = left
        values[f"{what}_ceiling"] = greatest(tx, project.c[f"{what}_max"], left)
    tx.execute(update(project).where(project.c.id == project_id).values(values))


def _why_not(tx: Tx, project_id: str, wanted: dict[str, int]) -> str:
    row = tx.execute(select(project).where(project.c.id == project_id)).mappings().first()
    assert row is not None, f"project {project_id} has no quota row; ensure_project makes it"
    over = [what for what, n in wanted.items() if row[what] + n > row[f"{what}_max"]]
    asked, used, limits = (
        ", ".join(str(number) for number in numbers)
        for numbers in (
            [wanted[what] for what in over],
            [row[what] for what in over],
            [row[f"{what}_max"] for what in over],
        )
    )
    names = ", ".join(over)
    return f"Quota exceeded for {names}: Requested {asked}, but already used {used} of {limits} {names}"
