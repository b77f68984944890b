"""The auditor: one of many conductors looks, what it finds is told once, and once more when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from berthold.lab import engines
from berthold.lab.world import World, with_settings
from berthold.lab.world import now as run
from berthold.ledger import hosts, inventories
from berthold.ledger.compliance import Finding
from berthold.ledger.store import Store, Tx
from berthold.moves import auditor
from berthold.moves.auditor import Auditor
from berthold.moves.conductor import Conductor
from berthold.records import duties, violations


@pytest.fixture
def world() -> Iterator[World]:
    made = World(hosts=2)
    yield made
    made.close()


def shrink(world: World, host: str, vcpus: int) -> None:
    def change(tx: Tx) -> None:
        hosts.lock(tx, world.host_id(host))
        offers = {"VCPU": {"total": vcpus}, "MEMORY_MB": {"total": 4096}, "DISK_GB": {"total": 100}}
        inventories.set_inventory(tx, world.host_id(host), offers)

    world.store.write_now(change)


def looks(world: World, who: Auditor) -> list[dict[str, object]]:
    """A look when it is time for one, and what it logged."""
    world.pass_time(who.every_s + 1)
    with capture_logs() as lines:
        assert run(who.look())
    return [dict(line) for line in lines]


def test_a_violation_is_told_once_kept_while_it_stands_and_its_end_is_told(world: World) -> None:
    web = world.group("anti-affinity")
    one = world.boot("web-1", web, host="node1")
    eye = Auditor(world.store, world.settings, "c1")
    assert looks(world, eye) == []
    shrink(world, "node1", 0)
    (line,) = looks(world, eye)
    assert (line["event"], line["rule"], line["host"]) == ("does not comply", "C1", "node1")
    assert line["servers"] == one
    assert looks(world, eye) == []
    (row,) = world.store.read_now(violations.standing)
    assert (row["rule"], row["servers"], row["host_id"]) == ("C1", [one], world.host_id("node1"))
    assert row["seen_at"] > row["since"]
    assert world.store.read_now(violations.counts) == {"C1": 1}
    shrink(world, "node1", 4)
    (line,) = looks(world, eye)
    assert (line["event"], line["rule"], line["servers"]) == ("complies again", "C1", one)
    assert line["host"] == "node1", "as it was called when it was told"
    assert world.store.read_now(violations.standing) == []


def test_a_broken_promise_of_any_kind_is_found(world: World) -> None:
    one = world.boot("web-1", host="node1")
    spoil = f"UPDATE claim SET vcpus = 0 WHERE server_id = '{one}'"
    world.store.write_now(lambda tx: tx.execute(text(spoil)) and None)
    lines = looks(world, Auditor(world.store, world.settings, "c1"))
    assert {line["rule"] for line in lines} == {"C1"}
    assert all(line["host"] == "node1" for line in lines)


def test_one_of_many_looks_and_another_when_that_one_is_gone(world: World) -> None:
    one, two = (Auditor(world.store, world.settings, name) for name in ("c1", "c2"))
    assert run(one.look())
    assert not run(two.look())
    assert not run(one.look())
    world.pass_time(world.settings.audit_s + 1)
    assert run(two.look())
    assert not run(one.look())
    last = world.store.read_now(duties.last, auditor.DUTY)
    assert last is not None
    assert (last["owner"], last["turn"], last["done_at"]) == ("c2", 2, world.clock.now())


def test_one_that_slept_through_its_turn_writes_nothing(world: World) -> None:
    world.boot("web-1", host="node1")
    shrink(world, "node1", 0)
    found = world.store.read_now(auditor.judge)
    late = world.store.write_now(duties.take, auditor.DUTY, "c1", 60.0)
    assert late == 1
    world.pass_time(61)
    shrink(world, "node1", 4)
    assert run(Auditor(world.store, world.settings, "c2").look())
    assert world.store.write_now(auditor.keep, late, found) is None
    assert world.store.read_now(violations.standing) == []


def test_operators_are_told_of_an_audit_that_takes_longer_than_its_turn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two of them could take turns for ever, and nothing that they find would ever be told."""
    one = Auditor(world.store, world.settings, "c1")

    def slowly(tx: Tx) -> list[Finding]:
        world.clock.advance(one.every_s + 1)
        assert duties.take(tx, auditor.DUTY, "c2", one.every_s)
        return []

    monkeypatch.setattr(auditor, "judge", slowly)
    lines = looks(world, one)
    assert [line["event"] for line in lines] == [
        "the audit took longer than its turn: what it found is not kept"
    ]


def test_of_conductors_that_ask_at_once_one_gets_the_turn(postgresql: engines.PostgreSQL) -> None:
    url = postgresql.lend()
    store = Store(url)

    async def race() -> list[int | None]:
        asked = (store.write(duties.take, auditor.DUTY, f"c{n}", 60.0) for n in range(6))
        return list(await asyncio.gather(*asked))

    try:
        turns = asyncio.run(race())
        assert sorted(turns, key=str) == [1, None, None, None, None, None]
        assert store.write_now(duties.done, auditor.DUTY, 1)
    finally:
        store.close()
        postgresql.back(url)


def test_a_conductor_looks_by_itself_and_with_0_never(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def conduct(every_s: float) -> None:
        settings = with_settings(audit_s=every_s)
        conductor = Conductor(world.store, world.companions.neighbours, settings, "c")
        looked, look = asyncio.Event(), conductor.auditor.look

        async def seen() -> bool:
            its_turn = await look()
            looked.set()
            return its_turn

        monkeypatch.setattr(conductor.auditor, "look", seen)
        if every_s:
            work = asyncio.create_task(conductor.run())
            await looked.wait()
            conductor.stop()
            await work
        else:
            await conductor.auditor.run()

    asyncio.run(conduct(0.0))
    assert world.store.read_now(duties.last, auditor.DUTY) is None
    asyncio.run(conduct(0.02))
    last = world.store.read_now(duties.last, auditor.DUTY)
    assert last is not None
    assert last["owner"].startswith("c/")
