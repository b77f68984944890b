"""The auditor: looks again and again whether what is promised holds, and tells once what does not.

Every conductor has one; by a durable turn (`records/duties.py`) one of them looks, every
`audit_s` seconds. It judges what is placed (`ledger/compliance.py`) and asks every query of the
audit that does not read the whole history. What it finds is kept until it is found no more; each
violation is one line in the log when it begins and one when it ends, and is counted at `/metrics`.

A promise cannot be broken through the ledger. What is found here is an inventory that was shrunk
below its use, or rows that somebody changed by hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from berthold.errors import Unavailable
from berthold.ledger import compliance, reading
from berthold.ledger.audit import Violation, audit
from berthold.ledger.compliance import VIOLATION, Finding
from berthold.ledger.store import Store, Tx
from berthold.records import duties, violations
from berthold.records.violations import Row
from berthold.settings import Settings

log = structlog.get_logger("berthold.auditor")

DUTY = "audit"
# How often each asks whether it is time, within a turn.
ASKS = 4


class Auditor:
    """Give it to each conductor; `run` until cancelled."""

    def __init__(self, store: Store, settings: Settings, name: str) -> None:
        self.store = store
        self.every_s = settings.audit_s
        self.name = name

    async def run(self) -> None:
        """Look whenever it is time and nobody else does."""
        while self.every_s:
            await asyncio.sleep(self.every_s / ASKS)
            try:
                await self.look()
            except Unavailable as error:
                log.warning("the audit cannot be done", reason=error.message)
            except Exception:
                log.exception("the audit failed")

    async def look(self) -> bool:
        """One turn, if it is time for one; whether it was."""
        turn = await self.store.write(duties.take, DUTY, self.name, self.every_s)
        if turn is None:
            return False
        found = await self.store.read(judge)
        kept = await self.store.write(keep, turn, found)
        if kept is None:
            log.warning(
                "the audit took longer than its turn: what it found is not kept",
                found=len(found),
                turn_s=self.every_s,
                do="give it longer turns (audit_s)",
            )
            return True
        new, ended = kept
        names = await self.store.read(_names) if new or ended else {}
        for finding in new:
            log.error(
                "does not comply",
                rule=finding.rule,
                host=finding.host or names.get(finding.host_id, finding.host_id),
                group=finding.group_id,
                servers=" ".join(finding.servers),
                says=finding.says,
            )
        for row in ended:
            log.info(
                "complies again",
                rule=row["rule"],
                host=names.get(row["host_id"], row["host_id"]),
                group=row["group_id"],
                servers=" ".join(row["servers"]),
                after_s=round(self.store.clock.now() - row["since"], 1),
            )
        return True


def _names(tx: Tx) -> dict[str | None, str]:
    """What operators call the hosts, by id."""
    return {host_id: name for name, host_id in reading.host_names(tx).items()}


def judge(tx: Tx) -> list[Finding]:
    """Every violation, as things stand; but for what needs the whole history (`berthold db audit`)."""
    placed = compliance.violations(tx)
    told = {(finding.rule, finding.group_id) for finding in placed if finding.group_id}
    # What both see, compliance says better.
    return [
        *placed,
        *(
            _as_finding(each)
            for each in audit(tx, history=False)
            if (each.promise, each.row.get("group_id")) not in told
        ),
    ]


def _as_finding(violation: Violation) -> Finding:
    row = violation.row
    server = row.get("server_id")
    return Finding(
        VIOLATION,
        violation.promise,
        violation.says,
        "",  # the owner of what is broken is not told by a group's compliance
        (server,) if server else (),
        row.get("group_id"),
        row.get("host_id") or row.get("provider_id"),
        subject="/".join(str(value) for value in row.values() if isinstance(value, str)),
    )


def keep(tx: Tx, turn: int, found: Sequence[Finding]) -> tuple[list[Finding], list[Row]] | None:
    """What is new, and what has ended; None, and nothing is written, for a turn that others have followed."""
    return violations.keep(tx, found) if duties.done(tx, DUTY, turn) else None
