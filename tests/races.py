"""Races with real threads: everybody at once, or one stopped between two of its statements.

`race` starts callables together. `Actor` runs a transaction in a thread of its own and can be
stopped before a statement that a pattern matches, so that a test says exactly who is where
when the other one comes. The stop is made by SQLAlchemy's own events; nothing in the ledger
knows of it.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from berthold.ledger.store import Store, Tx

LONG_S = 30.0
# A thread that is still running after this long waits for somebody's lock.
WAITS_S = 0.3


def race(calls: Sequence[Callable[[], object]]) -> list[object]:
    """Call all at once, each in a thread of its own; what each returned, or the exception it raised."""
    results: list[object] = [None] * len(calls)
    line = threading.Barrier(len(calls))

    def run(number: int) -> None:
        line.wait(LONG_S)
        try:
            results[number] = calls[number]()
        except Exception as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)
        assert not thread.is_alive(), "a racer hangs"
    return results


def writing(store: Store, f: Callable[..., object], *args: Any) -> Callable[[], object]:
    """`f(tx, *args)` by the way every process takes: `await store.write(…)`."""
    return lambda: asyncio.run(store.write(f, *args))


@contextmanager
def processes(url: str, count: int = 4) -> Iterator[list[Store]]:
    """As many stores as a cloud has control processes."""
    stores = [Store(url) for _ in range(count)]
    try:
        yield stores
    finally:
        for store in stores:
            store.close()


class Actor:
    """A transaction in a thread that stops before the first statement matching `stop`."""

    def __init__(self, store: Store, f: Callable[..., object], *args: Any, stop: str | None = None) -> None:
        self.result: object = None
        self._stop = re.compile(stop, re.I | re.S) if stop else None
        self._reached = threading.Event()
        self._go = threading.Event()
        self._store = store
        self._thread = threading.Thread(target=self._run, args=(f, args))
        if self._stop:
            event.listen(store.writer, "before_cursor_execute", self._before)
        self._thread.start()

    def reached(self) -> Actor:
        """Wait until it has stopped."""
        while not self._reached.wait(WAITS_S):
            assert self._thread.is_alive(), f"never came there: {self.result!r}"
        return self

    def waits(self) -> bool:
        """Whether it is kept waiting by somebody."""
        self._thread.join(WAITS_S)
        return self._thread.is_alive()

    def go(self) -> Actor:
        """Let it run on."""
        self._go.set()
        return self

    def end(self, within_s: float = LONG_S) -> object:
        """What it returned, or the exception it raised."""
        self._go.set()
        self._thread.join(within_s)
        assert not self._thread.is_alive(), "an actor hangs"
        if self._stop:
            event.remove(self._store.writer, "before_cursor_execute", self._before)
        return self.result

    def _run(self, f: Callable[..., object], args: tuple[Any, ...]) -> None:
        try:
            self.result = self._store.write_now(f, *args)
        except Exception as error:
            self.result = error

    def _before(self, _: Tx, __: object, statement: str, *___: object) -> None:
        mine = threading.current_thread() is self._thread
        if mine and self._stop and not self._reached.is_set() and self._stop.search(statement):
            self._reached.set()
            assert self._go.wait(LONG_S), "nobody let it go on"
