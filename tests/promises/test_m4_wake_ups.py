"""M4: a process is woken by what another one committed; that needs no poll and no transaction."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import text

from berthold.lab import engines
from berthold.ledger.bus import Bus
from berthold.ledger.notify import PAYLOAD_MAX, Notifier, payloads
from berthold.ledger.store import Store, Tx, announce
from races import LONG_S, processes


@contextmanager
def notified(url: str) -> Iterator[tuple[Store, Store, list[Notifier]]]:
    """Two processes on one database, each with its notifier."""
    with processes(url, 2) as (one, two):
        notifiers = [Notifier(url, store.bus) for store in (one, two)]
        for each in notifiers:
            each.start()
        try:
            for each in notifiers:
                assert each.listening.wait(LONG_S)
            yield one, two, notifiers
        finally:
            for each in notifiers:
                each.stop()


def hears(bus: Bus, *topics: str) -> threading.Thread:
    """A thread that already waits for a topic, and ends when it is told."""
    ready = threading.Event()

    async def wait() -> None:
        with bus.subscribe(*topics) as news:
            ready.set()
            assert await news.wait(LONG_S)

    thread = threading.Thread(target=lambda: asyncio.run(wait()))
    thread.start()
    assert ready.wait(LONG_S)
    return thread


def ended(thread: threading.Thread) -> bool:
    thread.join(LONG_S / 2)
    return not thread.is_alive()


def test_another_process_is_woken_after_the_commit(postgresql_url: str) -> None:
    with notified(postgresql_url) as (one, two, _):
        waiting = hears(two.bus, "moves", "asks:h0")
        one.write_now(announce, "moves")
        assert ended(waiting)


def test_many_topics_of_many_commits_are_gathered_and_all_arrive(postgresql_url: str) -> None:
    def tell(tx: Tx) -> None:
        for number in range(700):
            announce(tx, f"move:{number:036}")

    with notified(postgresql_url) as (one, two, _):
        last = hears(two.bus, f"move:{699:036}")
        first = hears(two.bus, f"move:{0:036}")
        one.write_now(tell)
        assert ended(last)
        assert ended(first)


def test_what_is_heard_is_not_told_again(postgresql_url: str) -> None:
    carried: list[list[str]] = []
    with notified(postgresql_url) as (one, two, _):
        two.bus.carry(carried.append)
        waiting = hears(two.bus, "moves")
        back = hears(one.bus, "asks:h0")
        one.write_now(announce, "moves")
        assert ended(waiting)
        assert carried == []
        two.write_now(announce, "asks:h0")
        assert ended(back)
        assert carried == [["asks:h0"]]


def test_nothing_is_told_of_a_transaction_that_failed(postgresql_url: str) -> None:
    carried: list[list[str]] = []

    def fail(tx: Tx) -> None:
        announce(tx, "moves")
        raise LookupError

    with processes(postgresql_url, 1) as (store,):
        store.bus.carry(carried.append)
        try:
            store.write_now(fail)
        except LookupError:
            store.write_now(announce, "asks:h0")
    assert carried == [["asks:h0"]]


def test_a_lost_connection_is_made_again(postgresql_url: str) -> None:
    cut = text(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND query = 'LISTEN berthold'"
    )
    with notified(postgresql_url) as (one, two, notifiers):
        for each in notifiers:
            each.listening.clear()
        with engines.connected(postgresql_url) as connection:
            assert len(connection.execute(cut).all()) == 2
        for each in notifiers:
            assert each.listening.wait(LONG_S)
        waiting = hears(two.bus, "moves")
        one.write_now(announce, "moves")
        assert ended(waiting)


def test_a_notifier_without_a_database_starts_and_stops() -> None:
    bus = Bus()
    notifier = Notifier("postgresql+psycopg://nobody@127.0.0.1:1/none", bus)
    notifier.start()
    bus.tell(["moves"])
    notifier.stop()
    assert not notifier.listening.is_set()


def test_a_payload_never_grows_beyond_what_postgresql_takes() -> None:
    topics = [f"move:{number:036}" for number in range(1000)]
    messages = list(payloads(topics))
    assert " ".join(messages).split() == topics
    assert max(map(len, messages)) <= PAYLOAD_MAX
    assert list(payloads([])) == []
