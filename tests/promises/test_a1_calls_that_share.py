"""A1 for statements that share a transaction (`ledger/calls.py`): each is answered for itself, and after the
commit; and claims that share one keep what they promise and the order of locks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import BigInteger, bindparam, func, select, text
from sqlalchemy.exc import DBAPIError

from berthold.errors import Refused, Unavailable
from berthold.lab.world import World
from berthold.ledger import calls, claims, hosts
from berthold.ledger.calls import AT_ONCE, TOGETHER_MAX, Sharing
from berthold.ledger.store import Store, Tx
from berthold.moves import sight, twin
from berthold.moves.outcome import Outcome
from races import Actor, processes

# It counts up. Of a number below zero it ends the connection that it runs on; zero it cannot divide by.
COUNT_UP = """
CREATE FUNCTION count_up(me bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO counted VALUES (me / me);
    IF me < 0 THEN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(5); END IF;
    RETURN me;
END $$
"""
ME = bindparam("me", type_=BigInteger)
CALL = select(func.count_up(ME))
SHARING = Sharing(select(ME), "me", "me")


@pytest.fixture
def store(postgresql_url: str) -> Iterator[Store]:
    store = Store(postgresql_url)
    for statement in ("CREATE TABLE counted (n BIGINT)", COUNT_UP):
        store.write_now(_say, statement)
    yield store
    for statement in ("DROP FUNCTION count_up", "DROP TABLE counted"):
        store.write_now(_say, statement)
    store.close()


def _say(tx: Tx, statement: str) -> None:
    tx.execute(text(statement))


def counted(store: Store) -> int:
    return store.read_now(lambda tx: int(tx.execute(text("SELECT count(*) FROM counted")).scalar_one()))


def together(store: Store, *numbers: int) -> list[Any]:
    """What each call gives that is begun in one turn of the loop, or how it ends."""

    async def run() -> list[Any]:
        running = (store.call(CALL, {"me": number}, SHARING) for number in numbers)
        return await asyncio.gather(*running, return_exceptions=True)

    return asyncio.run(run())


def test_those_that_wait_share_a_transaction_and_each_has_its_own_answer(store: Store) -> None:
    numbers = [*range(1, AT_ONCE * TOGETHER_MAX + 1)]
    assert together(store, *numbers) == numbers
    assert counted(store) == len(numbers)
    assert store.calls.transactions == AT_ONCE
    assert store.writer.pool.status().endswith("Current Checked out connections: 0")


def test_who_is_answered_is_committed(store: Store) -> None:
    async def run() -> list[int]:
        async def one(number: int) -> int:
            await store.call(CALL, {"me": number}, SHARING)
            return counted(store)

        return await asyncio.gather(*(one(number) for number in (1, 2, 3)))

    assert asyncio.run(run()) == [3, 3, 3]


def test_one_that_raises_undoes_none_of_the_others(store: Store) -> None:
    first, wrong, last = together(store, 1, 0, 3)
    assert (first, last) == (1, 3)
    assert isinstance(wrong, DBAPIError)
    assert "division by zero" in str(wrong)
    assert counted(store) == 2


def test_a_commit_that_fails_is_told_and_who_could_do_without_the_other_is_done(store: Store) -> None:
    """A constraint may be judged there only."""
    rule = "ALTER TABLE counted ADD CONSTRAINT once UNIQUE (n) DEFERRABLE INITIALLY DEFERRED"
    store.write_now(lambda tx: tx.execute(text(rule)) and None)
    first, again = together(store, 1, 2)  # of each it writes 1
    assert first == 1
    assert isinstance(again, DBAPIError)
    assert "once" in str(again)
    (alone,) = together(store, 3)
    assert isinstance(alone, DBAPIError)
    assert counted(store) == 1


def test_all_of_a_lost_connection_are_told_and_none_is_tried_again(store: Store) -> None:
    for lost in together(store, 1, -1, 2):
        assert isinstance(lost, Unavailable)
        assert "look whether it was done" in str(lost)
    assert counted(store) == 0
    assert store.retries == 0
    assert together(store, 1, 2) == [1, 2]


def test_one_that_is_given_up_while_it_waits_is_not_run(store: Store) -> None:
    async def run() -> None:
        one, two = (asyncio.create_task(store.call(CALL, {"me": me}, SHARING)) for me in (1, 2))
        await asyncio.sleep(0)  # both stand in the queue, and nobody was sent
        two.cancel()
        assert await one == 1
        await asyncio.wait([two])
        assert two.cancelled()

    asyncio.run(run())
    assert counted(store) == 1


def test_one_that_is_given_up_on_its_way_leaves_no_answer_to_another(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "AT_ONCE", 1)
    slow = select(func.count_up(ME), func.pg_sleep(text("0.05")))

    async def run() -> None:
        await store.call(CALL, {"me": 6})  # a connection is open
        one = asyncio.create_task(store.call(slow, {"me": 7}))
        for _ in range(100):
            if store.calls.transactions == 2:
                break
            await asyncio.sleep(0)
        one.cancel()
        assert await store.call(CALL, {"me": 8}) == 8
        assert store.calls.transactions == 3

    asyncio.run(run())
    assert together(store, 9) == [9]


# -- Claims --------------------------------------------------------------------------------


@pytest.fixture
def world(postgresql_url: str) -> Iterator[World]:
    world = World(hosts=5, url=postgresql_url)
    yield world
    world.close()


def claiming(world: World, server: str, target: str) -> tuple[Any, ...]:
    """What `twin.place` is given for a live migration of the server to that host."""
    lease = world.lease(world.live_migrate(server))
    seen = world.store.read_now(sight.look, lease).scene
    want = claims.Want(server, world.host_id(target), {"VCPU": 1, "MEMORY_MB": 512}, lease.move_id, 1)
    return lease, want, seen, target


def test_of_members_that_share_a_transaction_one_gets_the_seat(world: World) -> None:
    group = world.group("anti-affinity")
    members = [world.boot(f"web-{n}", group, host=f"node{n}") for n in range(1, 5)]
    wanted = [claiming(world, member, "node5") for member in members]
    store = Store(world.store.url, clock=world.clock)

    async def run() -> list[Any]:
        return await asyncio.gather(*(twin.place(store, *each) for each in wanted), return_exceptions=True)

    ends = asyncio.run(run())
    shared = store.calls.transactions
    store.close()
    assert [type(end) for end in ends if not isinstance(end, Refused)] == [Outcome]
    assert [end.rule for end in ends if isinstance(end, Refused)] == ["G1"] * 3
    assert shared == 1
    assert world.problems() == []


def test_claims_that_share_a_transaction_lock_all_moves_first_and_then_hosts_by_id(
    world: World, postgresql_url: str
) -> None:
    one, two = (world.boot(f"web-{n}", host=f"node{n}") for n in (1, 2))
    low, high = sorted(("node4", "node5"), key=world.host_id)
    wanted = [claiming(world, one, high), claiming(world, two, low)]
    store = Store(world.store.url, clock=world.clock)
    ends: list[Any] = []

    async def run() -> None:
        ends.extend(await asyncio.gather(*(twin.place(store, *each) for each in wanted)))

    with processes(postgresql_url, 2) as (holder, watcher):
        holding = Actor(holder, _hold_host, world.host_id(low), stop="SELECT 'held'").reached()
        sharing = threading.Thread(target=lambda: asyncio.run(run()))
        sharing.start()
        while not watcher.read_now(_waiting_calls):
            assert sharing.is_alive()
        free = [watcher.write_now(_is_free, "move", want.move_id) for _, want, *_ in wanted]
        assert free == [False, False]
        assert watcher.write_now(_is_free, "host", world.host_id(high)), "it has the later host already"
        holding.end()
        sharing.join(30)
    store.close()
    assert all(isinstance(end, Outcome) for end in ends)
    assert len(ends) == 2
    assert world.problems() == []


def _hold_host(tx: Tx, host_id: str) -> None:
    hosts.lock(tx, host_id)
    tx.execute(text("SELECT 'held'"))


def _waiting_calls(tx: Tx) -> int:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%place_%'"
    return int(tx.execute(text(waiting)).scalar_one())


def _is_free(tx: Tx, table: str, row: str) -> bool:
    """Whether nobody holds that row."""
    found = tx.execute(text(f"SELECT id FROM {table} WHERE id = :id FOR UPDATE SKIP LOCKED"), {"id": row})
    return found.first() is not None
