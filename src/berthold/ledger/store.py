"""Transactions: `await store.write(f, …)` runs `f(tx, …)` in one and retries what may be retried.

A transaction is a plain synchronous function. It cannot wait half-way for anything but the
database, it may be run again from its start, and a test needs no event loop for it: the
same `f(tx, …)` runs under `Store.write_now`.

Two engines, one text. PostgreSQL: READ COMMITTED, a few connections in worker threads.
SQLite: one writer thread (`BEGIN IMMEDIATE`), whose commits are shared (`group_commit`), a second
engine for reads that never makes a writer wait (`shared_reads`); in memory, one connection for both.
Every connection asserts its settings when it is opened, since promises rest on them.

Topics that `f` names with `announce(tx, topic)` reach `store.bus` after the commit, and
only if there was one.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Connection, Engine, Select, create_engine, event, func, literal
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from berthold.clock import Clock, SystemClock
from berthold.errors import Unavailable
from berthold.ledger import calls
from berthold.ledger.bus import Bus
from berthold.ledger.calls import AT_ONCE, Calls, Lost, Sharing
from berthold.ledger.group_commit import GroupCommit
from berthold.ledger.shared_reads import SHARED, SharedReads
from berthold.ledger.verdicts import Again, may_retry, told
from berthold.settings import Settings

Tx = Connection
Statement = Select[Any]
P = ParamSpec("P")
T = TypeVar("T")

# M4: a worker that stops inside a transaction holds its rows, and SKIP LOCKED hides them;
# PostgreSQL ends such a session after this long.
IDLE_IN_TRANSACTION_MS = 2000
STATEMENT_TIMEOUT_MS = 30_000
TRIES = 20
READ_TRIES = 3
POSTGRESQL_CONNECTIONS = 6
POSTGRESQL_READERS = 4
BUSY_MS = 10_000
LOST = "the database was lost while it committed; look whether it was done"
BUSY = "the database is too busy with this record; try again"


class Store:
    """The door to the database. `url` is SQLAlchemy's; `sqlite://` is in memory."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        bus: Bus | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.url = url
        self.clock: Clock = clock or SystemClock()
        self.bus = bus or Bus()
        self.settings = settings or Settings()
        self.inline = url == "sqlite://"
        self.writer = engine_for(url, "IMMEDIATE")
        self.reader = self.writer
        if self.writer.dialect.name == "sqlite" and not self.inline:
            self.reader = engine_for(url, "DEFERRED")
        if self.writer.dialect.name == "postgresql":
            self.reader = self.writer.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
        self.retries = 0
        self.calls = Calls(self.writer)
        self._about = {"clock": self.clock, "settings": self.settings, SHARED: False}
        self._writers = ThreadPoolExecutor(POSTGRESQL_CONNECTIONS, "write")
        self._readers = ThreadPoolExecutor(POSTGRESQL_READERS, "read")
        self._shared_writes: GroupCommit | None = None
        self._shared_reads: SharedReads | None = None
        if self.writer.dialect.name == "sqlite":
            self._shared_writes = GroupCommit(self.writer, self.bus, self._about, self.write_now)
            self._shared_reads = SharedReads(self.reader, self._about, self.read_now)

    async def write(self, f: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `f(tx, …)` in a transaction that changes something; its result once committed.

        Raises what `f` raises, with nothing stored, and `Unavailable` when the database does
        not answer.
        """
        if self.inline:
            return self.write_now(f, *args, **kwargs)
        if self._shared_writes is not None:
            return await self._shared_writes.run(lambda tx: f(tx, *args, **kwargs))
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._writers, lambda: self.write_now(f, *args, **kwargs))

    async def read(self, f: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `f(tx, …)` in a transaction that only looks, on one snapshot where the engine has one."""
        if self.inline:
            return self.read_now(f, *args, **kwargs)
        if self._shared_reads is not None:
            return await self._shared_reads.run(lambda tx: f(tx, *args, **kwargs))
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, lambda: self.read_now(f, *args, **kwargs))

    def write_now(self, f: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`write`, in the caller's own thread."""
        for left in reversed(range(TRIES)):
            topics: list[str] = []
            committing = False
            try:
                with self.writer.connect() as tx:
                    tx.info.update(self._about, topics=topics)
                    with tx.begin():
                        result = f(tx, *args, **kwargs)
                        committing = True
            except Again as error:
                if not left:
                    raise Unavailable("this record changes too often just now; try again") from error
                self.retries += 1
                continue
            except DBAPIError as error:
                if committing and error.connection_invalidated:
                    # Done twice may be worse than not known.
                    raise Unavailable(LOST) from error
                if not may_retry(error):
                    raise told(error) from error
                if not left:
                    raise Unavailable(BUSY) from error
                self.retries += 1
                continue
            if topics:
                self.bus.tell(topics)
            return result
        raise AssertionError("unreachable: the last try returns or raises")

    def read_now(self, f: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`read`, in the caller's own thread."""
        for left in reversed(range(READ_TRIES)):
            try:
                with self.reader.connect() as tx:
                    tx.info.update(self._about)
                    with tx.begin():
                        return f(tx, *args, **kwargs)
            except DBAPIError as error:
                if not left or not may_retry(error):
                    raise told(error) from error
        raise AssertionError("unreachable: the last try returns or raises")

    async def call(
        self, statement: Statement, values: Mapping[str, Any], sharing: Sharing | None = None
    ) -> Any:
        """Run one statement that is a transaction of its own, in one round trip; its first value.

        PostgreSQL only. Those that wait may share one (`sharing`), and each is answered for itself.
        It is begun anew as `write` begins anew; once it may have been done, never.
        """
        return await self._call(statement, values, sharing)

    def call_now(self, statement: Statement, values: Mapping[str, Any]) -> Any:
        """`call`, in the caller's own thread, which runs no event loop."""
        return asyncio.run(self._call(statement, values, None))

    async def _call(self, statement: Statement, values: Mapping[str, Any], sharing: Sharing | None) -> Any:
        for left in reversed(range(TRIES)):
            try:
                return await self.calls.run(statement, values, sharing)
            except Lost as error:
                raise Unavailable(LOST) from error
            except DBAPIError as error:
                if not may_retry(error):
                    raise told(error) from error
                if not left:
                    raise Unavailable(BUSY) from error
                self.retries += 1
        raise AssertionError("unreachable: the last try returns or raises")

    def close(self) -> None:
        """Finish what runs, then close every connection."""
        for shared in (self._shared_writes, self._shared_reads):
            if shared is not None:
                shared.close()
        self._writers.shutdown(wait=True)
        self._readers.shutdown(wait=True)
        self.writer.dispose()
        self.reader.dispose()


def announce(tx: Tx, topic: str) -> None:
    """Tell `topic` to whoever waits for it, once this transaction is committed."""
    topics: list[str] = tx.info["topics"]
    topics.append(topic)


def clock_of(tx: Tx) -> Clock:
    """Where this transaction's ids, moments and random choices come from."""
    clock: Clock = tx.info["clock"]
    return clock


def settings_of(tx: Tx) -> Settings:
    """How the cloud behaves whose transaction this is."""
    settings: Settings = tx.info["settings"]
    return settings


def moment(tx: Tx) -> float:
    """The present, for what people read; leases are judged by `now`."""
    return clock_of(tx).now()


def now(tx: Tx) -> ColumnElement[Any]:
    """The present as a SQL expression; on PostgreSQL the database's own clock, for all alike."""
    if tx.dialect.name == "postgresql":
        return func.extract("epoch", func.clock_timestamp())
    return literal(clock_of(tx).now())


def insert(tx: Tx, table: Any) -> Any:
    """An INSERT that knows ON CONFLICT on either engine."""
    return postgresql_insert(table) if tx.dialect.name == "postgresql" else sqlite_insert(table)


class Insert:
    """An INSERT with its ON CONFLICT, built once for each engine: to build a statement costs several times
    as much as to run it. `TAKE = Insert(seat, lambda row: row.on_conflict_do_nothing())`, then
    `tx.execute(TAKE(tx), {"seat": 1, …})`."""

    def __init__(self, table: Any, more: Callable[[Any], Any]) -> None:
        self._postgresql = more(postgresql_insert(table))
        self._sqlite = more(sqlite_insert(table))

    def __call__(self, tx: Tx) -> Any:
        return self.on(tx.dialect.name)

    def on(self, dialect: str) -> Any:
        """The statement for one engine."""
        return self._postgresql if dialect == "postgresql" else self._sqlite


def greatest(tx: Tx, a: Any, b: Any) -> ColumnElement[int]:
    """The larger of two SQL expressions."""
    return func.greatest(a, b) if tx.dialect.name == "postgresql" else func.max(a, b)


def engine_for(url: str, begin: str = "IMMEDIATE") -> Engine:
    """An engine whose every connection has, and has proved, the settings that promises rest on.

    Its log and its errors show statements and never their values, which may be users' secrets.
    """
    if url.startswith("sqlite"):
        return _sqlite(url, begin)
    return _postgresql(url)


def _sqlite(url: str, begin: str) -> Engine:
    in_memory = url == "sqlite://"
    engine = create_engine(
        url,
        hide_parameters=True,
        json_deserializer=msgspec.json.decode,
        connect_args={"check_same_thread": False, "timeout": BUSY_MS / 1000},
        **({"poolclass": StaticPool} if in_memory else {}),
    )

    @event.listens_for(engine, "connect")
    def settings(connection: sqlite3.Connection, _: Any) -> None:
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "foreign_keys=ON", "synchronous=FULL"):
            connection.execute(f"PRAGMA {pragma}")
        wanted = {"foreign_keys": 1, "synchronous": 2, "journal_mode": "memory" if in_memory else "wal"}
        for pragma, value in wanted.items():
            got = connection.execute(f"PRAGMA {pragma}").fetchone()[0]
            assert got == value, f"SQLite runs with {pragma}={got}; the promises need {value}"

    statement = f"BEGIN {begin}"

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        try:
            driver.execute(statement)
        except sqlite3.Error as error:
            raise calls.known(statement, error, sqlite3) from error

    return engine


def _postgresql(url: str) -> Engine:
    settings = (
        f"-c idle_in_transaction_session_timeout={IDLE_IN_TRANSACTION_MS}"
        f" -c statement_timeout={STATEMENT_TIMEOUT_MS}"
    )
    engine = create_engine(
        url,
        isolation_level="READ COMMITTED",
        pool_size=POSTGRESQL_CONNECTIONS,
        max_overflow=POSTGRESQL_READERS + AT_ONCE,
        pool_use_lifo=True,  # what was used last is warm
        pool_pre_ping=False,
        hide_parameters=True,
        json_deserializer=msgspec.json.decode,
        connect_args={"options": settings, "connect_timeout": 5, "keepalives_idle": 2, "keepalives_count": 3},
    )

    @event.listens_for(engine, "connect")
    def proof(connection: Any, _: Any) -> None:
        got = connection.execute(
            "SELECT setting::int FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'"
        ).fetchone()[0]
        connection.rollback()
        assert 0 < got <= IDLE_IN_TRANSACTION_MS, (
            f"PostgreSQL runs with idle_in_transaction_session_timeout={got} ms; promise M4 needs"
            f" at most {IDLE_IN_TRANSACTION_MS}"
        )

    return engine
