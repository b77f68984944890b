"""Placement history: what was claimed, when, in the order that the database gave.

Append-only, written in the transaction that does what it tells. Rows of one host are
written under that host's lock, so their numbers are the order in which things became true;
`lab/judge.py`, which imports nothing from here, replays them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berthold.ledger import schema
from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Tx, moment

RECORD = Prepared(schema.history.insert())
NOTHING: Mapping[str, Any] = {
    "claim_id": None,
    "server_id": None,
    "host_id": None,
    "move_id": None,
    "group_id": None,
    "policy": "none",
    "per_host": 1,
}


def record(tx: Tx, event: str, *, amounts: Mapping[str, int] | None = None, **columns: Any) -> None:
    """Write down that `event` (see the table) became true."""
    row = {**NOTHING, **columns, "event": event, "at": moment(tx), "amounts": dict(amounts or {})}
    RECORD.change(tx, row)
