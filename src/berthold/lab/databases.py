"""What the lab does with a world's database beside transactions: it looks often, takes photographs, and
says what time it is. The same on both engines.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import psycopg
from psycopg.adapt import Loader
from sqlalchemy import Connection, Engine, MetaData, event

Rows = list[tuple[Any, ...]]
Look = tuple[Any, ...]  # a query, and its values
Kept = tuple[dict[str, str], dict[str, tuple[Any, ...]]]  # the rows of each table, and where sequences are

# The same name and arguments as PostgreSQL's own; found before it on the connections of a lab.
CLOCK = """
CREATE SCHEMA IF NOT EXISTS lab;
CREATE OR REPLACE FUNCTION lab.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS
    $$ SELECT pg_catalog.to_timestamp(pg_catalog.current_setting('lab.now')::float8) $$;
"""
SEARCH_PATH = "SET search_path = public, lab, pg_catalog"
# What is written anywhere is written there first.
WRITTEN = "SELECT pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_insert_lsn(), '0/0')::bigint"
SEQUENCES = "SELECT quote_ident(sequencename) FROM pg_sequences WHERE schemaname = 'public'"


class Database(ABC):
    """A database that one world has for itself."""

    # Whether rows that come back lie where they lay before, which on PostgreSQL has to be seen to.
    in_place = True

    def __init__(self) -> None:
        self._seen: dict[Look, Rows] = {}
        self._seen_at = -1

    def select(self, query: str, *values: Any) -> Rows:
        """The rows of a query (values where `?` is), quicker than in a transaction of SQLAlchemy's, and as
        they were found before if nothing has been written since. Documents come as text."""
        self._forget()
        if (found := self._seen.get((query, *values))) is None:
            found = self._seen[query, *values] = self._select(query, *values)
        return found

    def _forget(self) -> None:
        """What was found before the last change."""
        if (changes := self.changes()) != self._seen_at:
            self._seen.clear()
            self._seen_at = changes

    @abstractmethod
    def look_ahead(self, *looks: Look) -> None:
        """These will be asked for next; where each costs a round trip they are found in one."""

    @abstractmethod
    def changes(self) -> int:
        """Rises whenever anything is written."""

    @abstractmethod
    def changed(self) -> None:
        """Something was written, past whoever counts commits."""

    @abstractmethod
    def photograph(self) -> Any:
        """Everything that is in it, to come back to with `restore`."""

    @abstractmethod
    def restore(self, photograph: Any) -> None:
        """Go back to that."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _select(self, query: str, *values: Any) -> Rows: ...


