"""Statements that are transactions of their own, in one round trip to PostgreSQL.

What a transaction costs beside its statements (BEGIN, COMMIT, and what SQLAlchemy and the driver's cursor
do for each) is more than a claim that is one statement. So such a statement goes through libpq, on the
connection that the driver holds: sent, waited for by the event loop, and answered; no thread is woken for it.
The connection is one of the engine's pool, with the settings that the engine has proved. It is not prepared:
the driver forgets what is prepared after each rollback, and to read one call of a function anew costs a
thirtieth of the call.

Two are under way at once. Those that come meanwhile wait, and share the next transaction if their `Sharing`
says how: one commit for all, and one round trip. Each still succeeds or fails for itself: a statement that
raises undoes them all, and each is then run alone.

A1: a caller is answered after the commit. Once a statement was sent and its connection is lost, nobody knows
whether it was done: `Lost`, which must not be tried again. A connection that the server ended before that is
not used.
"""

from __future__ import annotations

import asyncio
import select as polling
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Dialect, Engine, Select
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import PoolProxiedConnection

AT_ONCE = 2
TOGETHER_MAX = 8
# More than a pool has.
CONNECTIONS_MAX = 100

# As libpq takes a statement: $1, $2 …, whose types the server works out.
LIBPQ: Dialect = PGDialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]

Sent = tuple[bytes, list[bytes | None]]


class Lost(Exception):
    """The connection was lost while the statement was under way; it may have been done."""


@dataclass(frozen=True)
class Sharing:
    """In which order statements that share a transaction take their locks: first each runs `hold`, in the
    order of its value `first`; then follow the statements themselves, in that of their value `then`."""

    hold: Select[Any]
    first: str
    then: str


@dataclass(eq=False)
class Call:
    """A statement that waits, and who waits for it."""

    sent: Sent
    hold: tuple[str, Sent] | None
    place: str
    answer: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def tell(self, value: Any, error: BaseException | None = None) -> None:
        """Answer whoever still waits."""
        if self.answer.done():
            return
        if error is None:
            self.answer.set_result(value)
        else:
            self.answer.set_exception(error)


@dataclass
class Queue:
    """What waits on one event loop, and who serves it."""

    waiting: deque[Call] = field(default_factory=deque)
    servers: set[asyncio.Task[Any] | None] = field(default_factory=set)

    def take(self) -> list[Call]:
        """Those who go next: one, and with it whoever may share."""
        found: list[Call] = []
        while self.waiting and len(found) < TOGETHER_MAX:
            if found and not (found[0].hold and self.waiting[0].hold):
                break
            call = self.waiting.popleft()
            if not call.answer.done():
                found.append(call)
        return found


class Calls:
    """The calls on one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, Queue] = WeakKeyDictionary()
        self.transactions = 0

    async def run(self, statement: Select[Any], values: Mapping[str, Any], sharing: Sharing | None) -> Any:
        """The first value of the statement's first row, None if it gives no row. `values` are plain: text,
        numbers, truths and None. Raises SQLAlchemy's errors, and `Lost`."""
        hold = (values[sharing.first], _sent(sharing.hold, values)) if sharing else None
        call = Call(_sent(statement, values), hold, values[sharing.then] if sharing else "")
        queue = self._queues.setdefault(asyncio.get_running_loop(), Queue())
        queue.waiting.append(call)
        if len(queue.servers) < AT_ONCE:
            queue.servers.add(asyncio.create_task(self._serve(queue)))
        return await call.answer

    async def _serve(self, queue: Queue) -> None:
        try:
            while calls := queue.take():
                await self._answer(calls)
        finally:
            queue.servers.discard(asyncio.current_task())

    async def _answer(self, calls: list[Call]) -> None:
        try:
            values = await self._run(calls)
        except DBAPIError as error:
            if len(calls) == 1:
                calls[0].tell(None, error)
                return
            for call in calls:  # nothing was done
                await self._answer([call])
        except BaseException as error:
            for call in calls:
                call.tell(None, error)
            if not isinstance(error, Exception):
                raise
        else:
            for call, value in zip(calls, values, strict=True):
                call.tell(value)

    async def _run(self, calls: list[Call]) -> list[Any]:
        """What they give, in one transaction."""
        driver: Any = self._engine.dialect.loaded_dbapi
        text = calls[0].sent[0].decode()
        try:
            proxied = await self._connection()
        except driver.Error as error:
            raise known(text, error, driver) from error
        connection: Any = proxied.driver_connection
        self.transactions += 1
        try:
            results = await _results(driver, connection.pgconn, calls)
            for result in results.values():
                if result.status != driver.pq.ExecStatus.TUPLES_OK:
                    raise driver.errors.error_from_result(result)
            return [_first(driver, connection, results[call]) for call in calls]
        except driver.Error as error:
            if connection.pgconn.transaction_status != driver.pq.TransactionStatus.IDLE:
                proxied.invalidate(error)
                raise Lost from error
            raise known(text, error, driver) from error
        except BaseException:
            proxied.invalidate()  # answers may still be to come
            raise
        finally:
            proxied.close()

    async def _connection(self) -> PoolProxiedConnection:
        """A living one; to open another takes a while, so a thread does that."""
        if self._engine.pool.checkedin():  # type: ignore[attr-defined]
            return _living(self._engine)
        return await asyncio.get_running_loop().run_in_executor(None, _living, self._engine)


