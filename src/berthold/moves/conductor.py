"""The conductor: leases moves that nobody works on and steps each of them to its end.

Any number of conductors work side by side, in any number of processes. What a conductor
holds in memory is only which leases it has; if it dies they end, and others take the moves
(M4). It is woken by what others commit, and looks once a second in any case.
"""

from __future__ import annotations

import asyncio

import structlog

from berthold.errors import Stale, Unavailable
from berthold.ledger import moves
from berthold.ledger.store import Store
from berthold.moves.attend import attend
from berthold.moves.auditor import Auditor
from berthold.moves.outcome import Outcome
from berthold.moves.reclaim import end_overdue, terms
from berthold.moves.runner import Runner
from berthold.neighbours import Neighbours
from berthold.settings import Settings

log = structlog.get_logger("berthold.conductor")


class Conductor:
    """One worker on moves. `run` until `stop`; what is unfinished then, others go on with."""

    def __init__(self, store: Store, neighbours: Neighbours, settings: Settings, name: str) -> None:
        self.store = store
        self.settings = settings
        self.name = f"{name}/{store.clock.new_id()[:8]}"
        self.runner = Runner(store, neighbours, settings, at_once=True)
        self.auditor = Auditor(store, settings, self.name)
        self._held: dict[moves.Lease, asyncio.Task[None]] = {}
        self._listening: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Take and step moves until told to stop, then let go of all leases."""
        with self.store.bus.subscribe("moves") as news:
            tending = attend(self.store, self.settings.scan_s)
            works = (self._renew(), self.runner.watch.run(), self.auditor.run(), self._end_overdue(), tending)
            beside = [asyncio.create_task(work) for work in works]
            try:
                while not self._stopping.is_set():
                    if not await self._take():
                        await news.wait(self.settings.scan_s)
            finally:
                for task in (*beside, *self._listening):
                    task.cancel()
                await self._let_go()

    def stop(self) -> None:
        """No more moves after the steps that are under way."""
        self._stopping.set()
        self.store.bus.wake(["moves"])

    async def _take(self) -> bool:
        """Lease what is free; whether there may be more."""
        room = min(self.settings.moves_at_once - len(self._held), 32)
        if room <= 0:
            return False
        try:
            leases = await self.store.write(moves.take, self.name, self.settings.lease_s, room)
        except Unavailable as error:
            log.warning("no moves can be taken", reason=error.message)
            return False
        for lease in leases:
            self._held[lease] = asyncio.create_task(self._drive(lease), name=f"move {lease.move_id}")
        return len(leases) == room

    async def _renew(self) -> None:
        """Hold every lease, in one transaction, well before it ends."""
        while True:
            await asyncio.sleep(self.settings.lease_s / 3)
            if self._held:
                try:
                    await self.store.write(moves.renew, self.name, list(self._held), self.settings.lease_s)
                except Unavailable as error:
                    log.warning("leases cannot be renewed", reason=error.message)

    async def _end_overdue(self) -> None:
        """Delete for good, and give hosts back, where that was put off until now."""
        while terms(self.settings):
            await asyncio.sleep(self.settings.scan_s)
            try:
                await end_overdue(self.store, self.settings)
            except Unavailable as error:
                log.warning("what is due cannot be ended", reason=error.message)
            except Exception:
                log.exception("what is due was not ended")

    async def _drive(self, lease: moves.Lease) -> None:
        """Step one move until its end, or until it is somebody else's."""
        if lease.epoch == 1:
            log.info("move begins", **lease.about)
        try:
            with self.store.bus.subscribe(f"move:{lease.move_id}") as news:
                seen, told = None, False
                while not self._stopping.is_set():
                    outcome = await self.runner.step(lease, seen, answered=told)
                    if outcome.over:
                        _tell_end(lease, outcome)
                        self._listen_for(lease.move_id, outcome)
                        return
                    seen, told = outcome.scene, False
                    if outcome.wait_s:
                        told = await news.wait(outcome.wait_s)
        except Stale:
            log.info("lease lost", move=lease.move_id, epoch=lease.epoch)
        except Unavailable as error:
            # The lease ends by itself; whoever reaches the database then goes on.
            log.warning("move waits", move=lease.move_id, reason=error.message)
        except Exception:
            log.exception("a step failed that must not", move=lease.move_id)
        finally:
            self._held.pop(lease, None)

    def _listen_for(self, move_id: str, outcome: Outcome) -> None:
        """The move is let be. It is taken again at its time, or as soon as there is news for it."""
        if outcome.news:
            task = asyncio.create_task(self._call(move_id, outcome), name=f"news for move {move_id}")
            self._listening.add(task)
            task.add_done_callback(self._listening.discard)

    async def _call(self, move_id: str, outcome: Outcome) -> None:
        try:
            with self.store.bus.subscribe(*outcome.news) as news:
                if await news.wait(outcome.wait_s):
                    await self.store.write(moves.call, move_id)
        except Unavailable as error:
            log.warning("move is not called", move=move_id, reason=error.message)

    async def _let_go(self) -> None:
        """At a clean stop: others need not wait for the leases to end."""
        held = dict(self._held)
        self.store.bus.wake([f"move:{lease.move_id}" for lease in held])
        if held:
            await asyncio.wait(held.values(), timeout=self.settings.lease_s)
        for lease in held:
            try:
                await self.store.write(moves.give_back, lease)
            except Unavailable as error:
                log.warning("lease ends by itself", move=lease.move_id, reason=error.message)


def _tell_end(lease: moves.Lease, outcome: Outcome) -> None:
    """One line for how a move ended: done, undone, waiting for a decision, or stuck."""
    if not outcome.later:
        say = log.warning if outcome.state == "stuck" else log.info
        say(f"move {outcome.state}", **lease.about, host=outcome.host)
