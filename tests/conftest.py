"""Fixtures for whoever needs a database: each test gets a fresh one, on both engines.

    store           a Store, the test runs once on SQLite and once on PostgreSQL
    database_url    the same as a URL, with all tables and no rows
    bare_url        the same without tables, for those that change them
    postgresql_url  PostgreSQL only
    sqlite_url      SQLite only

The server is started when the first test asks for it (one per worker under xdist) and stopped
and removed at the end of the run, whatever happened.
"""

from __future__ import annotations

import gc
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# What the tests share stands beside this file.
sys.path.insert(0, str(Path(__file__).parent))

from berthold.lab import engines
from berthold.ledger.store import Store


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tell", action="store_true", help="write the pages of tests/stories anew")


# The same examples in every run: a run that fails tells of a change, not of a day.
hypothesis.settings.register_profile("the same", derandomize=True, database=None)
hypothesis.settings.load_profile("the same")

# Folders whose tests take seconds each.
LONG = frozenset({"chaos", "clients", "races", "storm"})
STARTED = pytest.StashKey[engines.PostgreSQL]()
VERSIONS: set[str] = set()


@pytest.fixture(scope="session")
def postgresql(pytestconfig: pytest.Config) -> Iterator[engines.PostgreSQL]:
    server = engines.PostgreSQL()
    pytestconfig.stash[STARTED] = server
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return engines.sqlite_template(tmp_path_factory.mktemp("sqlite") / "template.db")


@pytest.fixture
def postgresql_url(postgresql: engines.PostgreSQL) -> Iterator[str]:
    url = postgresql.lend()
    yield url
    postgresql.back(url)


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    shutil.copy(sqlite_template, tmp_path / "berthold.db")
    return f"sqlite:///{tmp_path / 'berthold.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def engine_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def database_url(engine_name: str, request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(f"{engine_name}_url")
    return url


@pytest.fixture
def bare_url(engine_name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if engine_name == "sqlite":
        yield f"sqlite:///{tmp_path / 'bare.db'}"
        return
    server: engines.PostgreSQL = request.getfixturevalue("postgresql")
    url = server.create_bare()
    yield url
    server.drop(url)


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    store = Store(database_url)
    yield store
    store.close()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes seconds comes first, in the share of each worker (`--dist worksteal` gives each a slice of
    the list): at the end there is nothing left for which the others would wait."""
    workers = int(getattr(config, "workerinput", {}).get("workercount", 1))
    long = [item for item in items if item.path.parent.name in LONG]
    short = [item for item in items if item.path.parent.name not in LONG]
    share = -(-len(short) // workers)
    items[:] = [
        item
        for worker in range(workers)
        for item in (*long[worker::workers], *short[worker * share : (worker + 1) * share])
    ]


def pytest_collection_finish() -> None:
    """What has been imported stays: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Under xdist the worker tells the process that prints."""
    if (server := session.config.stash.get(STARTED, None)) and hasattr(session.config, "workeroutput"):
        session.config.workeroutput["postgresql"] = server.version


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    VERSIONS.add(getattr(node, "workeroutput", {}).get("postgresql", ""))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Say which engines the tests ran on."""
    if server := config.stash.get(STARTED, None):
        VERSIONS.add(server.version)
    if versions := ", ".join(sorted(VERSIONS - {""})):
        terminalreporter.write_line(f"PostgreSQL {versions}, SQLite {sqlite3.sqlite_version}")
