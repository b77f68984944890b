"""What the auditor has found and still stands (`moves/auditor.py`): since when, and when last seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import delete, func, select, update

from berthold.ledger.compliance import Finding
from berthold.ledger.store import Tx, moment
from berthold.records.schema import violation

Row = Mapping[str, Any]


def keep(tx: Tx, found: Sequence[Finding]) -> tuple[list[Finding], list[Row]]:
    """From now on these stand and no others: those that did not stand before, and those that did."""
    before = {row["key"]: row for row in standing(tx)}
    seen = {finding.key: finding for finding in found}
    present = moment(tx)
    new = [finding for key, finding in sorted(seen.items()) if key not in before]
    for key, finding in sorted(seen.items()):
        says = {"says": finding.says, "servers": list(finding.servers), "seen_at": present}
        if key in before:
            tx.execute(update(violation).where(violation.c.key == key).values(**says))
            continue
        who = {"rule": finding.rule, "group_id": finding.group_id, "host_id": finding.host_id}
        tx.execute(violation.insert().values(key=key, since=present, **who, **says))
    ended = [row for key, row in sorted(before.items()) if key not in seen]
    if ended:
        tx.execute(delete(violation).where(violation.c.key.in_([row["key"] for row in ended])))
    return new, ended


def standing(tx: Tx) -> list[Row]:
    """All that stand, the oldest first."""
    rows = tx.execute(select(violation).order_by(violation.c.since, violation.c.key)).mappings()
    return [dict(row) for row in rows]


def counts(tx: Tx) -> dict[str, int]:
    """How many stand, by rule."""
    rows = tx.execute(select(violation.c.rule, func.count()).group_by(violation.c.rule))
    return {row[0]: row[1] for row in rows}