class InMemory(Database):
    """SQLite: the one connection that everything is in."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        super().__init__()
        self.raw = raw

    def _select(self, query: str, *values: Any) -> Rows:
        return self.raw.execute(query, values).fetchall()

    def look_ahead(self, *looks: Look) -> None:
        """Nothing is gained by it."""

    def changes(self) -> int:
        return self.raw.total_changes

    def changed(self) -> None:
        """It counts by itself."""

    def photograph(self) -> bytes:
        return self.raw.serialize()

    def restore(self, photograph: bytes) -> None:
        self.raw.deserialize(photograph)
        self._seen.clear()  # and nothing counts as changed

    def close(self) -> None:
        """It ends with its engine."""


class InFile(InMemory):
    """SQLite: a connection to a file, into which others write too."""

    def changes(self) -> int:
        return self._seen_at + 1


class OnServer(Database):
    """PostgreSQL: a connection beside those of the store, on which every statement is a transaction."""

    def __init__(self, engine: Engine, tables: MetaData) -> None:
        super().__init__()
        proxied = engine.raw_connection()
        connection: Any = proxied.driver_connection
        proxied.detach()
        self._connection: psycopg.Connection[Any] = connection
        self._connection.autocommit = True
        self._connection.execute("SET jit = off")
        for name in ("json", "jsonb"):
            self._connection.adapters.register_loader(name, AsText)
        self._connection.prepared_max = 1000
        self._cursors: defaultdict[str, psycopg.RawCursor[Any]] = defaultdict(self._new_cursor)
        self._tables = [table.name for table in tables.sorted_tables]
        self._filled = " UNION ALL ".join(
            f"SELECT '{name}' WHERE EXISTS (SELECT FROM {name})" for name in self._tables
        )
        self._written, self._may_have_changed = 0, True
        event.listen(engine, "commit", self._committed)

    def _new_cursor(self) -> psycopg.RawCursor[Any]:
        return psycopg.RawCursor(self._connection)

    def _committed(self, tx: Connection) -> None:
        if not tx.get_execution_options().get("postgresql_readonly"):
            self.changed()

    def changed(self) -> None:
        self._may_have_changed = True

    def _select(self, query: str, *values: Any) -> Rows:
        return self._sent(query, *values).fetchall()

    def _sent(self, query: str, *values: Any) -> psycopg.RawCursor[Any]:
        return self._cursors[query].execute(numbered(query), values, prepare=True)

    def look_ahead(self, *looks: Look) -> None:
        self._forget()
        with self._connection.pipeline():
            sent = {look: self._sent(*look) for look in looks if look not in self._seen}
        self._seen |= {look: cursor.fetchall() for look, cursor in sent.items()}

    def changes(self) -> int:
        if self._may_have_changed:
            self._may_have_changed = False
            self._written = self._select(WRITTEN)[0][0]
        return self._written

    def photograph(self) -> Kept:
        with self._connection.pipeline():
            sent = {name: self._sent(f"SELECT json_agg(it)::text FROM {name} it") for name in self._tables}
            at = {
                name: self._sent(f"SELECT last_value, is_called FROM {name}") for (name,) in self._sequences
            }
        tables = {name: cursor.fetchall()[0][0] for name, cursor in sent.items()}
        return (
            {name: rows for name, rows in tables.items() if rows},
            {name: cursor.fetchall()[0] for name, cursor in at.items()},
        )

    def restore(self, photograph: Kept) -> None:
        tables, sequences = photograph
        filled = {name for (name,) in self._select(self._filled)}
        with self._connection.pipeline(), self._connection.transaction():
            for name in reversed(self._tables):
                if name in filled:
                    self._sent(f"DELETE FROM {name}")
        if self.in_place and filled:
            # It keeps later runs as quick as the first, too.
            self._connection.execute(f"VACUUM {', '.join(filled)}")
        with self._connection.pipeline(), self._connection.transaction():
            for name, rows in tables.items():
                self._sent(
                    f"INSERT INTO {name} OVERRIDING SYSTEM VALUE"
                    f" SELECT * FROM json_populate_recordset(NULL::{name}, ?)",
                    rows,
                )
            for name, (last, called) in sequences.items():
                self._sent("SELECT setval(?::regclass, ?, ?)", name, last, called)
        self._may_have_changed = True

    def empty(self) -> None:
        """Take everything out of it."""
        self.restore(({}, {name: (1, False) for (name,) in self._sequences}))

    @cached_property
    def _sequences(self) -> Rows:
        return self._select(SEQUENCES)

    def close(self) -> None:
        self._connection.close()


class AsText(Loader):
    """A document as it is stored, as on SQLite."""

    def load(self, data: Any) -> str:
        return bytes(data).decode()


@cache
def numbered(query: str) -> bytes:
    """The query with its values as PostgreSQL marks them."""
    first, *rest = query.split("?")
    return (first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))).encode()


def tell_time(engine: Engine, now: Callable[[], float]) -> None:
    """Let whoever asks PostgreSQL on a connection of this engine what time it is be told `now()`, once
    `CLOCK` is there. A connection hears of it when it is lent out: no time passes in a transaction."""

    @event.listens_for(engine, "connect")
    def prefer(connection: psycopg.Connection[Any], _: Any) -> None:
        connection.execute(SEARCH_PATH)
        connection.commit()

    @event.listens_for(engine, "checkout")
    def tell(connection: psycopg.Connection[Any], record: Any, _: Any) -> None:
        if record.info.get("lab.now") != (present := now()):
            connection.autocommit = True
            connection.execute("SELECT set_config('lab.now', %s, false)", (repr(present),))
            connection.autocommit = False
            record.info["lab.now"] = present
