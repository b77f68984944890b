"""Work that threads do for an event loop: jobs in one queue, and the threads that take from it.

Less than `run_in_executor`, since it is met several times by each request: one queue without a lock
of Python's, one future for each job, and a thread that is at work looks for the next job by itself.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection

log = structlog.get_logger("berthold.ledger")

Work = Callable[[Connection], Any]
T = TypeVar("T")


class Job:
    """One piece of work: what came of it, and who waits for that. `number` rises from job to job."""

    def __init__(self, work: Work, loop: asyncio.AbstractEventLoop, number: int) -> None:
        self.work = work
        self.loop = loop
        self.number = number
        self.future: asyncio.Future[Any] = loop.create_future()
        self.topics: list[str] = []
        self.take_back()

    def take_back(self) -> None:
        """As if it had not been done."""
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
        """Tell who waits; in the loop's own thread."""
        if self.future.done():
            return
        if self._is_done:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error or RuntimeError("it was not done"))


class Jobs:
    """A queue of jobs and its threads, which begin with the first job. `serve` is called in one of them with
    a job; it may `take` further ones, and settles all that it has taken."""

    def __init__(self, serve: Callable[[Job], None], threads: int, name: str) -> None:
        self.latest = 0
        self._serve = serve
        self._waiting: SimpleQueue[Job | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}_{n}", daemon=True) for n in range(threads)
        ]
        self._changing = threading.Lock()
        self._begun = self._closed = False

    async def run(self, work: Callable[[Connection], T]) -> T:
        """The result of `work`, once it is done."""
        loop = asyncio.get_running_loop()
        with self._changing:
            if self._closed:
                raise RuntimeError("the store is closed")
            if not self._begun:
                self._begin()
            self.latest += 1
            job = Job(work, loop, self.latest)
            self._waiting.put(job)
        result: T = await job.future
        return result

    def take(self) -> Job | None:
        """The next job that waits already, if one does."""
        try:
            while (job := self._waiting.get_nowait()) is not None:
                if not job.future.cancelled():
                    return job
            self._waiting.put(None)  # the word that ends a thread is for one that waits
        except Empty:
            pass
        return None

    def close(self) -> None:
        """Do what waits, then end."""
        with self._changing:
            self._closed = True
        if self._begun:
            self._waiting.put(None)
            for thread in self._threads:
                thread.join()

    def _begin(self) -> None:
        for thread in self._threads:
            thread.start()
        self._begun = True

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None:
            if job.future.cancelled():
                continue
            try:
                self._serve(job)
            except Exception:
                log.exception("a worker failed that must not")
        self._waiting.put(None)  # for the next thread


def tell(jobs: Sequence[Job]) -> None:
    """Tell whoever waits for these, from another thread; each loop once, since to wake one costs as much as
    what it is woken for."""
    for loop in {job.loop for job in jobs}:
        with suppress(RuntimeError):  # it is closed: nobody waits
            loop.call_soon_threadsafe(_settle, [job for job in jobs if job.loop is loop])


def _settle(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.settle()
