"""The strategy that the bug report describes, so that the lab can show that it beats it.

`scheduler-only`: the filter reads where the group's members live, and nothing is claimed
for the group. What the filter does not see are moves in flight; what nobody asks again is
whether the answer is still true. Needed are tables that do not require a seat or a place
(`unguarded_metadata`) and a ledger that does not ask for one (`scheduler_only`). For lab and
demo: a throw-away cloud.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Constraint, MetaData, event, func, select

from berthold.database import make_functions, metadata
from berthold.ledger import schema, seats, view
from berthold.ledger.store import Tx

GROUP_RULES = ("g1_", "g2_")


def metadata_without(dropped: Callable[[Constraint], bool]) -> MetaData:
    """All tables and functions, without these constraints."""
    copy = MetaData()
    for table in metadata.sorted_tables:
        bare = table.to_metadata(copy)
        bare.constraints -= {each for each in bare.constraints if dropped(each)}
    event.listen(copy, "after_create", make_functions)
    return copy


def unguarded_metadata() -> MetaData:
    """All tables, without the constraints that keep the group rules."""
    return metadata_without(is_group_rule)


def is_group_rule(constraint: Constraint) -> bool:
    """Whether G1 or G2 rests on it."""
    return isinstance(constraint.name, str) and constraint.name.startswith(GROUP_RULES)


@contextmanager
def scheduler_only() -> Iterator[None]:
    """In this process the ledger asks for no seat and no place, and the scheduler sees homes only."""
    kept = seats.RULES, seats.holders, view.places_of_group
    seats.RULES, seats.holders, view.places_of_group = {}, _homes, _places_of_group
    try:
        yield
    finally:
        seats.RULES, seats.holders, view.places_of_group = kept


def _homes(tx: Tx, group_id: str, but: str | None = None) -> dict[str, int]:
    """How many members (`but` one) live on each host: moves in flight are not seen."""
    c = schema.claim.c
    rows = tx.execute(
        select(c.host_id, func.count(func.distinct(c.server_id)))
        .where(c.group_id == group_id, c.role == "home", c.server_id != (but or ""))
        .group_by(c.host_id)
    )
    return {row[0]: row[1] for row in rows}


def _places_of_group(tx: Tx, group_id: str) -> dict[str, str]:
    """Where any member of the affinity group lives."""
    c = schema.claim.c
    home = tx.execute(
        select(c.host_id).where(c.group_id == group_id, c.role == "home").order_by(c.host_id)
    ).scalar()
    return {"home": home} if home else {}
