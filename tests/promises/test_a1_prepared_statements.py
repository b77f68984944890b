"""A1: a statement that is compiled once does what SQLAlchemy does with it, on both engines: the same values
in and out, the same errors, the same end when the connection is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    Integer,
    MetaData,
    Table,
    Text,
    bindparam,
    create_engine,
    delete,
    event,
    func,
    select,
    text,
    update,
)
from sqlalchemy.exc import IntegrityError

from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Insert, Store, Tx

thing = Table(
    "thing",
    MetaData(),
    Column("number", Integer, primary_key=True),
    Column("name", Text, unique=True),
    Column("document", JSON),
    Column("yes", Boolean),
    Column("amount", BigInteger),
    Column("at", Float),
    CheckConstraint("amount < 10", name="below_ten"),
)
WRITE = thing.insert()
READ = select(thing).where(thing.c.name == bindparam("called"))
CHANGE = update(thing).where(thing.c.name == bindparam("called"), thing.c.amount < 5)
FULL: dict[str, Any] = {"document": {"a": [1, None, "ü%s"]}, "yes": True, "amount": 3, "at": 0.25}
EMPTY: dict[str, Any] = {"document": None, "yes": None, "amount": None, "at": None}


@pytest.fixture
def store(bare_url: str) -> Iterator[Store]:
    store = Store(bare_url)
    thing.metadata.create_all(store.writer)
    yield store
    store.close()


@pytest.mark.parametrize("values", [FULL, EMPTY, {"amount": 9}, {}])
def test_values_go_in_and_come_out_as_sqlalchemys(store: Store, values: dict[str, Any]) -> None:
    def write(tx: Tx) -> tuple[list[Any], list[Any]]:
        tx.execute(WRITE, {"name": "theirs", **values})
        assert Prepared(WRITE).change(tx, {"name": "ours", **values}) == 1
        both = [tx.execute(READ, {"called": name}).mappings().one() for name in ("theirs", "ours")]
        stored = [{**row, "number": 0, "name": ""} for row in both]
        return stored, [Prepared(READ).mapping(tx, {"called": name}) for name in ("theirs", "ours")]

    (theirs, ours), (read_theirs, read_ours) = store.write_now(write)
    assert ours == theirs
    assert {**read_ours, "number": 0, "name": ""} == {**read_theirs, "number": 0, "name": ""} == theirs


def test_rows_and_mappings_are_those_of_the_statement_and_none_where_there_are_none(store: Store) -> None:
    def look(tx: Tx) -> None:
        for name in ("a", "b"):
            tx.execute(WRITE, {"name": name, **FULL})
        names = Prepared(select(thing.c.name, thing.c.yes).order_by(thing.c.name))
        assert names.rows(tx, {}) == [("a", True), ("b", True)]
        assert names.row(tx, {}) == ("a", True)
        assert names.mappings(tx, {}) == [{"name": "a", "yes": True}, {"name": "b", "yes": True}]
        assert names.mapping(tx, {}) == {"name": "a", "yes": True}
        nobody = Prepared(READ)
        assert nobody.rows(tx, {"called": "c"}) == []
        assert nobody.mappings(tx, {"called": "c"}) == []
        assert nobody.row(tx, {"called": "c"}) is None
        assert nobody.mapping(tx, {"called": "c"}) is None

    store.write_now(look)


def test_changes_are_counted_and_what_they_return_is_read(store: Store) -> None:
    def write(tx: Tx) -> None:
        keep = Prepared(
            Insert(
                thing, lambda row: row.on_conflict_do_nothing(index_elements=["name"]).returning(thing.c.name)
            )
        )
        assert keep.row(tx, {"name": "a", "amount": 1}) == ("a",)
        assert keep.row(tx, {"name": "a", "amount": 2}) is None
        change = Prepared(CHANGE)
        assert change.change(tx, {"called": "a", "amount": 5}) == 1
        assert (
            change.change(tx, {"called": "a", "at": 1.5}) == 0
        )  # other columns, and not below five any more
        gone = Prepared(delete(thing).where(thing.c.name == bindparam("called")).returning(thing.c.amount))
        assert gone.rows(tx, {"called": "a"}) == [(5,)]
        assert gone.rows(tx, {"called": "a"}) == []

    store.write_now(write)


def test_a_broken_constraint_is_sqlalchemys_error_and_shows_no_values(store: Store) -> None:
    store.write_now(lambda tx: tx.execute(WRITE, {"name": "a"}))
    with pytest.raises(IntegrityError) as caught:
        store.write_now(Prepared(WRITE).change, {"name": "a", "document": "secret"})
    assert "secret" not in str(caught.value)
    with pytest.raises(IntegrityError, match="below_ten"):
        store.write_now(Prepared(WRITE).change, {"name": "b", "amount": 10})
    assert store.read_now(lambda tx: len(tx.execute(select(thing)).all())) == 1


def test_who_listens_to_statements_hears_it_before_it_is_run(store: Store) -> None:
    heard: list[str] = []
    event.listen(store.writer, "before_cursor_execute", lambda *about: heard.append(about[2]))
    store.write_now(Prepared(WRITE).change, {"name": "a"})
    assert [each.split(" (")[0] for each in heard] == ["INSERT INTO thing"]


def test_a_statement_of_no_fixed_shape_or_short_of_a_value_is_a_bug(store: Store) -> None:
    any_of = Prepared(select(thing).where(thing.c.name.in_(bindparam("names", expanding=True))))
    with pytest.raises(AssertionError, match="of no fixed shape"):
        store.read_now(any_of.rows, {"names": ["a"]})
    with pytest.raises(AssertionError, match=r"\['called'\] is not said"):
        store.read_now(Prepared(READ).rows, {})


def test_a_connection_lost_on_the_way_costs_a_second_try_and_every_other_of_its_age(
    postgresql_url: str,
) -> None:
    store, other, tries = Store(postgresql_url), create_engine(postgresql_url), 0
    number = Prepared(select(func.pg_backend_pid()))
    idle = store.writer.connect()
    pids = [idle.execute(text("SELECT pg_backend_pid()")).scalar_one()]
    idle.close()

    def look(tx: Tx) -> int:
        nonlocal tries
        tries += 1
        pid = int(tx.execute(text("SELECT pg_backend_pid()")).scalar_one())
        if tries == 1:
            with other.begin() as connection:
                for each in {pid, *pids}:
                    connection.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": each})
        number.rows(tx, {})
        return pid

    try:
        assert store.write_now(look) not in pids
        assert tries == 2
    finally:
        other.dispose()
        store.close()
