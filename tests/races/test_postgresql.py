"""The races of `lab/scenarios.py` on PostgreSQL: real connections, transactions really open at once.

Each racer is a thread with connections of its own. All run freely; then each in turn goes first, and it is
noted which points it comes by; then it is held at every one of them, inside a transaction, while the others
run as far as they can. However it goes, the same must be true as in memory, whether plain claims are taken
by the steps or by their twin.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import event

import held_inside
from berthold.clock import SeededClock
from berthold.database import metadata
from berthold.lab import engines
from berthold.lab.deletions import GROUP_GOES_UNDER_MANY
from berthold.lab.outages import OUTAGES
from berthold.lab.queues import QUEUES
from berthold.lab.racers import Racer
from berthold.lab.scenarios import SCENARIOS, Scenario, always
from berthold.lab.turns import LabStore
from berthold.lab.whole_groups import WHOLE_GROUPS
from berthold.lab.world import Turn, World
from berthold.ledger.store import Statement, Tx
from berthold.moves import twin
from held_inside import Gate, Inside

LONG_S = 30.0
TICK_S = 0.005
# Others than those who wait for the one that is held are done after so long, each.
WAITS_S = 0.25


@dataclass(frozen=True)
class Before:
    """A point before a statement."""

    name: str
    statement: re.Pattern[str]


PLACE = "SELECT place_4"
# Where a racer is held. Before it locks the first record: what it has looked at may change.
BEGINS = Before("begins", re.compile(r"FROM (move|server_group|group_move)\b.* FOR UPDATE", re.S))
BEFORE = (
    BEGINS,
    # It has chosen a host, or knows that it has to wait for one.
    Before("has looked", re.compile(rf"FROM host\b.* FOR UPDATE|^{PLACE}", re.S)),
    Before("will queue", re.compile("SELECT pg_advisory_xact_lock")),
)
# In the server, for a plain claim is one statement: half of what belongs together is written, or all is and
# nobody can see it.
INSIDE = (
    Inside("claims", {"claim": "INSERT"}),
    Inside("gives up", {"claim": "DELETE", "seat": "DELETE", "group_place": "DELETE"}),
    Inside("directs a group", {"group_move": "INSERT OR UPDATE"}),
    Inside(
        "has written",
        {"claim": "INSERT OR UPDATE OR DELETE", "group_move": "INSERT OR UPDATE", "queue": "INSERT"},
        at_commit=True,
    ),
)
POINTS: tuple[Before | Inside, ...] = (*BEFORE, *INSIDE)
# What is done otherwise where claims are taken at once. All else is as it is step by step, and held there.
AROUND_A_CLAIM = tuple(point for point in POINTS if point.name in ("has looked", "claims", "has written"))
# Where it is known that somebody comes by; else these points are points no more.
COMES_BY = {
    "two movers, one free host": {"has looked", "claims", "has written"},
    "a claim while its host is released": {"begins", "has looked", "gives up", "has written"},
    "forward against back": {"directs a group", "has written"},
    "two that want each other's place": {"will queue", "has written"},
}
AT_ONCE = "was granted a claim at once"
# For one thread at a time: the simulated machines.
MACHINES = threading.Lock()

WAYS = ("step by step", "at once")
RACES = [
    (scenario, way)
    for scenario in (*SCENARIOS, *OUTAGES, *GROUP_GOES_UNDER_MANY, *WHOLE_GROUPS)
    for way in WAYS
    if scenario.plain or way == "step by step"
]
RACES += [(scenario, "at once") for scenario in QUEUES]


class Running(threading.Thread):
    """A racer on its way. It notes which points it comes by (those inside the server if it is `watched`),
    and is held when it first comes to `point`."""

    def __init__(self, world: World, racer: Racer, watched: bool, point: Before | Inside | None) -> None:
        super().__init__()
        self.result: Any = None
        self.error: BaseException | None = None
        self.passed: set[str] = set()
        self.came_there = False
        self.stands = threading.Event()
        self.go_on = threading.Event()
        self._world, self._racer = world, racer
        self._watched, self._point = watched, point

    def run(self) -> None:
        try:
            self.result = drive(self._racer(self._world))
        except BaseException as error:
            self.error = error
        finally:
            self.stands.set()

    def before(self, statement: str) -> None:
        for point in BEFORE:
            if point.statement.search(statement):
                self.passed.add(point.name)
                if point is self._point and not self.came_there:
                    self.came_there = True
                    self.stands.set()
                    assert self.go_on.wait(LONG_S)

    @property
    def wish(self) -> str:
        """The point inside the server at which it wishes to be held."""
        if isinstance(self._point, Inside) and not self.came_there:
            return self._point.name
        return held_inside.NOWHERE if self._watched else ""

    def until_it_stands(self, gate: Gate) -> None:
        """Wait until it is held, or has ended without."""
        for _ in range(int(LONG_S / TICK_S)):
            if self.stands.wait(TICK_S):
                return
            if isinstance(self._point, Inside) and gate.holds():
                self.came_there = True
                return
        raise AssertionError("a racer hangs on its way to where it is held")

    def end(self) -> Any:
        self.go_on.set()
        self.join(LONG_S)
        assert not self.is_alive(), "a racer hangs"
        if self.error:
            raise self.error
        return self.result


def this_racer() -> Running | None:
    this = threading.current_thread()
    return this if isinstance(this, Running) else None


def drive(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a racer on this thread to its end; what it returns."""
    try:
        waiting: Turn = work.send(None)
        while True:
            with MACHINES:
                value = waiting.do()
            waiting = work.send(value)
    except StopIteration as end:
        return end.value


