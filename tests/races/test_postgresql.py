"""The races of `lab/scenarios.py` on PostgreSQL: real connections, transactions really open at once.

Each racer is a thread with connections of its own. Once all run freely; then each in turn is
held between two statements of an open transaction while the others run as far as they can.
However it goes, the same must be true as in memory, whether plain claims are taken by the steps or by
their twin.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event, select

import engines
from berthold.database import metadata
from berthold.lab.deletions import GROUP_GOES_UNDER_MANY
from berthold.lab.outages import OUTAGES
from berthold.lab.queues import QUEUES
from berthold.lab.racers import Racer
from berthold.lab.scenarios import SCENARIOS, Scenario, always
from berthold.lab.whole_groups import WHOLE_GROUPS
from berthold.lab.world import Turn, World
from berthold.ledger.store import Tx
from berthold.moves import twin

LONG_S = 30.0
# Who is not done after this long waits for the one that is held.
WAITS_S = 0.25
# Before which of its statements a racer is held: its claim half written, written, and half given up.
POINTS = {
    "step by step": ("INSERT INTO claim", "INSERT INTO history", "DELETE FROM (claim|seat|group_place)"),
    "at once": ("^COMMIT after SELECT place_2",),
}
# For one thread at a time: the simulated machines.
MACHINES = threading.Lock()

RACES = [
    pytest.param(scenario, way, id=f"{way}-{scenario.name}")
    for scenario in (*SCENARIOS, *OUTAGES, *GROUP_GOES_UNDER_MANY, *WHOLE_GROUPS)
    for way in POINTS
    if scenario.plain or way == "step by step"
]
# Who may wait: held before it stands in the queue, when it stands there, and when its turn has come.
POINTS["in the queue"] = (
    "SELECT pg_advisory_xact_lock",
    "^COMMIT after UPDATE move .*owner",
    "INSERT INTO claim",
)
RACES += [pytest.param(each, "in the queue", id=f"in the queue-{each.name}") for each in QUEUES]


class Running(threading.Thread):
    """A racer on its way, held before the first statement that matches `point`."""

    def __init__(self, world: World, racer: Racer, point: str | None) -> None:
        super().__init__()
        self.result: Any = None
        self.error: BaseException | None = None
        self.held = threading.Event()
        self.go_on = threading.Event()
        self.last = ""
        self._world, self._racer = world, racer
        self._point = re.compile(point) if point else None

    def run(self) -> None:
        try:
            self.result = drive(self._racer(self._world))
        except BaseException as error:
            self.error = error
        finally:
            self.held.set()

    def hold(self, statement: str) -> None:
        if self._point and not self.held.is_set() and self._point.search(statement):
            self.held.set()
            assert self.go_on.wait(LONG_S)

    def end(self) -> Any:
        self.go_on.set()
        self.join(LONG_S)
        assert not self.is_alive(), "a racer hangs"
        if self.error:
            raise self.error
        return self.result


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


def race(world: World, racers: dict[str, Racer], held: str | None, point: str | None) -> dict[str, Any]:
    """Let all run, `held` first up to its point; what each returned."""
    running = {name: Running(world, racer, point if name == held else None) for name, racer in racers.items()}

    def before(_: Tx, __: object, statement: str, *___: object) -> None:
        this = threading.current_thread()
        if isinstance(this, Running):
            this.hold(statement)
            this.last = statement

    def before_commit(_: Tx) -> None:
        this = threading.current_thread()
        if isinstance(this, Running):
            this.hold(f"COMMIT after {this.last}")

    event.listen(world.store.writer, "before_cursor_execute", before)
    event.listen(world.store.writer, "commit", before_commit)
    try:
        if held:
            running[held].start()
            assert running[held].held.wait(LONG_S)
        others = [each for name, each in running.items() if name != held]
        for each in others:
            each.start()
        if held:
            for each in others:
                each.join(WAITS_S)
            running[held].go_on.set()
        return {name: each.end() for name, each in running.items()}
    finally:
        for each in running.values():
            each.go_on.set()
        event.remove(world.store.writer, "before_cursor_execute", before)
        event.remove(world.store.writer, "commit", before_commit)


@contextmanager
def staged(scenario: Scenario, url: str) -> Iterator[tuple[World, dict[str, Racer]]]:
    world = World(hosts=scenario.hosts, url=url)
    try:
        yield world, dict(scenario.stage(world))
    finally:
        world.close()


class Photograph:
    """A world on PostgreSQL as it was, to begin again from there."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.leases = dict(world.leases)
        self.ground = world.ground.snapshot()
        self.welcomes = {name: agent.welcome for name, agent in world.agents.items()}

        def read(tx: Tx) -> dict[str, list[dict[str, Any]]]:
            return {
                table.name: [dict(row) for row in tx.execute(select(table)).mappings()]
                for table in metadata.sorted_tables
            }

        self.rows = world.store.read_now(read)

    def restore(self) -> None:
        def write(tx: Tx) -> None:
            for table in reversed(metadata.sorted_tables):
                tx.execute(table.delete())
            for table in metadata.sorted_tables:
                if self.rows[table.name]:
                    tx.execute(table.insert(), self.rows[table.name])

        self.world.store.write_now(write)
        self.world.ground.restore(self.ground)
        self.world.leases = dict(self.leases)
        for name, agent in self.world.agents.items():
            agent.welcome = self.welcomes[name]
        # Generations went back: what was seen of hosts is of another time.
        self.world.store.bus.tell(["hosts"])


@pytest.mark.parametrize(("scenario", "way"), RACES)
def test_racing_connections(
    scenario: Scenario,
    way: str,
    postgresql_url: str,
    postgresql: engines.PostgreSQL,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if way == "step by step":
        monkeypatch.setattr(twin, "ENGINES", frozenset())
    with staged(scenario, postgresql_url) as (world, racers):
        photograph = Photograph(world)
        free: list[tuple[str | None, str | None]] = [(None, None)] * 2
        holding = [scenario.held] if scenario.held else racers
        held = [(name, point) for name in holding for point in POINTS[way]]
        for name, point in [*free, *held]:
            photograph.restore()
            results = race(world, racers, name, point)
            how = f"{name} held before {point}: {results}" if name else f"all at once: {results}"
            assert always(world) == [], how
            assert scenario.expect(world, results) == [], how
        print(
            f"{scenario.name}: {len(free) + len(held)} races on PostgreSQL {postgresql.version},"
            f" {world.store.retries} transactions begun anew"
        )
