"""Group commit: on SQLite, transactions that wait for the one writer share its next commit.

A commit waits for the disk, and there is one writer; what comes meanwhile would wait for as many disks.
So all that wait are run one after another, each in a savepoint of its own, and are committed together.
Each sees what those before it wrote, as it would have. Nobody is told anything before the commit. One
that fails takes only itself back. What the database refuses, in one or for all of them, is done again
with a transaction to itself, so that each has its own error and its own new tries.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, IntegrityError

from berthold.ledger.bus import Bus
from berthold.ledger.jobs import Job, Jobs, Work, tell
from berthold.ledger.verdicts import Again, told

T = TypeVar("T")

# So long do those wait that come next, and the database's other processes.
AT_MOST = 32
SAVEPOINT = "one_of_many"


class GroupCommit:
    """Runs what is given to `run` in a thread of its own. `about`: what work may know of its transaction
    (`tx.info`); `alone` runs one piece of work in a transaction of its own, as a store does."""

    def __init__(
        self, engine: Engine, bus: Bus, about: Mapping[str, Any], alone: Callable[[Work], Any]
    ) -> None:
        self._engine = engine
        self._bus = bus
        self._about = about
        self._alone = alone
        self._jobs = Jobs(self._serve, threads=1, name="write")

    async def run(self, work: Callable[[Connection], T]) -> T:
        """The result of `work`, once it is committed."""
        return await self._jobs.run(work)

    def close(self) -> None:
        """Do what waits, then end."""
        self._jobs.close()

    def _serve(self, first: Job) -> None:
        jobs = [first]
        while len(jobs) < AT_MOST and (job := self._jobs.take()) is not None:
            jobs.append(job)
        try:
            if len(jobs) > 1:
                self._together(jobs)
            for job in jobs:
                if not job.is_done:
                    job.do(self._alone, job.work)
        finally:
            tell(jobs)

    def _together(self, jobs: Sequence[Job]) -> None:
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


def _within(tx: Connection, job: Job) -> None:
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
