"""A1: what a migration makes is what the schema modules say, on both engines, to the last predicate.

The catalog of a database made by the migrations is compared with the catalog of one made from
the metadata: what the engine itself says of every table, column, constraint and index.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from berthold import database
from berthold.database import is_current, metadata, upgrade
from berthold.lab import engines
from berthold.migrations import __main__ as revisions

COLUMNS = """
    SELECT table_name, column_name, data_type, is_nullable, column_default, is_identity
      FROM information_schema.columns WHERE table_schema = 'public'"""
CONSTRAINTS = """
    SELECT conrelid::regclass::text, conname, contype, condeferrable, condeferred, pg_get_constraintdef(oid)
      FROM pg_constraint WHERE connamespace = 'public'::regnamespace"""
INDEXES = """
    SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"""
STORAGE = """
    SELECT relname, reloptions::text FROM pg_class
     WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'S')"""


def catalog(connection: Connection) -> set[tuple[object, ...]]:
    """Everything that the engine says of our tables, one tuple per fact, in its own words."""
    if connection.dialect.name == "postgresql":
        facts = {
            tuple(row)
            for query in (COLUMNS, CONSTRAINTS, INDEXES, STORAGE)
            for row in connection.execute(text(query))
        }
    else:
        facts = sqlite_catalog(connection)
    return {fact for fact in facts if not any("alembic_version" in str(part) for part in fact)}


def sqlite_catalog(connection: Connection) -> set[tuple[object, ...]]:
    """SQLite keeps the text it was given: a table's parts in any order, an index as it stands."""
    facts: set[tuple[object, ...]] = set()
    query = text("SELECT type, name, sql FROM sqlite_schema WHERE sql <> ''")
    for kind, name, sql in connection.execute(query):
        # Alembic writes DEFAULT (true) where SQLAlchemy writes DEFAULT true.
        words = re.sub(r"DEFAULT \((\w+)\)", r"DEFAULT \1", sql)
        # … and SQLite puts a column that was added later on the line of the one before.
        parts = (
            [words] if kind == "index" else re.split(r"\n|, (?=\w+ (?:TEXT|BIGINT|DOUBLE|BOOLEAN)\b)", words)
        )
        facts |= {(name, " ".join(part.split()).rstrip(", ")) for part in parts}
        for pragma in ("table_xinfo", "foreign_key_list") if kind == "table" else ():
            rows = connection.exec_driver_sql(f'PRAGMA {pragma}("{name}")').mappings()
            facts |= {
                (name, pragma, *(str(v).strip("()") for k, v in row.items() if k not in ("id", "cid")))
                for row in rows
            }
    return facts


def catalog_of(url: str) -> set[tuple[object, ...]]:
    with engines.connected(url) as connection:
        return catalog(connection)


def test_the_migrations_make_what_the_schema_says(bare_url: str, database_url: str) -> None:
    upgrade(bare_url)
    migrated, declared = catalog_of(bare_url), catalog_of(database_url)
    assert migrated - declared == set()
    assert declared - migrated == set()
    names = {str(fact[0]) for fact in migrated}
    assert set(metadata.tables) <= names


def test_a_table_that_is_made_anew_keeps_its_rows(bare_url: str) -> None:
    """0013 makes the table of group moves anew."""
    columns = "id, group_id, source_id, target_id, goal_id, state, request_id, user_id, project_id"
    with engines.connected(bare_url) as connection:
        config = database.migrations()
        config.attributes["connection"] = connection
        command.upgrade(config, "0012")
        sql = f"INSERT INTO group_move ({columns}, created_at, updated_at) VALUES"
        connection.exec_driver_sql(f"{sql} ('v', 'g', 'h1', 'h2', 'h2', 'moving', 'r', 'u', 'p', 1, 2)")
        connection.commit()
    upgrade(bare_url)
    with engines.connected(bare_url) as connection:
        (row,) = connection.exec_driver_sql(f"SELECT {columns}, updated_at FROM group_move").fetchall()
    assert tuple(row) == ("v", "g", "h1", "h2", "h2", "moving", "r", "u", "p", 2)


def test_a_claim_keeps_what_it_takes(bare_url: str) -> None:
    """0016 makes the table of claims anew; what a claim takes was in rows of their own."""
    with engines.connected(bare_url) as connection:
        config = database.migrations()
        config.attributes["connection"] = connection
        command.upgrade(config, "0015")
        for sql in (
            "INSERT INTO project VALUES ('p', 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)",
            "INSERT INTO server (id, project_id, user_id, name, condition, cores, ram, created_at,"
            " updated_at) VALUES ('s', 'p', 'u', 's', 'active', 1, 1, 0, 0)",
            "INSERT INTO claim (id, server_id, host_id, host_epoch, role, rule)"
            " VALUES ('c', 's', 'h', 7, 'home', 'none')",
            "INSERT INTO allocation VALUES ('c', 'h', 'VCPU', 2), ('c', 'h', 'MEMORY_MB', 512)",
        ):
            connection.exec_driver_sql(sql)
        connection.commit()
    upgrade(bare_url)
    columns = "id, server_id, host_epoch, role, vcpus, memory_mb, disk_gb"
    with engines.connected(bare_url) as connection:
        (row,) = connection.exec_driver_sql(f"SELECT {columns} FROM claim").fetchall()
    assert tuple(row) == ("c", "s", 7, "home", 2, 512, 0)


def test_alembic_sees_no_difference_either(bare_url: str) -> None:
    upgrade(bare_url)
    with engines.connected(bare_url) as connection:
        if connection.dialect.name == "postgresql":
            # To compare takes a while between two statements; nobody waits for this transaction.
            connection.exec_driver_sql("SET idle_in_transaction_session_timeout = 0")
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_a_database_is_current_once_it_is_upgraded_and_again_when_repeated(bare_url: str) -> None:
    assert not is_current(bare_url)
    upgrade(bare_url)
    assert is_current(bare_url)
    upgrade(bare_url)
    assert is_current(bare_url)


@pytest.mark.parametrize(
    "change",
    [
        "DROP INDEX m3_one_unfinished_move",
        "CREATE INDEX one_more ON claim (host_epoch)",
        "ALTER TABLE claim ADD COLUMN more TEXT",
    ],
)
def test_the_comparison_sees_a_change(bare_url: str, change: str) -> None:
    upgrade(bare_url)
    with engines.connected(bare_url) as connection:
        before = catalog(connection)
        connection.exec_driver_sql(change)
        assert catalog(connection) != before


def test_the_first_revisions_are_not_written_again_under_later_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("0001_ledger.py", "0002_records.py", "0003_companions.py", "0004_somebodys.py")
    for name in names:
        (tmp_path / name).write_text("")
    monkeypatch.setattr(revisions, "VERSIONS", tmp_path)
    with pytest.raises(SystemExit, match="0004_somebodys"):
        revisions.main(["--anew"])
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(names)


def test_the_newest_revision_is_the_one_that_alembic_names() -> None:
    assert database._newest() == set(ScriptDirectory.from_config(database.migrations()).get_heads())
