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

from sqlalchemy import event, text

from berthold.ledger.store import Store, Tx

LONG_S = 30.0
TICK_S = 0.02


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
        self._pid = 0
        event.listen(store.writer, "before_cursor_execute", self._before)
        self._thread.start()

    def reached(self) -> Actor:
        """Wait until it has stopped."""
        while not self._reached.wait(TICK_S):
            assert self._thread.is_alive(), f"never came there: {self.result!r}"
        return self

    def waits(self) -> bool:
        """Whether somebody's lock keeps it waiting (PostgreSQL says so); False once it has ended."""
        blocked = text("SELECT cardinality(pg_blocking_pids(:pid)) > 0")
        for _ in range(int(LONG_S / TICK_S)):
            self._thread.join(TICK_S)
            if not self._thread.is_alive():
                return False
            with self._store.writer.connect() as connection:
                if self._pid and connection.execute(blocked, {"pid": self._pid}).scalar_one():
                    return True
        raise AssertionError("an actor neither waits nor ends")

    def go(self) -> Actor:
        """Let it run on."""
        self._go.set()
        return self

    def end(self, within_s: float = LONG_S) -> object:
        """What it returned, or the exception it raised."""
        self._go.set()
        self._thread.join(within_s)
        assert not self._thread.is_alive(), "an actor hangs"
        event.remove(self._store.writer, "before_cursor_execute", self._before)
        return self.result

    def _run(self, f: Callable[..., object], args: tuple[Any, ...]) -> None:
        try:
            self.result = self._store.write_now(f, *args)
        except Exception as error:
            self.result = error

    def _before(self, tx: Tx, _: object, statement: str, *__: object) -> None:
        if threading.current_thread() is not self._thread:
            return
        self._pid = getattr(getattr(tx.connection.dbapi_connection, "info", None), "backend_pid", 0)
        if self._stop and not self._reached.is_set() and self._stop.search(statement):
            self._reached.set()
            assert self._go.wait(LONG_S), "nobody let it go on"
