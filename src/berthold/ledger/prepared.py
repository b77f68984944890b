"""Statements that are run a hundred times a second, compiled once.

What SQLAlchemy does for each execution (look its statement up, build a context, a cursor's
description, a result) costs ten to twenty times what SQLite takes to run it. A `Prepared` is still an
expression of SQLAlchemy Core, on the same connection in the same transaction, with the same types and
the same errors; it is compiled when it is first run with that set of values, and from then on goes
straight to the driver. Whoever listens for `before_cursor_execute` hears it as any other.

For statements of a fixed shape: one set of values at a time, no `IN` of any length. Other statements go
through `tx.execute`, as ever.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Dialect, Select, UpdateBase
from sqlalchemy import Insert as CoreInsert
from sqlalchemy.sql.compiler import SQLCompiler

from berthold.ledger import calls
from berthold.ledger.store import Insert, Tx

Values = Mapping[str, Any]
Row = tuple[Any, ...]
Process = Callable[[Any], Any]


class Prepared:
    """A statement. `values` name its bind parameters and, of an INSERT or UPDATE, columns."""

    def __init__(self, statement: Select[Any] | UpdateBase | Insert) -> None:
        self._statement = statement
        self._plans: dict[tuple[str, ...], _Plan] = {}

    def rows(self, tx: Tx, values: Values) -> list[Row]:
        """What it selects or returns, in the order of its columns."""
        plan, cursor = self._run(tx, values)
        return plan.rows(cursor, cursor.fetchall())

    def row(self, tx: Tx, values: Values) -> Row | None:
        """The first of its rows."""
        return self._first(*self._run(tx, values))

    def mappings(self, tx: Tx, values: Values) -> list[dict[str, Any]]:
        """Its rows by the names of their columns."""
        plan, cursor = self._run(tx, values)
        return [dict(zip(plan.names, row, strict=True)) for row in plan.rows(cursor, cursor.fetchall())]

    def mapping(self, tx: Tx, values: Values) -> dict[str, Any] | None:
        """The first of its rows by the names of the columns."""
        plan, cursor = self._run(tx, values)
        first = self._first(plan, cursor)
        return dict(zip(plan.names, first, strict=True)) if first is not None else None

    def records(self, tx: Tx, values: Values) -> list[Any]:
        """Its rows, each with the names of their columns as attributes."""
        plan, cursor = self._run(tx, values)
        return [plan.record(row) for row in plan.rows(cursor, cursor.fetchall())]

    def record(self, tx: Tx, values: Values) -> Any:
        """The first of its records, or None."""
        plan, cursor = self._run(tx, values)
        first = self._first(plan, cursor)
        return plan.record(first) if first is not None else None

    def change(self, tx: Tx, values: Values) -> int:
        """Run it for what it writes; how many rows it wrote."""
        _, cursor = self._run(tx, values)
        wrote: int = cursor.rowcount
        cursor.close()
        return wrote

    @staticmethod
    def _first(plan: _Plan, cursor: Any) -> Row | None:
        raw = cursor.fetchone()
        first = plan.rows(cursor, [raw])[0] if raw is not None else None
        cursor.close()
        return first

    def _run(self, tx: Tx, values: Values) -> tuple[_Plan, Any]:
        dialect = tx.dialect
        key = (dialect.name, *values)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._plan(dialect, values)
        parameters = plan.parameters(values)
        connection: Any = tx.connection.driver_connection
        cursor = connection.cursor()
        if listeners := tx.dispatch.before_cursor_execute:
            for hears in listeners:
                hears(tx, cursor, plan.text, parameters, None, False)
        try:
            cursor.execute(plan.text, parameters)
        except dialect.loaded_dbapi.Error as error:
            if dialect.is_disconnect(error, connection, cursor):
                # SQLAlchemy meets it as well, and gives up every connection that is as old.
                tx.exec_driver_sql("SELECT 1")
            raise calls.known(plan.text, error, dialect.loaded_dbapi) from error
        return plan, cursor

    def _plan(self, dialect: Dialect, values: Values) -> _Plan:
        statement = self._statement
        if isinstance(statement, Insert):
            statement = statement.on(dialect.name)
        columns = list(statement.exported_columns)
        if isinstance(statement, CoreInsert) and not columns:
            statement = statement.inline()  # the number that the engine gave it is not asked for
        compiled = statement.compile(dialect=dialect, column_keys=list(values))
        assert isinstance(compiled, SQLCompiler)
        assert not compiled.post_compile_params, f"of no fixed shape: {compiled}"
        assert not compiled.prefetch, f"has values that Python makes: {compiled}"
        missing = {name for name in compiled.params if compiled.binds[name].required} - values.keys()
        assert not missing, f"{sorted(missing)} is not said: {compiled}"
        return _Plan(compiled, columns, dialect)


def _record_of(names: Sequence[str]) -> Callable[[Row], Any]:
    kind: Any = namedtuple("Record", names, rename=True)  # type: ignore[misc]
    make: Callable[[Row], Any] = kind._make
    return make


class _Plan:
    """A statement as one engine's driver takes it, and how values get in and out."""

    def __init__(self, compiled: SQLCompiler, columns: Sequence[Any], dialect: Dialect) -> None:
        self.text = str(compiled)
        self.names = tuple(column.key for column in columns)
        self.record = _record_of(self.names)
        order = compiled.positiontup if compiled.positional else None
        self._order = tuple(order) if order is not None else None
        self._given = dict(compiled.params)
        self._in: dict[str, Process] = {}
        for name in self._given:
            kind = compiled.binds[name].type
            if process := kind.dialect_impl(dialect).bind_processor(dialect):
                self._in[name] = process
        self._kinds = [column.type.dialect_impl(dialect) for column in columns]
        self._dialect = dialect
        self._out: tuple[tuple[int, Process], ...] | None = None

    def parameters(self, values: Values) -> Any:
        """As the driver takes them."""
        full = {**self._given, **values}
        for name, process in self._in.items():
            full[name] = process(full[name])
        return [full[name] for name in self._order] if self._order is not None else full

    def rows(self, cursor: Any, raw: Iterable[Any]) -> list[Row]:
        """As SQLAlchemy gives them."""
        if self._out is None:
            codes = (column[1] for column in cursor.description)
            out = [
                kind.result_processor(self._dialect, code)
                for kind, code in zip(self._kinds, codes, strict=True)
            ]
            self._out = tuple((place, process) for place, process in enumerate(out) if process)
        if not self._out:
            return [tuple(row) for row in raw]
        found = []
        for each in raw:
            row = list(each)
            for place, process in self._out:
                row[place] = process(row[place])
            found.append(tuple(row))
        return found
