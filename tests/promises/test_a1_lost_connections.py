"""A1: what happens to a transaction whose connection is lost, before it commits and while it does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import (
    BigInteger,
    Boolean,
    Connection,
    Double,
    Text,
    bindparam,
    cast,
    create_engine,
    event,
    func,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError

from berthold.errors import Unavailable
from berthold.ledger.store import Store, Tx


@pytest.fixture
def store(postgresql_url: str) -> Iterator[Store]:
    store = Store(postgresql_url)
    store.write_now(lambda tx: tx.execute(text("CREATE TABLE counted (n INTEGER)")))
    yield store
    store.write_now(lambda tx: tx.execute(text("DROP TABLE counted")))
    store.close()


def kill(store: Store, pid: int) -> None:
    other = create_engine(store.url)
    with other.begin() as connection:
        connection.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})
    other.dispose()


def pid_of(tx: Connection) -> int:
    return int(tx.execute(text("SELECT pg_backend_pid()")).scalar_one())


def tally(store: Store) -> int:
    return store.read_now(lambda tx: int(tx.execute(text("SELECT count(*) FROM counted")).scalar_one()))


def test_a_connection_lost_before_the_commit_costs_a_second_try_and_nothing_else(store: Store) -> None:
    tries = 0

    def count_up(tx: Tx) -> None:
        nonlocal tries
        tries += 1
        tx.execute(text("INSERT INTO counted VALUES (1)"))
        if tries == 1:
            kill(store, pid_of(tx))
            tx.execute(text("SELECT 1"))

    store.write_now(count_up)
    assert tries == 2
    assert tally(store) == 1


def test_a_server_that_takes_no_writes_just_now_is_waited_for(store: Store) -> None:
    """A conductor that met a standby while another was promoted would end, or hold no lease any more."""

    def write(tx: Tx) -> None:
        tx.execute(text("SET TRANSACTION READ ONLY"))
        tx.execute(text("INSERT INTO counted VALUES (1)"))

    with pytest.raises(Unavailable):
        store.write_now(write)
    assert tally(store) == 0


def test_a_connection_lost_in_the_commit_is_told_and_not_tried_again(store: Store) -> None:
    """It may have been committed. Done twice may be worse than not known."""
    tries = 0

    def count_up(tx: Tx) -> None:
        nonlocal tries
        tries += 1
        tx.execute(text("INSERT INTO counted VALUES (1)"))
        tx.info["pid"] = pid_of(tx)

    @event.listens_for(store.writer, "commit")
    def lose(connection: Connection) -> None:
        if pid := connection.info.pop("pid", None):
            kill(store, pid)

    with pytest.raises(Unavailable, match="look whether it was done"):
        store.write_now(count_up)
    assert tries == 1
    assert tally(store) == 0


def test_a_read_whose_connection_is_lost_is_simply_read_again(store: Store) -> None:
    tries = 0

    def look(tx: Tx) -> int:
        nonlocal tries
        tries += 1
        if tries == 1:
            kill(store, pid_of(tx))
        return int(tx.execute(text("SELECT count(*) FROM counted")).scalar_one())

    assert store.read_now(look) == 0
    assert tries == 2


# -- One statement that is a transaction of its own ------------------------------------------

# It counts up, and lasts until the connection that runs it was ended, if it is told its number.
COUNT_UP = """
CREATE FUNCTION count_up(me bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO counted VALUES (me);
    IF me < 0 THEN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(5); END IF;
    RETURN me;
END $$
"""
CALL = select(func.count_up(bindparam("me", type_=BigInteger)))


@pytest.fixture
def counting(store: Store) -> Iterator[Store]:
    store.write_now(lambda tx: tx.execute(text(COUNT_UP)))
    yield store
    store.write_now(lambda tx: tx.execute(text("DROP FUNCTION count_up")))


def test_a_statement_of_its_own_is_done_once(counting: Store) -> None:
    assert counting.call_now(CALL, {"me": 7}) == 7
    assert asyncio.run(counting.call(CALL, {"me": 8})) == 8
    assert tally(counting) == 2
    assert counting.writer.pool.status().endswith("Current Checked out connections: 0")


def test_what_is_given_arrives_as_it_is(store: Store) -> None:
    """It is sent as text, past all that adapts values otherwise."""
    given: dict[str, Any] = {
        "words": "Gr\u00fc\u00dfe, 'it' \\ \"has\" {all}, $1 \n\t",
        "empty": "",
        "nothing": None,
        "number": -(2**63),
        "exact": 0.1 + 0.2,
        "long_ago": 1764500000.123456,
        "yes": True,
        "no": False,
    }
    kinds: dict[type, Any] = {
        str: Text(),
        int: BigInteger(),
        float: Double(),
        bool: Boolean(),
        type(None): Text(),
    }
    values = [cast(bindparam(name), kinds[type(value)]) for name, value in given.items()]
    assert store.call_now(select(func.json_build_array(*values)), given) == list(given.values())
    with pytest.raises(AssertionError, match="zero byte"):
        store.call_now(select(cast(bindparam("words"), Text())), {"words": "half\0way"})
    assert store.call_now(select(cast(bindparam("words"), Text())), {"words": None}) is None


def test_lost_while_it_runs_it_is_told_and_not_tried_again(counting: Store) -> None:
    with pytest.raises(Unavailable, match="look whether it was done"):
        counting.call_now(CALL, {"me": -1})
    assert tally(counting) == 0
    assert counting.retries == 0
    assert counting.call_now(CALL, {"me": 1}) == 1


def test_a_connection_that_was_ended_before_is_not_used(counting: Store) -> None:
    kill(counting, counting.read_now(pid_of))
    assert counting.call_now(CALL, {"me": 1}) == 1
    assert tally(counting) == 1


def test_what_may_be_retried_is_begun_anew_and_what_is_wrong_is_not(counting: Store) -> None:
    deadlock = (
        "CREATE OR REPLACE FUNCTION count_up(me bigint) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN {} END $$"
    )
    raising = "IF nextval('tries') < 3 THEN RAISE EXCEPTION 'x' USING ERRCODE = '40P01'; END IF; RETURN me;"

    def begin(tx: Tx) -> None:
        tx.execute(text("CREATE SEQUENCE tries"))
        tx.execute(text(deadlock.format(raising)))

    counting.write_now(begin)
    assert counting.call_now(CALL, {"me": 1}) == 1
    assert counting.retries == 2
    counting.write_now(lambda tx: tx.execute(text(deadlock.format("RETURN 1 / 0;"))))
    with pytest.raises(DBAPIError, match="division by zero") as wrong:
        counting.call_now(CALL, {"me": 4711})
    assert "4711" not in str(wrong.value)
    counting.write_now(lambda tx: tx.execute(text("DROP SEQUENCE tries")))


def test_a_database_that_is_not_there(counting: Store) -> None:
    gone = Store("postgresql+psycopg://nobody@127.0.0.1:1/nowhere")
    with pytest.raises(Unavailable, match="does not answer"):
        gone.call_now(CALL, {"me": 1})
    gone.close()