async def _results(driver: Any, pgconn: Any, calls: list[Call]) -> dict[Call, Any]:
    """Send the statements, and wait for the result of each and for the commit; if one or that raised, its
    result is everyone's."""
    if len(calls) == 1:
        pgconn.send_query_params(*calls[0].sent)
        await _flush(pgconn)
        return {calls[0]: await _result(pgconn)}
    holds = [sent for _, sent in sorted(call.hold for call in calls if call.hold)]
    order = sorted(calls, key=lambda call: call.place)
    pgconn.enter_pipeline_mode()
    for text, given in (*holds, *(call.sent for call in order)):
        pgconn.send_query_params(text, given)
    pgconn.pipeline_sync()
    await _flush(pgconn)
    results = [await _result(pgconn) for _ in (*holds, *order)]
    status = driver.pq.ExecStatus
    raised = [result for result in results if result.status == status.FATAL_ERROR]
    while (end := await _next(pgconn)) is None or end.status != status.PIPELINE_SYNC:
        if end is None and pgconn.status != driver.pq.ConnStatus.OK:
            raise driver.OperationalError("the connection was lost before the commit was answered")
        raised += [end] if end is not None else []
    pgconn.exit_pipeline_mode()
    return {call: (raised or [result])[0] for call, result in zip(order, results[len(holds) :], strict=True)}


async def _result(pgconn: Any) -> Any:
    """The result of a statement; if the commit that follows it raises, that is the last."""
    result = await _next(pgconn)
    while (later := await _next(pgconn)) is not None:
        result = later
    return result


async def _next(pgconn: Any) -> Any:
    loop = asyncio.get_running_loop()
    while pgconn.is_busy():
        await _ready(loop.add_reader, loop.remove_reader, pgconn.socket)
        pgconn.consume_input()
    return pgconn.get_result()


async def _flush(pgconn: Any) -> None:
    loop = asyncio.get_running_loop()
    while pgconn.flush():
        await _ready(loop.add_writer, loop.remove_writer, pgconn.socket)


async def _ready(add: Callable[..., object], remove: Callable[[int], object], socket: int) -> None:
    ready = asyncio.get_running_loop().create_future()
    add(socket, _tell, ready)
    try:
        await ready
    finally:
        remove(socket)


def _tell(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _sent(statement: Select[Any], values: Mapping[str, Any]) -> Sent:
    text, order = _compiled(statement)
    return text, [_as_text(values[name]) for name in order]


@lru_cache
def _compiled(statement: Select[Any]) -> tuple[bytes, tuple[str, ...]]:
    """Its text, and the names of its values in the order of their numbers."""
    compiled: Any = statement.compile(dialect=LIBPQ)
    return str(compiled).encode(), tuple(compiled.positiontup or ())


def _as_text(value: str | float | bool | None) -> bytes | None:
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
