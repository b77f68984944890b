"""One statement that is a transaction of its own, in one round trip to PostgreSQL.

What a transaction costs beside its statements (BEGIN, COMMIT, and what SQLAlchemy does for each)
is as much as a claim that is one statement. So such a statement goes through the driver's own
connection, in autocommit, prepared. The connection is one of the engine's pool, with the settings
that the engine has proved.

A1: once the statement was sent and its connection is lost, nobody knows whether it was done:
`Lost`, which must not be tried again. A connection that the server ended before that is not used.
"""

from __future__ import annotations

import select as polling
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sqlalchemy import Dialect, Engine, Select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import PoolProxiedConnection
from sqlalchemy.sql.compiler import Compiled

# More than a pool has.
CONNECTIONS_MAX = 100


class Lost(Exception):
    """The connection was lost while the statement was under way; it may have been done."""


def call(engine: Engine, statement: Select[Any], values: Mapping[str, Any]) -> Any:
    """Run it; the first value of its first row, None if it gives no row. `values` are as the driver
    takes them. Raises SQLAlchemy's errors, and `Lost`."""
    compiled = _compiled(statement, engine.dialect)
    text, errors = str(compiled), engine.dialect.loaded_dbapi
    try:
        proxied = _living(engine)
    except errors.Error as error:
        raise known(text, error, errors) from error
    connection: Any = proxied.driver_connection
    try:
        connection.autocommit = True
        row = connection.execute(text, compiled.construct_params(dict(values)), prepare=True).fetchone()
        return row[0] if row else None
    except errors.Error as error:
        if connection.closed:
            proxied.invalidate(error)
            raise Lost from error
        raise known(text, error, errors) from error
    finally:
        if not connection.closed:
            connection.autocommit = False
        proxied.close()


@lru_cache
def _compiled(statement: Select[Any], dialect: Dialect) -> Compiled:
    return statement.compile(dialect=dialect)


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
