"""The claim in one call (`moves/twin.py`) writes what the steps write, or nothing.

Each situation is a live migration at the line that claims its target. The claim is taken twice
from there, by the steps and by the twin, in transactions that are undone; what every table
holds then, what is announced and what is raised must be the same. (The races of
`tests/races/test_postgresql.py` run with both.)
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Table, event, select, text

from berthold.clock import SeededClock
from berthold.database import metadata
from berthold.errors import Failure, Refused
from berthold.lab import engines
from berthold.lab.turns import LabStore, called
from berthold.lab.world import World
from berthold.ledger import claims, hosts, inventories, moves, queue, schema, servers
from berthold.ledger.store import Store, Tx, announce
from berthold.moves import sight, turns, twin
from berthold.moves.outcome import Outcome
from berthold.moves.playbook import Scene
from by_hand import under_way
from races import Actor, processes

ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
RESOURCES = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}


@dataclass
class Stage:
    """A move that may claim a host; `seen` is the move as its runner saw it."""

    world: World
    lease: moves.Lease
    want: claims.Want
    host_name: str
    seen: Scene

    def change(self, f: Callable[..., Any], *args: Any, **columns: Any) -> None:
        self.world.store.write_now(f, *args, **columns)


def staged(world: World, group: str | None, others: int = 1) -> Stage:
    """A live migration to the host on which no server is."""
    server = world.boot("web-1", group)
    for number in range(others):
        world.boot(f"other-{number}", group)
    return at_place(world, server, world.lease(world.live_migrate(server)))


def at_place(world: World, server: str, lease: moves.Lease) -> Stage:
    seen = world.store.read_now(sight.look, lease).scene
    taken = {claim["host_id"] for claim in world.rows("claim")}
    free = next(name for name in world.agents if world.host_id(name) not in taken)
    want = claims.Want(server, world.host_id(free), RESOURCES, lease.move_id, 1)
    return Stage(world, lease, want, free, seen)


@pytest.fixture(scope="module")
def store_that_stays(postgresql: engines.PostgreSQL) -> Iterator[LabStore]:
    """One database for world after world, with connections that know it."""
    url = postgresql.lend()
    with closing(LabStore(SeededClock(0), url)) as store:
        store.make(metadata)
        yield store
    postgresql.back(url)


@pytest.fixture
def world(store_that_stays: LabStore) -> Iterator[World]:
    world = World(hosts=3, store=store_that_stays)
    yield world
    world.close()


@dataclass(frozen=True)
class Written:
    """What a claim came to: every table, the topics, how it ended."""

    rows: dict[str, list[str]]
    topics: list[str]
    end: str


def written(stage: Stage, place: Callable[[Tx], object]) -> Written:
    """What `place` writes, which is undone afterwards."""
    store = stage.world.store
    topics: list[str] = []
    with store.writer.connect() as tx:
        tx.info.update(clock=store.clock, topics=topics)
        with tx.begin() as transaction:
            before = everything(tx)
            try:
                end = repr(place(tx))
            except Failure as failure:
                end = f"{failure!r} {vars(failure)}"
            after = everything(tx)
            transaction.rollback()
    known = set(ID.findall(repr(before)))
    new = {name: sorted(ID.sub(partial(_new, known), row) for row in rows) for name, rows in after.items()}
    return Written(new, sorted(set(topics)), end)


def _new(known: set[str], found: re.Match[str]) -> str:
    return found[0] if found[0] in known else "new"


def everything(tx: Tx) -> dict[str, list[str]]:
    """Every row of every table, but for the numbers of a sequence: it gives none twice."""
    shown = {table: [c for c in table.c if c.name != "number"] for table in metadata.sorted_tables}
    return {
        table.name: [repr(dict(row)) for row in tx.execute(select(*columns)).mappings()]
        for table, columns in shown.items()
    }


def by_steps(stage: Stage) -> Written:
    return written(stage, lambda tx: turns.place_line(tx, stage.lease, stage.want))


def by_twin(stage: Stage) -> tuple[Written, bool]:
    """What the twin writes, or the steps that it leaves it to; and whether it was granted at once."""
    granted = False

    def place(tx: Tx) -> Outcome:
        nonlocal granted
        plain = twin.claiming(stage.world.store, stage.lease, stage.want, stage.seen, stage.host_name)
        if plain is None or not called(tx, plain.statement, plain.values):
            return turns.place_line(tx, stage.lease, stage.want)
        granted = True
        for topic in plain.topics:
            announce(tx, topic)
        return plain.outcome

    return written(stage, place), granted


# -- By itself ----------------------------------------------------------------------------


def placed(stage: Stage) -> tuple[object, list[str], list[str]]:
    """How the move's claim ends in a store that is not the lab's; what was told and what was run."""
    store = Store(stage.world.store.url, clock=stage.world.clock)
    told: list[str] = []
    run: list[str] = []
    store.bus.carry(told.extend)
    event.listen(store.writer, "before_cursor_execute", lambda *about: run.append(about[2]))
    try:
        return asyncio.run(_place(store, stage)), told, run
    finally:
        store.close()


async def _place(store: Store, stage: Stage) -> object:
    try:
        return await twin.place(store, stage.lease, stage.want, stage.seen, stage.host_name)
    except Failure as failure:
        return failure


def test_a_plain_claim_is_one_statement_in_a_transaction_of_its_own(world: World) -> None:
    stage = staged(world, world.group("anti-affinity"))
    outcome, told, run = placed(stage)
    assert isinstance(outcome, Outcome)
    assert told == [f"host:{stage.want.host_id}", f"asks:{stage.want.host_id}"]
    assert run == []  # by SQLAlchemy
    assert world.move(stage.lease.move_id)["line"] == 1
    world.settle()
    assert world.home(stage.want.server_id) == stage.host_name
    assert world.problems() == []


def test_a_claim_that_is_declined_is_refused_by_the_steps(world: World) -> None:
    stage = staged(world, world.group("anti-affinity"))
    _seat_taken(stage)
    outcome, told, run = placed(stage)
    assert isinstance(outcome, Refused)
    assert outcome.rule == "G1"
    assert told == []
    assert run
    assert world.move(stage.lease.move_id)["line"] == 0


# -- Granted ------------------------------------------------------------------------------


@pytest.mark.parametrize("per_host", [1, 2])
def test_a_member_of_an_anti_affinity_group(world: World, per_host: int) -> None:
    stage = staged(world, world.group("anti-affinity", per_host))
    found, granted = by_twin(stage)
    assert found == by_steps(stage)
    assert granted


def test_the_second_seat(world: World) -> None:
    stage = staged(world, world.group("anti-affinity", 2))
    _seat_taken(stage)
    found, granted = by_twin(stage)
    assert found == by_steps(stage)
    assert granted
    assert any("'seat': 2" in row and stage.want.server_id in row for row in found.rows["seat"])


def test_a_server_without_a_group(world: World) -> None:
    stage = staged(world, None)
    found, granted = by_twin(stage)
    assert found == by_steps(stage)
    assert granted


def test_a_create_whose_next_line_asks_nobody(world: World) -> None:
    group = world.group("anti-affinity")
    server = world.create("web-1", group)
    stage = at_place(world, server, world.lease(under_way(world, server)))
    found, granted = by_twin(stage)
    assert found == by_steps(stage)
    assert granted


def test_an_asker_that_saw_no_epoch(world: World) -> None:
    stage = staged(world, None)
    stage.want = replace(stage.want, host_epoch=None)
    found, granted = by_twin(stage)
    assert found == by_steps(stage)
    assert granted


# -- Declined: the steps decide -----------------------------------------------------------

Change = Callable[[Stage], object]


def _full(stage: Stage) -> None:
    stage.change(
        inventories.set_inventory, stage.want.host_id, {"VCPU": {"total": 4}, "MEMORY_MB": {"total": 1}}
    )


def _odd(stage: Stage) -> None:
    offers = {"VCPU": {"total": 4}, "MEMORY_MB": {"total": 4096, "step_size": 1000}}
    stage.change(inventories.set_inventory, stage.want.host_id, offers)


def _seat_taken(stage: Stage) -> None:
    other = next(row["id"] for row in stage.world.rows("server") if row["name"] == "other-0")
    stage.change(claims.take, [replace(stage.want, server_id=other, move_id=None)])


def _wait_for_it(stage: Stage) -> None:
    other = next(row for row in stage.world.rows("server") if row["name"] == "other-0")
    first = stage.world.live_migrate(other["id"])
    stage.change(queue.stand, first, 1, other["group_id"], {stage.want.host_id: True}, 60.0)


def _delete_group(stage: Stage) -> None:
    stage.world.delete_group(stage.seen.server["group_id"])


def _abort(stage: Stage) -> None:
    stage.change(
        moves.remember, stage.lease.move_id, {**stage.seen.facts, "abort": {"action": 1, "since": 1.0}}
    )


def _held_already(stage: Stage) -> None:
    """The member has its seat there, as when it is resized where it is."""
    seat = {"group_id": stage.seen.server["group_id"], "domain": stage.want.host_id, "seat": 1, "per_host": 1}
    stage.change(_insert, schema.seat, {**seat, "server_id": stage.want.server_id})


def _asked_already(stage: Stage) -> None:
    plain = twin.claiming(stage.world.store, stage.lease, stage.want, stage.seen, stage.host_name)
    assert plain is not None
    ask = {name: plain.values[name] for name in ("slot", "verb")} | {
        "id": "asked",
        "args": {},
        "asked_at": 1.0,
    }
    ask |= {"move_id": stage.seen.id, "server_id": stage.want.server_id, "host_id": stage.want.host_id}
    stage.change(_insert, schema.ask, {**ask, "host_epoch": 1, "seq": 99})


def _insert(tx: Tx, table: Table, row: dict[str, Any]) -> None:
    tx.execute(table.insert(), row)


def _lose_lease(stage: Stage) -> None:
    stage.lease = replace(stage.lease, epoch=stage.lease.epoch + 1)


def _rename(stage: Stage) -> None:
    stage.world.clock.advance(1)
    stage.change(servers.change, stage.want.server_id, name="renamed")


CHANGES: dict[str, Change] = {
    "C1: no room": _full,
    "C1: not in that step": _odd,
    "C1: no such class": lambda stage: setattr(
        stage, "want", replace(stage.want, resources={**RESOURCES, "VGPU": 1})
    ),
    "C1: no such class, and a strange name": lambda stage: setattr(
        stage, "want", replace(stage.want, resources={**RESOURCES, 'A "B", {C} \\ Ü': 1})
    ),
    "G1: the seat is taken": _seat_taken,
    "G1: the seat is its own": _held_already,
    "G4: the group is gone": _delete_group,
    "M5: another epoch": lambda stage: setattr(stage, "want", replace(stage.want, host_epoch=9)),
    "M5: fenced": lambda stage: stage.change(hosts.fence, stage.want.host_id),
    "M5: disabled": lambda stage: stage.change(hosts.set_disabled, stage.want.host_id, True),
    "M5: the lease is over": _lose_lease,
    "M3: a delete came": lambda stage: stage.world.delete(stage.want.server_id),
    "M7: another member came first": _wait_for_it,
    "aborted since": _abort,
    "renamed since": _rename,
    "asked already": _asked_already,
    "a host of another name": lambda stage: setattr(stage, "host_name", "another"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_has_changed_ends_as_by_steps(world: World, what: str) -> None:
    stage = staged(world, world.group("anti-affinity"))
    CHANGES[what](stage)
    found, granted = by_twin(stage)
    assert found == by_steps(stage)
    assert granted == (what == "G4: the group is gone")


@pytest.mark.parametrize("patient", [False, True])
def test_room_that_somebody_waits_for_is_left_by_the_patient_only(world: World, patient: bool) -> None:
    stage = staged(world, None)
    _wait_for_it(stage)
    stage.want = replace(stage.want, patient=patient)
    found, granted = by_twin(stage)
    assert found == by_steps(stage)
    assert granted != patient


def told_while_it_waits(stage: Stage, holds: Callable[..., object], change: Change) -> list[object]:
    """What the call says that waits for its host while that is held, and something changes meanwhile."""
    plain = twin.claiming(stage.world.store, stage.lease, stage.want, stage.seen, stage.host_name)
    assert plain is not None
    told: list[object] = []
    store = stage.world.store
    call = threading.Thread(target=lambda: told.append(store.call_now(plain.statement, plain.values)))
    with processes(store.url, 2) as (giver, watcher):
        holding = Actor(giver, _holding, holds, stage.want.host_id, stop="SELECT 'held'").reached()
        call.start()
        while not watcher.read_now(_waiting_calls):
            assert call.is_alive()
        change(stage)
        holding.end()
        call.join(30)
    return told


def _holding(tx: Tx, holds: Callable[..., object], host_id: str) -> None:
    holds(tx, host_id)
    tx.execute(text("SELECT 'held'"))


def _shrink(tx: Tx, host_id: str) -> None:
    hosts.lock(tx, host_id)
    inventories.set_inventory(tx, host_id, {"VCPU": {"total": 4}, "MEMORY_MB": {"total": 1}})


def test_who_begins_to_wait_while_the_call_waits_for_the_host_goes_first(world: World) -> None:
    """M7: the host is held by whoever gives it back; who came first stands in the queue by then."""
    stage = staged(world, world.group("anti-affinity"))
    assert told_while_it_waits(stage, hosts.lock, _wait_for_it) == [False]


@pytest.mark.parametrize("holds", [hosts.fence, _shrink])
def test_what_befalls_the_host_while_the_call_waits_for_it_is_seen(
    world: World, holds: Callable[..., object]
) -> None:
    """M5 and C1."""
    stage = staged(world, world.group("anti-affinity"))
    assert told_while_it_waits(stage, holds, lambda stage: None) == [False]
    assert world.move(stage.lease.move_id)["line"] == 0


def test_a_group_that_is_deleted_while_the_call_waits_for_the_host_binds_nobody(world: World) -> None:
    """G4: rule and group were looked at before the host was held; the foreign keys say that they are old,
    and the call is begun anew."""
    stage = staged(world, world.group("anti-affinity"))
    assert told_while_it_waits(stage, hosts.lock, _delete_group) == [True]
    assert {(claim["rule"], claim["domain"]) for claim in world.rows("claim")} == {("none", None)}
    assert world.store.retries == 1
    assert world.problems() == []


def _waiting_calls(tx: Tx) -> int:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%place_%'"
    return int(tx.execute(text(waiting)).scalar_one())


def test_who_has_waited_takes_the_steps(world: World) -> None:
    """They take it out of the queue, and tell that it waits no longer."""
    stage = staged(world, None)
    waits = {"since": 1.0, "message": "", "hosts": {}}
    stage.change(moves.remember, stage.lease.move_id, {**stage.seen.facts, "waits": waits})
    stage.seen = stage.world.store.read_now(sight.look, stage.lease).scene
    found, granted = by_twin(stage)
    assert found == by_steps(stage)
    assert not granted
    assert any("berthold_wait_for_place" in row for row in found.rows["event"])


@pytest.mark.parametrize("policy", ["affinity", "soft-affinity", "soft-anti-affinity"])
def test_other_policies_take_the_steps(world: World, policy: str) -> None:
    stage = staged(world, world.group(policy), others=0)
    found, granted = by_twin(stage)
    assert found == by_steps(stage)
    assert not granted


def test_sqlite_takes_the_steps() -> None:
    world = World(hosts=3)
    found, granted = by_twin(staged(world, world.group("anti-affinity")))
    world.close()
    assert "Outcome" in found.end
    assert not granted
