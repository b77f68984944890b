"""The lab's store and its turns: where an explorer may let somebody else go first."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Dialect, Engine, MetaData

from berthold.clock import Clock
from berthold.database import metadata
from berthold.lab.databases import CLOCK, Database, InFile, InMemory, OnServer, tell_time
from berthold.ledger.bus import Bus
from berthold.ledger.calls import Sharing
from berthold.ledger.store import Statement, Store, Tx
from berthold.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")

_EMPTY: WeakKeyDictionary[MetaData, bytes] = WeakKeyDictionary()
_DIALECT: dict[str, Dialect] = {}
_COMPILED: dict[Any, Any] = {}


@dataclass(frozen=True)
class Turn:
    """Something that happens at one instant: `do` is a transaction, or what an agent does. Where a
    coroutine yields one, an explorer may let others go first, and then sends what `do` gave.
    One that only `looks` leaves the world as it was."""

    name: str
    do: Callable[[], Any]
    looks: bool = False


@coroutine
def turn(name: str, do: Callable[[], T], *, looks: bool = False) -> Generator[Turn, T, T]:
    """One turn, when it is this actor's."""
    return (yield Turn(name, do, looks))


async def stalled(seconds: float) -> None:
    """An agent waits. Whoever drives it by hand may let others go first, or drop it here."""
    await turn("an agent waits", lambda: None)


class LabStore(Store):
    """A store whose transactions run in the caller's own turn, on the caller's own thread.

    While `switching` every transaction is a `Turn`.
    """

    def __init__(self, clock: Clock, url: str = "sqlite://", settings: Settings | None = None) -> None:
        super().__init__(url, clock=clock, settings=settings)
        self.inline = True
        self.switching = False
        self._tables = metadata
        if not self.writer.url.database:
            _alike(self.writer)
        if self._on_server:
            tell_time(self.writer, lambda: self.clock.now())

    @property
    def _on_server(self) -> bool:
        return self.writer.dialect.name == "postgresql"

    async def write(self, f: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self.switching:
            return await turn(f.__name__, lambda: self.write_now(f, *args, **kwargs))
        return self.write_now(f, *args, **kwargs)

    async def read(self, f: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self.switching:
            return await turn(f.__name__, lambda: self.read_now(f, *args, **kwargs), looks=True)
        return self.read_now(f, *args, **kwargs)

    def make(self, tables: MetaData) -> None:
        """Make these tables. In memory what an empty database looks like is worked out once."""
        self._tables = tables
        if self._on_server:
            with self.writer.begin() as connection:
                connection.exec_driver_sql(CLOCK)
        if self.writer.url.database:
            tables.create_all(self.writer)
        elif empty := _EMPTY.get(tables):
            self.database.restore(empty)
        else:
            # There are a hundred and fifty tables and indexes, each with a page at least.
            self.connection().execute("PRAGMA page_size = 1024")
            tables.create_all(self.writer)
            _EMPTY[tables] = self.database.photograph()

    def begin_anew(self, clock: Clock, settings: Settings) -> None:
        """On PostgreSQL: be what it was when its tables were made, but for its connections, which stay."""
        assert isinstance(self.database, OnServer)
        self.clock, self.settings, self.bus = clock, settings, Bus()
        self._about = {"clock": clock, "settings": settings}
        self.switching, self.retries = False, 0
        self.database.empty()

    async def call(
        self, statement: Statement, values: Mapping[str, Any], sharing: Sharing | None = None
    ) -> Any:
        """In a transaction like any other, so that it is a turn like any other."""
        return await self.write(called, statement, values)

    def call_now(self, statement: Statement, values: Mapping[str, Any]) -> Any:
        """As the product does it, past whoever counts commits."""
        try:
            return super().call_now(statement, values)
        finally:
            self.database.changed()

    @cached_property
    def database(self) -> Database:
        """What is looked at, photographed and set back."""
        if self._on_server:
            return OnServer(self.writer, self._tables)
        return InFile(self.connection()) if self.writer.url.database else InMemory(self.connection())

    def connection(self) -> sqlite3.Connection:
        """In memory: the one connection that everything is in."""
        with self.writer.connect() as held:
            raw = held.connection.driver_connection
            assert isinstance(raw, sqlite3.Connection)
            return raw

    def close(self) -> None:
        if "database" in vars(self):
            self.database.close()
        super().close()


def _alike(engine: Engine) -> None:
    """In memory all engines are alike: what one has compiled, all have."""
    if "sqlite" not in _DIALECT:
        engine.connect().close()  # it learns what kind of SQLite this is
        _DIALECT["sqlite"] = engine.dialect
    engine.dialect = _DIALECT["sqlite"]
    engine.update_execution_options(compiled_cache=_COMPILED)


def called(tx: Tx, statement: Statement, values: Mapping[str, Any]) -> Any:
    return tx.execute(statement, values).scalar()


def now(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never really waits, to its end."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise AssertionError("this work waits for something; in the lab nothing may")
