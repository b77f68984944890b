"""Shared reads: on SQLite, looks that wait for a reader are done in one transaction.

To begin a transaction costs more than most looks. A look shares the one that is open only if it was
asked for before that began: so it sees all that its caller had committed, as it would have alone.
Each is told as soon as it is done, and a long one keeps nobody who could go to another thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from berthold.ledger.jobs import Job, Jobs, Work, tell
from berthold.ledger.verdicts import Again

log = structlog.get_logger("berthold.ledger")

T = TypeVar("T")

# The engine works in this process: more threads would only hand its interpreter's lock round.
READERS = 2
SHARED = "shared"


class SharedReads:
    """Runs what is given to `run` in threads of its own. `about` and `alone` as for `GroupCommit`."""

    def __init__(self, engine: Engine, about: Mapping[str, Any], alone: Callable[[Work], Any]) -> None:
        self._engine = engine
        self._about = about
        self._alone = alone
        self._jobs = Jobs(self._serve, READERS, "read")

    async def run(self, work: Callable[[Connection], T]) -> T:
        """The result of `work`."""
        return await self._jobs.run(work)

    def close(self) -> None:
        """Do what waits, then end."""
        self._jobs.close()

    def _serve(self, job: Job) -> None:
        waiting: Job | None = job
        while waiting is not None:
            waiting = self._in_company(waiting)

    def _in_company(self, job: Job) -> Job | None:
        """Do the job, and those that may share its transaction; the next one, which may not."""
        latest = self._jobs.latest
        unanswered: Job | None = job
        following: Job | None = None
        try:
            with self._engine.connect() as tx:
                tx.info.update(self._about)
                with tx.begin():
                    while unanswered is not None:
                        unanswered.do(unanswered.work, tx)
                        if isinstance(unanswered.error, Again) and unanswered is not job:
                            unanswered.take_back()
                            return unanswered
                        if isinstance(unanswered.error, DBAPIError):
                            break
                        tell([unanswered])
                        unanswered, following = None, self._jobs.take()
                        if following is not None and following.number <= latest:
                            unanswered, following = following, None
                        tx.info[SHARED] = True
        except SQLAlchemyError as error:
            log.debug("looks are done one by one", reason=str(error))
        if unanswered is not None:
            unanswered.take_back()
            unanswered.do(self._alone, unanswered.work)
            tell([unanswered])
        return following


def see_the_present(tx: Connection) -> None:
    """What follows in `tx` must see all that was told before it. Raises `Again` if `tx` began earlier, for
    somebody else's look: then the work begins anew, in a transaction that begins with it."""
    if tx.info.get(SHARED):
        raise Again
