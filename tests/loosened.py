"""The schema without one of its named constraints, to show that it is the one that refuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Constraint, ForeignKeyConstraint, Index, Table
from sqlalchemy.schema import ColumnCollectionConstraint, CreateIndex, CreateTable

from berthold.database import metadata
from berthold.ledger import schema
from berthold.ledger.store import engine_for

TABLES = [each for each in metadata.sorted_tables if each in vars(schema).values()]
Rows = dict[str, list[dict[str, Any]]]


def named(name: str) -> Constraint | Index:
    """The constraint or index called `name`."""
    return _find(name)[1]


def _find(name: str) -> tuple[Table, Constraint | Index]:
    for table in TABLES:
        everything: list[Constraint | Index] = [*table.constraints, *table.indexes]
        for each in everything:
            if each.name == name:
                return table, each
    raise AssertionError(f"there is no constraint {name}")


def drop(tx: Connection, name: str) -> None:
    """On PostgreSQL: drop it, and the foreign keys that rest on it."""
    if isinstance(named(name), Index):
        tx.exec_driver_sql(f"DROP INDEX {name}")
    else:
        tx.exec_driver_sql(f"ALTER TABLE {_find(name)[0].name} DROP CONSTRAINT {name} CASCADE")


@contextmanager
def sqlite_without(*names: str, rows: Rows | None = None) -> Iterator[Connection]:
    """The ledger in memory, as SQLite; its tables hold `rows` and never had these constraints."""
    left_out = set(names) | {key for name in names for key in _resting_on(name)}
    engine = engine_for("sqlite://")
    try:
        with engine.connect() as tx:
            for table in TABLES:
                tx.exec_driver_sql(_without(str(CreateTable(table).compile(engine)), left_out))
                for index in table.indexes:
                    if index.name not in left_out:
                        tx.exec_driver_sql(str(CreateIndex(index).compile(engine)))
                if rows and rows[table.name]:
                    tx.execute(table.insert(), rows[table.name])
            tx.commit()
            yield tx
    finally:
        engine.dispose()


def rows_of(tx: Connection) -> Rows:
    """What the ledger's tables hold."""
    return {table.name: [dict(row) for row in tx.execute(table.select()).mappings()] for table in TABLES}


def _resting_on(name: str) -> set[str]:
    """The foreign keys whose target is the key called `name`."""
    key = named(name)
    if isinstance(key, ForeignKeyConstraint) or not isinstance(key, ColumnCollectionConstraint):
        return set()
    columns = {f"{_find(name)[0].name}.{column.name}" for column in key.columns}
    return {
        str(each.name)
        for table in TABLES
        for each in table.foreign_key_constraints
        if {element.target_fullname for element in each.elements} == columns
    }


def _without(ddl: str, left_out: set[str]) -> str:
    """SQLAlchemy writes one column or constraint to a line."""
    lines = [
        line for line in ddl.strip().splitlines() if not any(f"CONSTRAINT {n} " in line for n in left_out)
    ]
    parts = [line.strip().rstrip(", ") for line in lines]
    head, *body, end = [part for part in parts if part]
    return f"{head}\n" + ",\n".join(body) + f"\n{end}"
