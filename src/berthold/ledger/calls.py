"""One statement that is a transaction of its own, in one round trip to PostgreSQL.

What a transaction costs beside its statements (BEGIN, COMMIT, and what SQLAlchemy and the driver's cursor
do for each) is more than a claim that is one statement. So such a statement goes through libpq, on the
connection that the driver holds: sent, waited for and answered in one call. The connection is one of the
engine's pool, with the settings that the engine has proved. It is not prepared: the driver forgets what
is prepared after each rollback, and to read one call of a function anew costs a thirtieth of the call.

A1: once the statement was sent and its connection is lost, nobody knows whether it was done:
`Lost`, which must not be tried again. A connection that the server ended before that is not used.
"""

from __future__ import annotations

import select as polling
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sqlalchemy import Dialect, Engine, Select
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import PoolProxiedConnection

# More than a pool has.
CONNECTIONS_MAX = 100

# As libpq takes a statement: $1, $2 …, whose types the server works out.
LIBPQ: Dialect = PGDialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]


class Lost(Exception):
    """The connection was lost while the statement was under way; it may have been done."""


def call(engine: Engine, statement: Select[Any], values: Mapping[str, Any]) -> Any:
    """Run it; the first value of its first row, None if it gives no row. `values` are plain: text,
    numbers, truths and None. Raises SQLAlchemy's errors, and `Lost`."""
    text, order = _compiled(statement)
    given = [_sent(values[name]) for name in order]
    driver: Any = engine.dialect.loaded_dbapi
    try:
        proxied = _living(engine)
    except driver.Error as error:
        raise known(text, error, driver) from error
    connection: Any = proxied.driver_connection
    try:
        result = connection.pgconn.exec_params(text.encode(), given)
        if result.status != driver.pq.ExecStatus.TUPLES_OK:
            raise driver.errors.error_from_result(result)
        return _first(driver, connection, result)
    except driver.Error as error:
        if connection.closed:
            proxied.invalidate(error)
            raise Lost from error
        raise known(text, error, driver) from error
    finally:
        proxied.close()


@lru_cache
def _compiled(statement: Select[Any]) -> tuple[str, tuple[str, ...]]:
    """Its text, and the names of its values in the order of their numbers."""
    compiled: Any = statement.compile(dialect=LIBPQ)
    return str(compiled), tuple(compiled.positiontup or ())


def _sent(value: str | float | bool | None) -> bytes | None:
    """A value as PostgreSQL reads it. What follows a zero byte would be cut off."""
    if value is None:
        return None
    text = str(value).encode()
    assert b"\0" not in text, "PostgreSQL knows no text with a zero byte"
    return text


def _first(driver: Any, connection: Any, result: Any) -> Any:
    if not result.ntuples:
        return None
    reader = driver.adapt.Transformer(connection)
    reader.set_pgresult(result)
    return reader.load_row(0, tuple)[0]


def _living(engine: Engine) -> PoolProxiedConnection:
    """A connection of the pool that the server has not ended."""
    for _ in range(CONNECTIONS_MAX):
        proxied = engine.raw_connection()
        if not _has_ended(proxied.driver_connection):
            return proxied
        proxied.invalidate()
        proxied.close()
    return engine.raw_connection()


def _has_ended(connection: Any) -> bool:
    """Whether the server has hung up: then there is something to read of a connection that was asked
    nothing, and it is the end."""
    poll = polling.poll()
    poll.register(connection.fileno(), polling.POLLIN)
    try:
        while poll.poll(0) and not connection.closed:
            connection.pgconn.consume_input()  # the end may stand behind its reason
    except Exception:
        return True
    return bool(connection.closed)


def known(text: str, error: Exception, errors: Any) -> DBAPIError:
    """An error of the driver `errors` as SQLAlchemy's, which shows no values."""
    told = DBAPIError.instance(text, None, error, errors.Error, hide_parameters=True)
    assert isinstance(told, DBAPIError)
    return told