def race(
    world: World,
    gate: Gate,
    racers: Mapping[str, Racer],
    first: str | None = None,
    point: Before | Inside | None = None,
) -> dict[str, Running]:
    """Let all run, `first` before the others to its point (or its end); how they ran."""
    running = {
        name: Running(world, racer, name == first, point if name == first else None)
        for name, racer in racers.items()
    }
    others = [each for name, each in running.items() if name != first]
    if isinstance(point, Inside):
        gate.shut()
    try:
        if first:
            running[first].start()
            running[first].until_it_stands(gate)
        for each in others:
            each.start()
        if first and running[first].came_there:
            as_far_as_they_can(others, gate, held=isinstance(point, Inside))
    finally:
        gate.open()
        for each in running.values():
            each.go_on.set()
    for each in running.values():
        each.end()
    return running


def as_far_as_they_can(others: list[Running], gate: Gate, held: bool) -> None:
    """Until each has ended or waits for a lock; or for the machines, of which nobody can tell. `held`:
    somebody else stands at the gate."""
    until = time.monotonic() + WAITS_S * len(others)
    while time.monotonic() < until:
        going = [each for each in others if each.is_alive()]
        if gate.waiting() - held >= len(going):
            return
        going[0].join(TICK_S)


async def at_once(store: LabStore, statement: Statement, values: Mapping[str, Any], _: object) -> Any:
    """The plain claim as the product takes it, in a transaction that nobody sees begin or end."""
    racer = this_racer()
    if racer:
        racer.before(PLACE)
    granted = store.call_now(statement, values)
    if racer and granted:
        racer.passed.add(AT_ONCE)
    return granted


def watch(store: LabStore) -> None:
    """Tell the racers of this store what they come by."""

    @event.listens_for(store.writer, "before_cursor_execute")
    def before(_: Tx, __: object, statement: str, *___: object) -> None:
        if racer := this_racer():
            racer.before(statement)

    def passed(point: str) -> None:
        if racer := this_racer():
            racer.passed.add(point)

    held_inside.attend(store.writer, lambda: racer.wish if (racer := this_racer()) else "", passed)


@dataclass(frozen=True)
class Course:
    """Where one race after another is run: a database with a gate, and connections that stay."""

    store: LabStore
    gate: Gate


@pytest.fixture(scope="module")
def course(postgresql: engines.PostgreSQL) -> Iterator[Course]:
    url = postgresql.lend()
    with held_inside.gate(url, INSIDE) as gate, closing(LabStore(SeededClock(0), url)) as store:
        store.make(metadata)
        store.database.in_place = False
        watch(store)
        yield Course(store, gate)
    postgresql.back(url)


@contextmanager
def staged(scenario: Scenario, store: LabStore) -> Iterator[tuple[World, dict[str, Racer]]]:
    world = World(hosts=scenario.hosts, store=store)
    try:
        yield world, dict(scenario.stage(world))
    finally:
        world.close()


@pytest.mark.parametrize(
    ("scenario", "way"), RACES, ids=[f"{way}-{scenario.name}" for scenario, way in RACES]
)
def test_racing_connections(
    scenario: Scenario,
    way: str,
    postgresql: engines.PostgreSQL,
    course: Course,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LabStore, "call", at_once)
    if way == "step by step":
        monkeypatch.setattr(twin, "ENGINES", frozenset())
    with staged(scenario, course.store) as (world, racers):
        before = world.photograph()
        passed: set[str] = set()
        held: list[str] = []

        def run(first: str | None = None, point: Before | Inside | None = None) -> dict[str, Running]:
            world.restore(before)
            running = race(world, course.gate, racers, first, point)
            results = {name: each.result for name, each in running.items()}
            how = f"{results}; {first} came first, held where it {point.name if point else 'ends'}"
            assert always(world) == [], how
            assert scenario.expect(world, results) == [], how
            passed.update(*(each.passed for each in running.values()))
            return running

        run()
        here = AROUND_A_CLAIM if way == "at once" and scenario not in QUEUES else POINTS
        for name in [scenario.held] if scenario.held else list(racers)[: 1 if scenario.alike else None]:
            alone = run(name)[name].passed
            for point in [each for each in here if each.name in alone and each is not BEGINS] or [BEGINS]:
                assert run(name, point)[name].came_there, f"{name} was not held where it {point.name}"
                held.append(point.name)
        known = COMES_BY.get(scenario.name, {"has written"}) & {"begins", *(point.name for point in here)}
        assert known <= set(held), "statements look otherwise now"
        if scenario not in QUEUES:  # who has waited takes steps
            assert (AT_ONCE in passed) == (way == "at once"), "where the twin takes no claim it needs no race"
        print(
            f"{scenario.name}: held where one {', '.join(held)}; on PostgreSQL {postgresql.version},"
            f" {world.store.retries} transactions begun anew"
        )


def test_somebody_is_known_to_come_by_each_point() -> None:
    assert set().union(*COMES_BY.values()) == {point.name for point in POINTS}
    assert COMES_BY.keys() <= {scenario.name for scenario, _ in RACES}
