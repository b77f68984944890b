"""What a lab asks of a ledger again and again, in as few queries as can be: plain text for `Database.select`,
which runs nothing for as long as nothing was written."""

from __future__ import annotations

from berthold.lab.databases import Look
from berthold.ledger.audit import CHECKS

# Every query of the audit at once: whether there is anything to be told.
AUDIT = " UNION ALL ".join(f"SELECT 1 WHERE EXISTS ({check.sql.replace(':now', '?')})" for check in CHECKS)

# Moves that a conductor could work on, oldest first.
UNFINISHED = "SELECT id FROM move WHERE state IN ('running','undoing') ORDER BY number"
GROUPS_ON_THE_MOVE = "SELECT 1 FROM group_move WHERE state <> 'done' LIMIT 1"
# By host: the epoch at which its agent may act, and whether it has anything to do.
TO_DO = "SELECT id, epoch, EXISTS (SELECT 1 FROM ask WHERE host_id = host.id AND state = 'open') FROM host"
# What must be as before when a move has left no trace, and what of it may differ.
PICTURED = (
    "claim", "seat", "group_place", "inventory", "server", "project", "server_group",
    "network_port", "network_address", "volume_attachment", "volume_snapshot",
)  # fmt: skip
VOLATILE = frozenset({"updated_at", "generation", "host_epoch", "move_id", "fault"})


def audit_at(moment: float) -> Look:
    """A row for each check that finds something at that moment; the audit itself tells what."""
    return AUDIT, *[moment] * AUDIT.count("?")
