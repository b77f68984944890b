"""A1: transactions that wait for SQLite's one writer share a commit, and nobody can tell but by the clock:
each is whole or not there, told after the commit only, and pays for nobody else's fault."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import IntegrityError

from berthold.errors import Refused, Unavailable
from berthold.ledger import calls
from berthold.ledger.store import Store, Tx, announce
from berthold.ledger.verdicts import Again

LONG_S = 30.0
TABLES = """
CREATE TABLE box (name TEXT PRIMARY KEY);
CREATE TABLE thing (
    name TEXT PRIMARY KEY CHECK (name <> 'bad'),
    box TEXT REFERENCES box DEFERRABLE INITIALLY DEFERRED
);
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    path = tmp_path / "things.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(TABLES)
    store = Store(f"sqlite:///{path}")
    yield store
    store.close()


def put(tx: Tx, name: str, box: str | None = None) -> int:
    """How many there are with it."""
    tx.execute(text("INSERT INTO thing VALUES (:name, :box)"), {"name": name, "box": box})
    announce(tx, name)
    return int(tx.execute(text("SELECT count(*) FROM thing")).scalar_one())


def things(store: Store) -> set[str]:
    return set(store.read_now(lambda tx: tx.execute(text("SELECT name FROM thing")).scalars().all()))


def in_company(store: Store, *works: Callable[[Tx], Any]) -> tuple[list[Any], int]:
    """What came of works that all waited for the writer when it became free; how many commits they took."""
    begun, go_on, commits = threading.Event(), threading.Event(), 0

    def committed(_: Any) -> None:
        nonlocal commits
        commits += 1

    def hold(_: Tx) -> None:
        begun.set()
        assert go_on.wait(LONG_S)

    async def run() -> list[Any]:
        first = asyncio.create_task(store.write(hold))
        assert await asyncio.to_thread(begun.wait, LONG_S)
        waiting = [asyncio.create_task(store.write(work)) for work in works]
        await asyncio.sleep(0)
        go_on.set()
        await first
        return await asyncio.gather(*waiting, return_exceptions=True)

    event.listen(store.writer, "commit", committed)
    try:
        return asyncio.run(run()), commits - 1
    finally:
        event.remove(store.writer, "commit", committed)


def puts(*names: str) -> Sequence[Callable[[Tx], int]]:
    return [lambda tx, name=name: put(tx, name) for name in names]  # type: ignore[misc]


def test_who_waits_shares_one_commit_and_sees_who_came_before(store: Store) -> None:
    assert in_company(store, *puts("a", "b", "c", "d")) == ([1, 2, 3, 4], 1)
    assert things(store) == {"a", "b", "c", "d"}


def test_who_is_alone_has_a_transaction_as_ever(store: Store) -> None:
    assert asyncio.run(store.write(put, "a")) == 1
    assert things(store) == {"a"}


def test_who_is_refused_takes_only_itself_back(store: Store) -> None:
    def refused(tx: Tx) -> None:
        put(tx, "never")
        raise Refused("C1", "no room")

    (before, error, after), commits = in_company(store, *puts("a"), refused, *puts("b"))
    assert (before, str(error), after, commits) == (1, "no room", 2, 1)
    assert things(store) == {"a", "b"}


@pytest.mark.parametrize(
    ("name", "box", "constraint"),
    [("bad", None, "CHECK"), ("a", None, "UNIQUE"), ("boxed", "no box", "FOREIGN KEY")],
    ids=["at once", "at once, against one in its company", "at the end"],
)
def test_a_broken_constraint_is_told_to_who_broke_it_whenever_it_is_judged(
    store: Store, name: str, box: str | None, constraint: str
) -> None:
    (before, error, after), _ = in_company(store, *puts("a"), lambda tx: put(tx, name, box), *puts("b"))
    assert isinstance(error, IntegrityError)
    assert constraint in str(error.orig)
    assert (before, after) == (1, 2)
    assert things(store) == {"a", "b"}


def test_who_must_begin_anew_does_so_alone(store: Store) -> None:
    tries = 0

    def comes_late(tx: Tx) -> int:
        nonlocal tries
        tries += 1
        if tries == 1:
            put(tx, "half")
            raise Again
        return put(tx, "late")

    assert in_company(store, comes_late, *puts("a")) == ([2, 1], 2)
    assert tries == 2
    assert things(store) == {"a", "late"}


def test_topics_are_told_after_the_commit_and_only_of_what_was_done(store: Store) -> None:
    told: list[tuple[str, bool]] = []

    def hear(topics: list[str]) -> None:
        told.extend((topic, topic in things(store)) for topic in topics)

    def refused(tx: Tx) -> None:
        put(tx, "never")
        raise Refused("C1", "no room")

    store.bus.hear(hear)
    in_company(store, *puts("a"), refused, *puts("b"))
    assert told == [("a", True), ("b", True)]


def test_a_disk_that_fails_at_the_commit_is_told_to_all_and_nothing_is_done_twice(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, commits, runs = store.writer.dialect.do_commit, 0, 0

    def fails_the_second_time(connection: Any) -> None:
        nonlocal commits
        commits += 1
        if commits == 2:
            raise sqlite3.OperationalError("disk I/O error")
        commit(connection)

    def count(tx: Tx) -> None:
        nonlocal runs
        runs += 1
        put(tx, f"thing {runs}")

    monkeypatch.setattr(store.writer.dialect, "do_commit", fails_the_second_time)
    errors, _ = in_company(store, count, count, count)
    assert [type(each) for each in errors] == [Unavailable] * 3
    assert runs == 3
    assert things(store) == set()
    assert asyncio.run(store.write(put, "later")) == 1


def test_who_was_cancelled_while_it_waited_is_not_done(store: Store) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hold(_: Tx) -> None:
        begun.set()
        assert go_on.wait(LONG_S)

    async def run() -> int:
        first = asyncio.create_task(store.write(hold))
        assert await asyncio.to_thread(begun.wait, LONG_S)
        cancelled, other = (asyncio.create_task(store.write(put, name)) for name in ("never", "a"))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.sleep(0)
        go_on.set()
        await first
        return await other

    assert asyncio.run(run()) == 1
    assert things(store) == {"a"}


def test_a_bug_in_one_is_told_to_its_caller_alone(store: Store) -> None:
    def bug(_: Tx) -> None:
        raise ZeroDivisionError

    (before, error, after), _ = in_company(store, *puts("a"), bug, *puts("b"))
    assert (before, type(error), after) == (1, ZeroDivisionError, 2)


def test_a_database_that_cannot_be_opened_for_a_company_is_told_to_each(store: Store) -> None:
    begun = 0

    def opens_once(_: Any) -> None:
        nonlocal begun
        begun += 1
        if begun > 1:
            raise calls.known("BEGIN", sqlite3.OperationalError("unable to open database file"), sqlite3)

    event.listen(store.writer, "begin", opens_once, insert=True)
    errors, _ = in_company(store, *puts("a", "b"))
    event.remove(store.writer, "begin", opens_once)
    assert [type(each) for each in errors] == [Unavailable] * 2
    assert things(store) == set()
