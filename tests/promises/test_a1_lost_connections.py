"""A1: what happens to a transaction whose connection is lost, before it commits and while it does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, create_engine, event, text

from berthold.errors import Unavailable
from berthold.ledger.store import Store, Tx


@pytest.fixture
def store(postgresql_url: str) -> Iterator[Store]:
    store = Store(postgresql_url)
    store.write_now(lambda tx: tx.execute(text("CREATE TABLE tally (n INTEGER)")))
    yield store
    store.write_now(lambda tx: tx.execute(text("DROP TABLE tally")))
    store.close()


def kill(store: Store, pid: int) -> None:
    other = create_engine(store.url)
    with other.begin() as connection:
        connection.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})
    other.dispose()


def pid_of(tx: Connection) -> int:
    return int(tx.execute(text("SELECT pg_backend_pid()")).scalar_one())


def tally(store: Store) -> int:
    return store.read_now(lambda tx: int(tx.execute(text("SELECT count(*) FROM tally")).scalar_one()))


def test_a_connection_lost_before_the_commit_costs_a_second_try_and_nothing_else(store: Store) -> None:
    tries = 0

    def count_up(tx: Tx) -> None:
        nonlocal tries
        tries += 1
        tx.execute(text("INSERT INTO tally VALUES (1)"))
        if tries == 1:
            kill(store, pid_of(tx))
            tx.execute(text("SELECT 1"))

    store.write_now(count_up)
    assert tries == 2
    assert tally(store) == 1


def test_a_connection_lost_in_the_commit_is_told_and_not_tried_again(store: Store) -> None:
    """It may have been committed. Done twice may be worse than not known."""
    tries = 0

    def count_up(tx: Tx) -> None:
        nonlocal tries
        tries += 1
        tx.execute(text("INSERT INTO tally VALUES (1)"))
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
        return int(tx.execute(text("SELECT count(*) FROM tally")).scalar_one())

    assert store.read_now(look) == 0
    assert tries == 2
