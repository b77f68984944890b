"""The watch: this process's picture of all hosts, kept up to date by what changed.

It is read once. After that every transaction that changes what a scheduler sees of a host
announces `host:<id>`, and the next decision reads those hosts first, by index. What is
announced in this process is seen at once; what others announce, as soon as their NOTIFY
arrives; a lost one, `SWEEP_S` later: all generations are read that often, and the hosts whose
generation rose (`view`). Agents that seem silent are asked for again, at most once a second.

Nothing rests on the picture. Where it shows no host that will do, `confirm` compares it with
the database before anybody is told so.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Mapping

import structlog

from berthold.errors import Unavailable
from berthold.ledger import view
from berthold.ledger.shared_reads import see_the_present
from berthold.ledger.store import Store, Tx
from berthold.records import aggregates
from berthold.scheduler.supply import HostView, Inventory, Supply

log = structlog.get_logger("berthold.watch")

SWEEP_S = 5.0
ASK_AGAIN_S = 1.0
# From so many hosts on, reading all is quicker than naming them.
MANY = 500


class Watch:
    """Give it to whoever places servers. `run` should run beside it; where it does not, the
    decision that finds the picture too old does its work."""

    def __init__(self, store: Store, silent_after_s: float) -> None:
        self._store = store
        self._silent_after_s = silent_after_s
        self._lock = threading.Lock()  # held for moments only, never while anything is read
        self._supply: Supply | None = None
        self._bounds = aggregates.Bounds({}, {}, {})
        self._changed: set[str] = set()
        self._begun = 0  # how often the picture was begun anew
        self._swept_at = self._asked_at = float("-inf")
        store.bus.hear(self._hear)

    @property
    def heard_since(self) -> float:
        """Agents that were last heard before this moment are silent."""
        return self._store.clock.now() - self._silent_after_s

    def look(self, tx: Tx) -> Supply:
        """All hosts, with every change that this process has heard of. Call it first in `tx`."""
        see_the_present(tx)  # what was told is forgotten here, so no older snapshot may be read
        with self._lock:
            supply, begun = self._supply, self._begun
            changed, self._changed = self._changed, set()
        try:
            if supply is None or len(changed) > MANY:
                return self._read_all(tx, begun)
            if self._store.clock.now() - self._swept_at > 2 * SWEEP_S:
                changed |= self._risen(tx, supply)
            return self._ask_again(tx, self._read(tx, changed, supply, begun), begun)
        except BaseException:
            with self._lock:
                self._changed |= changed
            raise

    def confirm(self, tx: Tx) -> Supply:
        """All hosts as `tx` sees them, or as they were later."""
        see_the_present(tx)
        bounds = aggregates.bounds(tx)
        with self._lock:
            if bounds != self._bounds:
                # A zone is no part of a generation.
                self._supply, self._begun = None, self._begun + 1
            supply, begun = self._supply, self._begun
        if supply is None:
            return self._read_all(tx, begun)
        supply = self._read(tx, self._risen(tx, supply), supply, begun)
        return self._publish(supply, begun, [], view.heard(tx))

    def sweep(self, tx: Tx) -> None:
        """Make up for what was announced and not heard."""
        self.look(tx)
        self.confirm(tx)

    async def run(self) -> None:
        """Sweep every few seconds."""
        while True:
            try:
                await self._store.read(self.sweep)
            except Unavailable as error:
                log.warning("the hosts cannot be seen", reason=error.message)
            await asyncio.sleep(SWEEP_S)

    # -- News -----------------------------------------------------------------------------

    def _hear(self, topics: list[str]) -> None:
        hosts = {topic[5:] for topic in topics if topic.startswith("host:")}
        anew = "hosts" in topics
        if not hosts and not anew:
            return
        with self._lock:
            self._changed |= hosts
            if anew:
                self._supply, self._begun = None, self._begun + 1
                self._asked_at = float("-inf")

    def _risen(self, tx: Tx, supply: Supply) -> set[str]:
        """The hosts whose generation is above the one in the picture."""
        self._swept_at = self._store.clock.now()
        standing = {host.id: host.generation for host in supply.hosts}
        return {each for each, number in view.generations(tx).items() if number > standing.get(each, -1)}

    def _ask_again(self, tx: Tx, supply: Supply, begun: int) -> Supply:
        """An agent is only ever heard later than the picture says, so only silence need be proved."""
        silent = supply.silent(self.heard_since)
        present = self._store.clock.now()
        if not silent or present - self._asked_at < ASK_AGAIN_S:
            return supply
        self._asked_at = present
        return self._publish(supply, begun, [], view.heard(tx, silent if len(silent) <= MANY else None))

    # -- The picture ----------------------------------------------------------------------

    def _read_all(self, tx: Tx, begun: int) -> Supply:
        bounds, rows = aggregates.bounds(tx), view.hosts(tx)
        supply = Supply.of([_host(row, bounds) for row in rows], {row.id: row.heard_at for row in rows})
        with self._lock:
            if begun == self._begun:
                self._supply, self._bounds = supply, bounds
                self._swept_at = self._store.clock.now()
        return supply

    def _read(self, tx: Tx, ids: Collection[str], supply: Supply, begun: int) -> Supply:
        """`supply` with these hosts as they are now."""
        if not ids:
            return supply
        rows = view.hosts(tx, sorted(ids) if len(ids) <= MANY else None)
        hosts = [_host(row, self._bounds) for row in rows]
        heard = {row.id: row.heard_at for row in rows}
        return self._publish(supply, begun, hosts, heard, set(ids) - heard.keys())

    def _publish(
        self,
        supply: Supply,
        begun: int,
        hosts: Collection[HostView],
        heard: Mapping[str, float],
        gone: Collection[str] = (),
    ) -> Supply:
        """The picture with this news. Of a host that somebody else has read since, the later row stays.
        If the picture was begun anew meanwhile, the news is for the caller's `supply` only."""
        with self._lock:
            if self._supply is None or begun != self._begun:
                return supply.with_hosts(hosts, heard, gone)
            supply = self._supply
            news = [each for each in hosts if _is_later(each, supply.find(each.id))]
            self._supply = supply.with_hosts(news, heard, gone)
            return self._supply


def _is_later(host: HostView, known: HostView | None) -> bool:
    return known is None or host.generation > known.generation


def _host(row: view.HostRow, bounds: aggregates.Bounds) -> HostView:
    return HostView(
        id=row.id,
        name=row.name,
        status=row.status,
        disabled=row.disabled,
        epoch=row.epoch,
        generation=row.generation,
        zone=bounds.zones.get(row.name, row.zone),
        traits=row.traits,
        projects=bounds.projects.get(row.name),
        aggregates=bounds.words.get(row.name, frozenset()),
        capacity={name: Inventory(*terms) for name, terms in row.inventories.items()},
    )
