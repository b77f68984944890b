"""A1: looks that wait for one of SQLite's readers share a transaction, and nobody can tell but by the clock:
each sees all that was committed before it was asked for, and has its own answer or its own error."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import OperationalError

from berthold.errors import NotFound, Unavailable
from berthold.ledger import calls
from berthold.ledger.shared_reads import READERS, see_the_present
from berthold.ledger.store import Store, Tx

LONG_S = 30.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    path = tmp_path / "things.db"
    with sqlite3.connect(path) as connection:
        connection.executescript("PRAGMA journal_mode=WAL; CREATE TABLE thing (name TEXT)")
    store = Store(f"sqlite:///{path}")
    yield store
    store.close()


class Held:
    """Looks that keep every reader busy, each in a transaction that has begun, until told to go on."""

    def __init__(self, store: Store, readers: int = READERS) -> None:
        self._store = store
        self._readers = readers
        self._begun = threading.Semaphore(0)
        self._go_on = threading.Event()

    async def begin(self) -> None:
        self._held = [asyncio.create_task(self._store.read(self._hold)) for _ in range(self._readers)]
        for _ in self._held:
            assert await asyncio.to_thread(self._begun.acquire, True, LONG_S)

    async def end(self) -> None:
        self._go_on.set()
        await asyncio.gather(*self._held)

    def _hold(self, tx: Tx) -> None:
        count(tx)
        self._begun.release()
        assert self._go_on.wait(LONG_S)


def count(tx: Tx) -> int:
    return int(tx.execute(text("SELECT count(*) FROM thing")).scalar_one())


def put(tx: Tx) -> None:
    tx.execute(text("INSERT INTO thing VALUES ('a')"))


def while_held(store: Store, *looks: Callable[[Tx], Any]) -> list[Any]:
    """What came of looks that were asked for while every reader was busy."""

    async def run() -> list[Any]:
        held = Held(store)
        await held.begin()
        waiting = [asyncio.create_task(store.read(look)) for look in looks]
        await asyncio.sleep(0)
        await held.end()
        return await asyncio.gather(*waiting, return_exceptions=True)

    return asyncio.run(run())


@contextmanager
def begins(store: Store) -> Iterator[list[int]]:
    """How many looking transactions begin within."""
    seen = [0]

    def begun(_: Any) -> None:
        seen[0] += 1

    event.listen(store.reader, "begin", begun)
    yield seen
    event.remove(store.reader, "begin", begun)


def test_looks_that_wait_share_a_transaction(store: Store) -> None:
    with begins(store) as seen:
        assert while_held(store, *[count] * 20) == [0] * 20
    # The held ones began theirs before the others were asked for.
    assert READERS < seen[0] <= 2 * READERS


def test_a_look_sees_what_was_committed_before_it_though_an_older_look_is_open(store: Store) -> None:
    async def run() -> int:
        held = Held(store)
        await held.begin()
        await store.write(put)
        look = asyncio.create_task(store.read(count))
        await asyncio.sleep(0)
        await held.end()
        return await look

    assert asyncio.run(run()) == 1


@pytest.mark.parametrize(
    ("needs", "sees"), [(see_the_present, 1), (lambda _: None, 0)], ids=["must", "may not"]
)
def test_who_must_see_the_present_shares_no_transaction_that_began_before(
    store: Store, needs: Callable[[Tx], None], sees: int
) -> None:
    def look(tx: Tx) -> int:
        needs(tx)
        return count(tx)

    async def run() -> int:
        first, second = Held(store), Held(store)
        await first.begin()
        beginning = asyncio.create_task(second.begin())
        await asyncio.sleep(0)
        waiting = asyncio.create_task(store.read(look))  # before the second ones begin
        await asyncio.sleep(0)
        await first.end()
        await beginning
        await store.write(put)
        await second.end()
        return await waiting

    assert asyncio.run(run()) == sees


def test_a_long_look_keeps_nobody_who_can_go_to_another_reader(store: Store) -> None:
    async def run() -> list[int]:
        held = Held(store, READERS - 1)
        await held.begin()
        seen = [await store.read(count) for _ in range(3)]
        await held.end()
        return seen

    assert asyncio.run(run()) == [0, 0, 0]


def test_who_finds_nothing_is_told_so_alone(store: Store) -> None:
    def missing(_: Tx) -> None:
        raise NotFound("no such thing")

    before, error, after = while_held(store, count, missing, count)
    assert (before, str(error), after) == (0, "no such thing", 0)


def test_a_look_that_the_database_refused_is_done_again_alone(store: Store) -> None:
    tries = 0

    def refused_once(tx: Tx) -> int:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise OperationalError("SELECT", {}, sqlite3.OperationalError("database schema has changed"))
        return count(tx)

    assert while_held(store, count, refused_once, count) == [0, 0, 0]
    assert tries == 2


def test_a_database_that_cannot_be_opened_is_told_to_each(store: Store) -> None:
    def opens_never(_: Any) -> None:
        raise calls.known("BEGIN", sqlite3.OperationalError("unable to open database file"), sqlite3)

    async def ask() -> list[Any]:
        looks: list[Awaitable[int]] = [store.read(count) for _ in range(5)]
        return await asyncio.gather(*looks, return_exceptions=True)

    event.listen(store.reader, "begin", opens_never, insert=True)
    assert [type(each) for each in asyncio.run(ask())] == [Unavailable] * 5
    event.remove(store.reader, "begin", opens_never)
    assert asyncio.run(ask()) == [0] * 5


def test_who_was_cancelled_while_it_waited_is_not_done(store: Store) -> None:
    done: list[str] = []

    def look(_: Tx, name: str) -> None:
        done.append(name)

    async def run() -> None:
        held = Held(store)
        await held.begin()
        never, other = (asyncio.create_task(store.read(look, name)) for name in "ab")
        await asyncio.sleep(0)
        never.cancel()
        await asyncio.sleep(0)
        await held.end()
        await other

    asyncio.run(run())
    assert done == ["b"]


def test_a_store_that_is_closed_does_what_waits_and_takes_no_more(store: Store) -> None:
    async def run() -> int:
        held = Held(store)
        await held.begin()
        look = asyncio.create_task(store.read(count))
        await asyncio.sleep(0)
        closing = asyncio.create_task(asyncio.to_thread(store.close))
        await held.end()
        await closing
        with pytest.raises(RuntimeError, match="closed"):
            await store.read(count)
        return await look

    assert asyncio.run(run()) == 0
