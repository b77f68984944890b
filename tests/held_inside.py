"""Racers held inside PostgreSQL: between two writes of one statement, or between the last and the commit.

A statement that is a transaction of its own (the plain claim: `ledger/calls.py`) leaves a test no place to
hold whoever runs it. So the server holds: triggers, made for a test and removed after it, wait at the
point that the session's setting names until the test opens the gate. They tell what they are passed with,
and of a session without the setting they know nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, event

from berthold.lab.engines import connected

SETTING = "berthold.hold"
# Of the kind with two numbers: no lock of the product's can be the same.
GATE = "1380008773, 1"
# What a session is set to that passes every point and only tells so.
NOWHERE = "nowhere"

FUNCTION = f"""
CREATE FUNCTION held.here() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE NOTICE '%%', TG_ARGV[0];
    IF current_setting('{SETTING}') = TG_ARGV[0] THEN
        PERFORM pg_advisory_xact_lock_shared({GATE});
    END IF;
    RETURN coalesce(NEW, OLD);
END $$
"""
AT_THE_GATE = f"""
SELECT EXISTS (
    SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objsubid = 2
      AND (classid, objid) = ({GATE}) AND database = (
        SELECT oid FROM pg_database WHERE datname = current_database()
      )
)
"""
WAITING = """
SELECT count(*) FROM pg_stat_activity
  WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0
"""


@dataclass(frozen=True)
class Inside:
    """A point inside the server: before one of these is written (table → what, as a trigger says it), or
    before the transaction that wrote it commits."""

    name: str
    writes: Mapping[str, str]
    at_commit: bool = False


class Gate:
    """Where racers are held. It stands open until it is shut."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._shut = False

    def shut(self) -> None:
        self._ask(f"SELECT pg_advisory_lock({GATE})")
        self._shut = True

    def open(self) -> None:
        if self._shut:
            self._ask(f"SELECT pg_advisory_unlock({GATE})")
            self._shut = False

    def holds(self) -> bool:
        """Whether somebody stands before it."""
        return bool(self._ask(AT_THE_GATE))

    def waiting(self) -> int:
        """How many connections wait for another: those held here, and those in whose way somebody is."""
        return int(self._ask(WAITING))

    def _ask(self, sql: str) -> Any:
        return self._connection.exec_driver_sql(sql).scalar()


@contextmanager
def gate(url: str, points: Sequence[Inside]) -> Iterator[Gate]:
    """A gate at these points of a database, which is as it was afterwards."""
    with connected(url) as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT")  # never idle in a transaction
        for statement in ("DROP SCHEMA IF EXISTS held CASCADE", "CREATE SCHEMA held", FUNCTION):
            connection.exec_driver_sql(statement, ())
        for number, point in enumerate(points):
            for table, writes in point.writes.items():
                connection.exec_driver_sql(_trigger(f"hold_{number}", table, writes, point))
        try:
            yield Gate(connection)
        finally:
            connection.exec_driver_sql("DROP SCHEMA held CASCADE")


def _trigger(name: str, table: str, writes: str, point: Inside) -> str:
    late = "DEFERRABLE INITIALLY DEFERRED" if point.at_commit else ""
    return (
        f"CREATE {'CONSTRAINT' if late else ''} TRIGGER {name}"
        f" {'AFTER' if late else 'BEFORE'} {writes} ON {table} {late}"
        f" FOR EACH ROW WHEN (current_setting('{SETTING}', true) <> '')"
        f" EXECUTE FUNCTION held.here('{point.name}')"
    )


def attend(engine: Engine, wish: Callable[[], str], passed: Callable[[str], None]) -> None:
    """Each connection, when it is lent out, is set to the point at which whoever borrows it wishes to be
    held ("" for one who is not watched); `passed` hears which points they come by. Both are called on the
    borrower's thread."""

    @event.listens_for(engine, "checkout")
    def set_out(connection: Any, record: Any, _: Any) -> None:
        point = wish()
        if SETTING not in record.info:
            connection.add_notice_handler(lambda told: passed(told.message_primary))
        if record.info.get(SETTING, "") != point:
            connection.autocommit = True
            connection.execute("SELECT set_config(%s, %s, false)", (SETTING, point))
            connection.autocommit = False
        record.info[SETTING] = point
