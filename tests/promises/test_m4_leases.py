"""M4: every unfinished move is worked on by one conductor, or is picked up within 10 s of its stop."""

from __future__ import annotations

import threading
import time

import pytest
from sqlalchemy import select, update

from berthold.clock import SeededClock
from berthold.errors import Stale
from berthold.ledger import hosts, moves, schema
from berthold.ledger.store import IDLE_IN_TRANSACTION_MS, Store, Tx
from ledger_world import add_hosts, add_move, add_server, violations
from races import LONG_S, Actor, processes, race

LEASE_S = 5.0
PROMISED_S = 10.0


def cloud(tx: Tx, count: int = 1) -> None:
    """Servers s0, s1 … each with a move that nobody works on."""
    add_hosts(tx, 1)
    for number in range(count):
        add_server(tx, f"s{number}")
        add_move(tx, f"s{number}")


def progress(tx: Tx, lease: moves.Lease, line: int) -> None:
    moves.hold(tx, lease)
    moves.write(tx, lease, line=line)


def line_of(tx: Tx) -> int:
    return int(tx.execute(select(schema.move.c.line)).scalar_one())


def end_leases(tx: Tx) -> None:
    """As if LEASE_S had passed."""
    tx.execute(update(schema.move).values(until=schema.move.c.until - LEASE_S - 1))


def take(store: Store, owner: str, limit: int = 1) -> list[moves.Lease]:
    return store.write_now(moves.take, owner, LEASE_S, limit)


def test_ten_conductors_lease_thirty_moves_each_once(database_url: str) -> None:
    with processes(database_url) as stores:
        stores[0].write_now(cloud, 30)

        def conductor(number: int) -> list[moves.Lease]:
            mine: list[moves.Lease] = []
            while leases := take(stores[number % 4], f"c{number}", 2):
                mine += leases
            return mine

        results = race([lambda n=n: conductor(n) for n in range(10)])  # type: ignore[misc]
        taken = [lease.move_id for leases in results for lease in leases]  # type: ignore[attr-defined]
        # Whoever saw only locked rows stopped; what is left is leased by the next scan.
        taken += [lease.move_id for lease in take(stores[0], "last", 30)]
        assert len(taken) == len(set(taken)) == 30


def test_a_leased_move_is_not_taken_until_the_lease_ends(store: Store) -> None:
    store.write_now(cloud)
    (first,) = take(store, "one")
    assert take(store, "two") == []
    store.write_now(end_leases)
    (second,) = take(store, "two")
    assert (second.move_id, second.epoch) == (first.move_id, first.epoch + 1)


def test_a_renewed_lease_does_not_end_and_a_lost_one_stays_lost(store: Store) -> None:
    store.write_now(cloud)
    (first,) = take(store, "one")
    store.write_now(end_leases)
    store.write_now(moves.renew, "one", [first], LEASE_S)
    assert take(store, "two") == []
    store.write_now(end_leases)
    (second,) = take(store, "two")
    store.write_now(moves.renew, "one", [first], LEASE_S)
    store.write_now(end_leases)
    assert [each.epoch for each in take(store, "three")] == [second.epoch + 1]


def test_who_lost_its_lease_can_write_nothing(store: Store) -> None:
    store.write_now(cloud)
    (first,) = take(store, "one")
    store.write_now(progress, first, 1)
    store.write_now(end_leases)
    (second,) = take(store, "two")
    store.write_now(progress, second, 2)
    with pytest.raises(Stale):
        store.write_now(progress, first, 3)
    store.write_now(moves.give_back, first)
    assert take(store, "three") == []
    assert store.read_now(line_of) == 2


def test_a_move_that_is_given_back_is_taken_at_once_or_after_a_while(store: Store) -> None:
    store.write_now(cloud)
    (first,) = take(store, "one")
    store.write_now(moves.give_back, first)
    (second,) = take(store, "two")
    store.write_now(moves.give_back, second, 60.0)
    assert take(store, "three") == []


def test_the_oldest_move_is_taken_first(store: Store) -> None:
    store.write_now(cloud, 3)
    numbers = select(schema.move.c.id).order_by(schema.move.c.number)
    oldest = store.read_now(lambda tx: tx.execute(numbers).scalars().all())
    assert [take(store, "one")[0].move_id for _ in range(3)] == oldest


def test_a_worker_stopped_inside_a_transaction_loses_its_move_within_ten_seconds(postgresql_url: str) -> None:
    """The one test here that takes real seconds: PostgreSQL has to end the stopped session."""
    assert IDLE_IN_TRANSACTION_MS <= 2000
    with processes(postgresql_url, 2) as (one, two):
        one.write_now(cloud)
        (lease,) = one.write_now(moves.take, "one", 0.1)
        worker = Actor(one, progress, lease, 1, stop="UPDATE move SET").reached()
        began, tick = time.monotonic(), threading.Event()
        while not (taken := take(two, "two")):
            assert time.monotonic() - began < PROMISED_S, "nobody could take the move"
            tick.wait(0.1)
        assert taken[0].epoch == lease.epoch + 1
        # It wakes up, and its transaction is begun again from the start.
        assert isinstance(worker.end(), Stale)
        assert one.retries == 1
        assert one.read_now(line_of) == 0
        assert violations(two, "M4") == []


def test_a_worker_stopped_with_a_host_in_its_hands_does_not_stop_the_others(postgresql_url: str) -> None:
    with processes(postgresql_url, 2) as (one, two):
        one.write_now(cloud)
        stopped = Actor(one, hosts.set_disabled, "h0", True, stop="UPDATE host").reached()
        assert Actor(two, hosts.fence, "h0").end(PROMISED_S) is None
        assert stopped.end() is None
        assert one.retries == 1


def test_what_nobody_works_on_is_found_by_the_audit(sqlite_url: str) -> None:
    clock = SeededClock()
    store = Store(sqlite_url, clock=clock)
    store.write_now(cloud)
    assert LONG_S > PROMISED_S
    clock.advance(PROMISED_S + 1)
    assert [each.promise for each in violations(store, "M4")] == ["M4"]
    take(store, "one")
    assert violations(store, "M4") == []
    store.close()
