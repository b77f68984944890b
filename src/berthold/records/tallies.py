"""Tallies: how often something has happened in this cloud that operators watch and no row tells.

Counted in the transaction in which it happens, so that it is counted once and by all processes together.
"""

from __future__ import annotations

from sqlalchemy import bindparam

from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Insert, Tx
from berthold.records.schema import tally

# G3: a member of a soft group lost so many races that it took its place without ranking once more.
SOFT_GAVE_WAY = "soft policy gave way"

COUNT = Prepared(
    Insert(
        tally,
        lambda row: row.on_conflict_do_update(index_elements=["name"], set_={"total": tally.c.total + 1}),
    )
)
TOTAL = Prepared(tally.select().where(tally.c.name == bindparam("of")))


def count(tx: Tx, name: str) -> None:
    """It has happened once more."""
    COUNT.change(tx, {"name": name, "total": 1})


def total(tx: Tx, name: str) -> int:
    """How often it has happened."""
    row = TOTAL.record(tx, {"of": name})
    return row.total if row is not None else 0
