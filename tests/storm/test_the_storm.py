"""A hundred storms, steered by Hypothesis: every operation at once, while everything fails.

Each run makes at least 30 acknowledged operations, half of them on contended groups, and at least
10 faults strike. After each of its turns every promise is asked for (`lab/storm/checks.py`), and
when all is calm again nothing may be left over. What storms cannot miss is shown below: a ledger
that has lost a constraint is found out within a few runs.

Ten tests of ten runs, so that workers can share them; deterministic. A few more blow on PostgreSQL, from
seeds. `make storm` goes on from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from sqlalchemy import MetaData, update

from berthold.database import FUNCTIONS, MIGRATIONS, metadata
from berthold.lab import engines, turns
from berthold.lab.storm.faults import FAULTS_WORDS
from berthold.lab.storm.operations import OPERATORS_WORDS, USERS_WORDS
from berthold.lab.storm.runs import (
    FAULTS_LEAST,
    NUMBERS,
    OPERATIONS_LEAST,
    Broken,
    Line,
    Sea,
    Storm,
    run,
    script,
    shortest,
)
from berthold.lab.strategies import metadata_without, scheduler_only, unguarded_metadata
from berthold.lab.turns import called
from berthold.ledger import inventories, seats
from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Statement, Tx
from berthold.moves import twin

RUNS, PARTS = 100, 10
STEPS = 50
SETTINGS = settings(
    max_examples=RUNS // PARTS + 3,  # it draws the simplest one twice, and the same in each part
    stateful_step_count=STEPS,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
numbers = some.integers(0, NUMBERS - 1)


@pytest.fixture(scope="module")
def sea() -> Iterator[Sea]:
    made = Sea()
    yield made
    made.close()


class Weather(RuleBasedStateMachine):
    """One storm: its lines are drawn, then it blows. What it needs of each kind and Hypothesis has not given
    it, it draws itself."""

    sea: Sea
    storms: list[Storm]

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[Line] = []

    @rule(word=some.sampled_from(USERS_WORDS), number=numbers)
    def a_user_asks(self, word: str, number: int) -> None:
        self.lines.append(("asks", word, number))

    @rule(word=some.sampled_from(OPERATORS_WORDS), number=numbers)
    def an_operator_asks(self, word: str, number: int) -> None:
        self.lines.append(("asks", word, number))

    @rule(word=some.sampled_from(FAULTS_WORDS), number=numbers)
    def something_breaks(self, word: str, number: int) -> None:
        self.lines.append(("breaks", word, number))

    @rule(number=numbers)
    def time_for_turns(self, number: int) -> None:
        self.lines.append(("works", "", number))

    def teardown(self) -> None:
        # The simplest ones are drawn again and again, in each part too.
        drawn = tuple(self.lines)
        if drawn not in WEATHERED:
            WEATHERED[drawn] = run(self.sea, self.lines)
        self.storms.append(WEATHERED[drawn])


# Storms that are over and broke nothing, by the lines that were drawn. The same lines are the same storm.
WEATHERED: dict[tuple[Line, ...], Storm] = {}


def assert_enough(storm: Storm) -> None:
    """It had what every storm is to have."""
    assert storm.operations >= OPERATIONS_LEAST
    assert storm.faults >= FAULTS_LEAST
    assert 2 * storm.contended >= storm.operations


@pytest.mark.parametrize("part", range(PARTS))
def test_ten_storms_break_no_promise_and_leave_nothing_behind(part: int, sea: Sea) -> None:
    # The name is all that makes the parts differ: Hypothesis draws by it.
    weather = type(f"Weather{part}", (Weather,), {"sea": sea, "storms": []})
    run_state_machine_as_test(weather, settings=SETTINGS)
    storms: list[Storm] = weather.storms  # type: ignore[attr-defined]
    # Two that were drawn unlike may be one: what a run still needs it draws itself.
    assert len({str(storm.lines) for storm in storms}) >= RUNS // PARTS
    for storm in storms:
        assert_enough(storm)
    done = sum((storm.acknowledged for storm in storms), Counter[str]())
    print(f"{len(storms)} storms, {done.total()} operations: {dict(done.most_common())}")


def test_a_guest_that_is_late_where_its_group_flees_from_is_no_arrival(sea: Sea) -> None:
    """A create had its place when the host lost power, and came to be there once the host was back, before
    its move had heard of the fence. The checks took that for a second home of the group."""
    assert_enough(run(sea, script(7112)))


# -- What a storm cannot miss -----------------------------------------------------------------


def found_out(sea: Sea, words: str, first: int, runs: int = 30) -> Broken:
    """The first storm in which a promise is broken in such words; `first` is a seed where that was soon."""
    for seed in range(first, first + runs):
        try:
            run(sea, script(seed))
        except Broken as broken:
            if words in broken.problem:
                return broken
    raise AssertionError(f"{runs} storms, and none has found {words!r}")


@contextmanager
def without_seats_and_places(*kept: str) -> Iterator[Sea]:
    """The strategy of the bug report, for all policies but those that are `kept`."""
    rules = {policy: seats.RULES[policy] for policy in kept}
    with scheduler_only():
        seats.RULES = rules
        with closing(Sea(unguarded_metadata(), guarded=False)) as sea:
            yield sea


def test_a_ledger_that_asks_for_no_seat_is_found_out() -> None:
    """G1: the judge tells it from the history, or from the guests alone."""
    with without_seats_and_places("affinity") as sea:
        assert found_out(sea, "of anti-affinity group", first=6).promise == "G1"


def test_a_ledger_that_asks_for_no_place_is_found_out() -> None:
    with without_seats_and_places("anti-affinity") as sea:
        assert found_out(sea, "of affinity group", first=18).promise == "G2"


def test_a_ledger_that_looks_before_it_takes_capacity_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """C1: what is taken is added, whether it fits or not; the scheduler alone has looked."""
    unguarded = (
        update(inventories.inventory)
        .where(*inventories.one_class)
        .values(used=inventories.c.used + inventories.wanted)
    )
    monkeypatch.setattr(inventories, "USE", Prepared(unguarded))
    unbounded = metadata_without(lambda each: each.name == "c1_capacity")
    with closing(Sea(unbounded, guarded=False)) as sea:
        assert found_out(sea, "raises the use of host", first=2).promise == "C1"


def test_the_shortest_history_breaks_the_same_promise_again() -> None:
    with without_seats_and_places() as sea:
        broken = found_out(sea, "of anti-affinity group", first=6)
        short = shortest(sea, broken, tries=6)
        assert len(short.lines) < len(broken.lines)
        with pytest.raises(Broken) as again:
            run(sea, short.lines, fill=False)
        assert again.value.problem == short.problem


# -- The same on PostgreSQL -------------------------------------------------------------------


@contextmanager
def at_sea(server: engines.PostgreSQL, tables: MetaData = metadata, *, guarded: bool = True) -> Iterator[Sea]:
    """On a database of its own there."""
    url = server.create_bare()
    try:
        with closing(Sea(tables, url=url, guarded=guarded)) as sea:
            yield sea
    finally:
        server.drop(url)


@pytest.fixture(scope="module")
def sea_on_postgresql(postgresql: engines.PostgreSQL) -> Iterator[Sea]:
    with at_sea(postgresql) as sea:
        yield sea


@pytest.mark.parametrize("seed", range(5))
def test_a_storm_on_postgresql_breaks_no_promise_and_leaves_nothing_behind(
    seed: int, sea_on_postgresql: Sea, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain claims are taken there by the server's own function."""
    granted = Counter[bool]()

    def counted(tx: Tx, statement: Statement, values: Mapping[str, Any]) -> Any:
        grants = called(tx, statement, values)
        granted[grants] += 1
        return grants

    monkeypatch.setattr(turns, "called", counted)
    storm = run(sea_on_postgresql, script(seed))
    assert_enough(storm)
    assert granted[True]
    print(f"{storm.operations} operations, {storm.faults} faults, claims in one call: {dict(granted)}")


def test_from_one_seed_both_engines_do_the_same(
    sea: Sea, sea_on_postgresql: Sea, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Line by line, if claims are taken by the steps on both: what the function declines is a turn more."""
    monkeypatch.setattr(twin, "ENGINES", frozenset())
    one, other = (run(each, script(100)) for each in (sea, sea_on_postgresql))
    assert one.story == other.story
    assert one.acknowledged == other.acknowledged
    assert one.cloud.struck == other.cloud.struck


def test_a_function_that_looks_for_no_room_is_found_out(postgresql: engines.PostgreSQL) -> None:
    """C1, where the constraint is gone too: the storm tells it from what the function wrote."""
    plain = (MIGRATIONS / f"{FUNCTIONS[0]}.sql").read_text()
    careless = plain.replace("<= capacity", "IS NOT NULL")
    assert careless != plain
    unbounded = metadata_without(lambda each: each.name == "c1_capacity")
    with at_sea(postgresql, unbounded, guarded=False) as sea:
        with sea.cloud.store.writer.begin() as tx:
            tx.exec_driver_sql(careless)
        assert found_out(sea, "raises the use of host", first=3).promise == "C1"
