"""A1, M4: every connection has the settings that promises rest on, or is refused."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError

from berthold.errors import Unavailable
from berthold.ledger.store import IDLE_IN_TRANSACTION_MS, Store, Tx, engine_for


def setting(tx: Tx, name: str) -> str:
    verb = "SHOW" if tx.dialect.name == "postgresql" else "PRAGMA"
    return str(tx.execute(text(f"{verb} {name}")).scalar_one())


def settings(tx: Tx, *names: str) -> dict[str, str]:
    return {name: setting(tx, name) for name in names}


def test_sqlite_writes_and_reads_with_keys_wal_and_full_sync(sqlite_url: str) -> None:
    store = Store(sqlite_url)
    wanted = {"foreign_keys": "1", "journal_mode": "wal", "synchronous": "2"}
    assert store.write_now(settings, *wanted) == wanted
    assert store.read_now(settings, *wanted) == wanted
    store.close()


def test_sqlite_in_memory_keeps_its_foreign_keys() -> None:
    store = Store("sqlite://")
    assert store.write_now(settings, "foreign_keys") == {"foreign_keys": "1"}
    store.close()


def test_postgresql_ends_a_session_that_idles_in_a_transaction(postgresql_url: str) -> None:
    store = Store(postgresql_url)
    names = ("idle_in_transaction_session_timeout", "transaction_isolation", "synchronous_commit")
    wanted = dict(zip(names, (f"{IDLE_IN_TRANSACTION_MS // 1000}s", "read committed", "on"), strict=True))
    assert store.write_now(settings, *names) == wanted
    assert store.read_now(settings, *names) == {**wanted, "transaction_isolation": "repeatable read"}
    store.close()


def test_a_read_writes_nothing(store: Store) -> None:
    """SQLite's reader could; it is never given anything that writes. PostgreSQL's refuses."""
    if store.writer.dialect.name == "postgresql":
        assert store.read_now(settings, "transaction_read_only") == {"transaction_read_only": "on"}


@pytest.mark.parametrize("deaf_to", ["foreign_keys", "synchronous", "journal_mode"])
def test_a_sqlite_that_does_not_do_as_told_is_refused(sqlite_url: str, deaf_to: str) -> None:
    class Deaf(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            told = sql.startswith(f"PRAGMA {deaf_to}=")
            return super().execute(f"PRAGMA {deaf_to}={other}" if told else sql, *parameters)

    other = {"foreign_keys": "OFF", "synchronous": "NORMAL", "journal_mode": "DELETE"}[deaf_to]
    engine = engine_for(sqlite_url)
    opened: list[sqlite3.Connection] = []

    @event.listens_for(engine, "do_connect")
    def connect(*_: object) -> sqlite3.Connection:
        opened.append(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), factory=Deaf))
        return opened[-1]

    with pytest.raises(AssertionError, match=f"SQLite runs with {deaf_to}="):
        engine.connect()
    for each in opened:
        each.close()
    engine.dispose()


@pytest.mark.parametrize("milliseconds", [0, IDLE_IN_TRANSACTION_MS + 1])
def test_a_postgresql_that_lets_sessions_idle_is_refused(postgresql_url: str, milliseconds: int) -> None:
    engine = engine_for(postgresql_url)

    @event.listens_for(engine, "do_connect")
    def connect(_: object, __: object, ___: object, parameters: dict[str, Any]) -> None:
        parameters["options"] = f"-c idle_in_transaction_session_timeout={milliseconds}"

    opened: list[Any] = []

    @event.listens_for(engine, "connect", insert=True)
    def remember(connection: Any, _: object) -> None:
        opened.append(connection)

    with pytest.raises(AssertionError, match="promise M4 needs"):
        engine.connect()
    for each in opened:
        each.close()
    engine.dispose()


def test_a_database_that_is_not_there_is_unavailable_and_a_faulty_statement_is_a_bug(store: Store) -> None:
    with pytest.raises(DBAPIError, match="nothing_of_the_kind"):
        store.read_now(lambda tx: tx.execute(text("SELECT 1 FROM nothing_of_the_kind")))
    away = {
        "postgresql": "postgresql+psycopg://nobody@127.0.0.1:1/none",
        "sqlite": "sqlite:////nowhere/berthold.db",
    }[store.writer.dialect.name]
    nowhere = Store(away)
    for ask in (nowhere.read_now, nowhere.write_now):
        with pytest.raises(Unavailable, match="does not answer"):
            ask(lambda tx: tx.execute(text("SELECT 1")))
    nowhere.close()
