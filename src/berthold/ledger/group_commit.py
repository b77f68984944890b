"""Group commit: on SQLite, transactions that wait for the one writer share its next commit.

A commit waits for the disk, and there is one writer; what comes meanwhile would wait for as many disks.
So all that wait are run one after another, each in a savepoint of its own, and are committed together.
Each sees what those before it wrote, as it would have. Nobody is told anything before the commit. One
that fails takes only itself back. What the database refuses, in one or for all of them, is done again
with a transaction to itself, so that each has its own error and its own new tries.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, IntegrityError

from berthold.ledger.bus import Bus
from berthold.ledger.verdicts import Again, told

Work = Callable[[Connection], Any]
T = TypeVar("T")

# So long do those wait that come next, and the database's other processes.
AT_MOST = 32
SAVEPOINT = "one_of_many"


class GroupCommit:
    """Runs what is given to `run` on `executor`, which has one thread. `about`: what work may know of its
    transaction (`tx.info`); `alone` runs one piece of work in a transaction of its own, as a store does."""

    def __init__(
        self,
        engine: Engine,
        executor: Executor,
        bus: Bus,
        about: Mapping[str, Any],
        alone: Callable[[Work], Any],
    ) -> None:
        self._engine = engine
        self._executor = executor
        self._bus = bus
        self._about = about
        self._alone = alone
        self._waiting: deque[_Job] = deque()

    async def run(self, work: Callable[[Connection], T]) -> T:
        """The result of `work`, once it is committed."""
        job = _Job(work, asyncio.get_running_loop())
        self._waiting.append(job)
        self._executor.submit(self._work)
        result: T = await job.future
        return result

    def _work(self) -> None:
        """Do what waits. Whoever came in time was taken along; then there is nothing left."""
        jobs: list[_Job] = []
        while self._waiting and len(jobs) < AT_MOST:
            job = self._waiting.popleft()
            if not job.future.cancelled():
                jobs.append(job)
        try:
            if len(jobs) > 1:
                self._together(jobs)
            for job in jobs:
                if not job.is_done:
                    job.do(self._alone, job.work)
        except BaseException as error:
            for job in jobs:
                if not job.is_done:
                    job.error = error
            raise
        finally:
            _tell(jobs)

    def _together(self, jobs: Sequence[_Job]) -> None:
        """Leaves undone what should be done again alone."""
        committing = False
        try:
            with self._engine.connect() as tx:
                tx.info.update(self._about)
                with tx.begin():
                    for job in jobs:
                        _within(tx, job)
                    committing = True
        except (DBAPIError, sqlite3.Error) as error:
            # A constraint that is judged at the end: whose fault it is shows alone. If the disk failed,
            # nobody's work is done twice.
            verdict = None
            if committing and isinstance(error, DBAPIError) and not isinstance(error, IntegrityError):
                verdict = told(error)
            for job in jobs:
                job.take_back()
                job.error = verdict
            return
        if topics := [topic for job in jobs for topic in job.topics]:
            self._bus.tell(topics)


class _Job:
    """One piece of work: what came of it, and who waits for that."""

    def __init__(self, work: Work, loop: asyncio.AbstractEventLoop) -> None:
        self.work = work
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.topics: list[str] = []
        self.take_back()

    def take_back(self) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self._is_done = False

    @property
    def is_done(self) -> bool:
        return self._is_done or self.error is not None

    def do(self, run: Callable[[T], Any], on: T) -> None:
        """Keep what `run` returns, or raises."""
        try:
            self.result = run(on)
            self._is_done = True
        except Exception as error:
            self.error = error

    def settle(self) -> None:
        """In the loop's own thread."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


def _within(tx: Connection, job: _Job) -> None:
    """Do it in a savepoint. What the database refused stays undone."""
    connection: Any = tx.connection.driver_connection
    tx.info["topics"] = job.topics
    connection.execute(f"SAVEPOINT {SAVEPOINT}")
    job.do(job.work, tx)
    if job.error is not None:
        job.topics.clear()
        connection.execute(f"ROLLBACK TO {SAVEPOINT}")
    if isinstance(job.error, (DBAPIError, Again)):
        job.take_back()
    connection.execute(f"RELEASE {SAVEPOINT}")


def _tell(jobs: Sequence[_Job]) -> None:
    """Each loop once: to wake one costs as much as what it is woken for."""
    for loop in {job.loop for job in jobs}:
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, [job for job in jobs if job.loop is loop])


def _settle(jobs: Sequence[_Job]) -> None:
    for job in jobs:
        job.settle()
