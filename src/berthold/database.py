"""All tables of a cloud in one metadata, and the migrations that bring a database up to it.

Importing this module imports every module that declares tables, so `metadata` is whole.
`upgrade` is what `berthold db upgrade` runs; it may be run again and by several processes at
once. No process begins to work on a database that `is_current` does not accept.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, event, inspect, select

from berthold.companions import schema as companions_schema
from berthold.ledger import schema
from berthold.ledger.store import engine_for
from berthold.records import schema as records_schema

if TYPE_CHECKING:
    from alembic.config import Config

__all__ = ["is_current", "metadata", "migrations", "upgrade"]

metadata = schema.metadata
assert companions_schema.image.metadata is records_schema.flavor.metadata is metadata

MIGRATIONS = Path(__file__).parent / "migrations"
# What PostgreSQL can do in one call; each also stands in the migration that brought it.
FUNCTIONS = ("place_4",)


@event.listens_for(metadata, "after_create")
def make_functions(_: Any, connection: Connection, **__: Any) -> None:
    """The functions that stand beside tables which have just been made."""
    if connection.dialect.name == "postgresql":
        for name in FUNCTIONS:
            connection.exec_driver_sql((MIGRATIONS / f"{name}.sql").read_text())


# Any number that nothing else of ours locks by.
_UPGRADE_LOCK = 0x42455254

# Alembic takes a third of a second to import, so only who has something to upgrade does. What a
# database has reached stands in Alembic's table, and each revision has its number for a name.
_REACHED = Table("alembic_version", MetaData(), Column("version_num", String(32)))


def migrations() -> Config:
    """Where Alembic finds the revisions: inside the package, with no file beside it."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    return config


def upgrade(url: str) -> None:
    """Bring the database to the newest revision, in one transaction. Done before, it does nothing."""
    if is_current(url):
        return
    engine = engine_for(url)
    try:
        upgrade_engine(engine)
    finally:
        engine.dispose()


def upgrade_engine(engine: Engine) -> None:
    """`upgrade` for who has an engine already (a database in memory has no other way)."""
    from alembic import command

    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            # A revision may take its time, between two statements and in one: an operator watches it.
            for limit in ("idle_in_transaction_session_timeout", "statement_timeout"):
                connection.exec_driver_sql(f"SET LOCAL {limit} = 0")
            # SQLite's transaction is the lock.
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_UPGRADE_LOCK})")
        config = migrations()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def is_current(url: str) -> bool:
    """Whether the database is at the newest revision."""
    engine = engine_for(url, "DEFERRED")
    try:
        with engine.connect() as connection:
            return _standing(connection) == _newest()
    finally:
        engine.dispose()


def is_newer(url: str) -> bool:
    """Whether a later version of Berthold has brought it further than this one knows."""
    engine = engine_for(url, "DEFERRED")
    try:
        with engine.connect() as connection:
            return not _standing(connection) <= _known()
    finally:
        engine.dispose()


def _standing(connection: Connection) -> set[str]:
    if not inspect(connection).has_table(_REACHED.name):
        return set()
    return set(connection.execute(select(_REACHED.c.version_num)).scalars())


def _newest() -> set[str]:
    return {max(_known())}


def _known() -> set[str]:
    return {path.name[:4] for path in (MIGRATIONS / "versions").glob("[0-9]*.py")}
