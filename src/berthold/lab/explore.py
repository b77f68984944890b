"""The explorer: several actors, every order of what they do, a check after each step.

An actor is a coroutine over a world whose store is switching: each of its transactions is a
`Turn`, and so is what it lets an agent do. Between two turns it depends on nothing but what
its turns gave it, so that it can be brought back to any point by telling it that again,
while the world is brought back by its photograph. So orders with a common beginning share it.

With `prune` a state that was seen before (the same rows, the same guests, the same actors
at the same points with the same knowledge) is not gone on from again: what can follow has
been looked at. Without it every order is run to its end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from structlog.testing import capture_logs

from berthold.lab.choices import Choices, at_random
from berthold.lab.world import Turn, World, turn
from berthold.ledger.schema import host

Actor = Callable[[World], Coroutine[Any, Any, Any]]
FORGET = "forgets"

# What the future depends on. The rest is told, not read.
STATE = (
    "claim", "seat", "group_place", "inventory", "server", "project", "server_group",
    "group_move", "ask", "network_port", "queue",
)  # fmt: skip
_HOST = ", ".join(c.name for c in host.columns if c.name != "facts")
QUERIES = (
    *(f"SELECT * FROM {name} ORDER BY 1, 2, 3" for name in STATE),
    f"SELECT {_HOST} FROM host ORDER BY id",
    "SELECT id, server_id, playbook, state, line, attempt, epoch, source_id, target_id, facts, failure"
    " FROM move ORDER BY id",
)


async def forget() -> None:
    """For actors: from here on what came before matters no more (it is all in the world)."""
    await turn(FORGET, lambda: None)


@dataclass(frozen=True)
class Gave:
    """What a turn gave its actor: a value, or an error that it raised."""

    name: str
    value: Any = None
    error: Exception | None = None

    def __str__(self) -> str:
        if self.error is not None:
            return f"{self.name}: {type(self.error).__name__}: {self.error}"
        return f"{self.name}: {self.value}" if isinstance(self.value, str) else self.name


@dataclass(frozen=True)
class Told:
    """An actor's past: all it was given, and how it ended."""

    gave: tuple[Gave, ...] = ()
    known_from: int = 0
    over: bool = False
    result: Any = None


@dataclass(frozen=True, eq=False)
class Moment:
    """A world as it was between two turns: its photograph, and what the future depends on of it."""

    photograph: Any
    rows: bytes


@dataclass
class Explored:
    """How much was looked at. `orders` ran to their end; `turns` were taken; `states` were met."""

    orders: int = 0
    turns: int = 0
    states: int = 0

    def __str__(self) -> str:
        return f"{self.orders} orders, {self.turns} turns, {self.states} states"


class Broken(AssertionError):
    """A check failed. The message is the story; `schedule` replays it."""

    def __init__(self, problem: str, story: Sequence[str], schedule: Sequence[int]) -> None:
        told = "\n".join(f"  {line}" for line in story)
        super().__init__(f"{problem}\nschedule {list(schedule)}:\n{told}")
        self.schedule = list(schedule)


@dataclass
class Explorer:
    """One exploration. `always` gives the problems of a world, `at_end` those of a finished order
    (it is given each actor's result)."""

    world: World
    actors: Mapping[str, Actor]
    always: Callable[[World], Sequence[str]]
    at_end: Callable[[World, Mapping[str, Any]], Sequence[str]] = lambda world, results: []
    prune: bool = True
    found: Explored = field(default_factory=Explored)
    _seen: set[bytes] = field(default_factory=set)
    _sound: set[bytes] = field(default_factory=set)
    _at: Moment | None = None  # what the world is at, where that is known

    def explore(self) -> Explored:
        """Look at everything. Raises `Broken` at the first order that goes wrong."""
        return self._with_switching(lambda: self._branch(self._moment(), self._begun(), (), ()))

    def play(self, choices: Choices) -> Explored:
        """One order, decided by `choices`: random runs, and schedules again."""
        return self._with_switching(lambda: self._one(choices))

    def _with_switching(self, work: Callable[[], None]) -> Explored:
        self.world.store.switching = True
        start = self.world.photograph()
        try:
            # Actors are brought back many times; what they log would be read as happening again.
            with capture_logs():
                work()
        finally:
            self.world.store.switching = False
            self.world.restore(start)
        return self.found

    def _begun(self) -> dict[str, Told]:
        return {name: Told() for name in self.actors}

    def _branch(
        self, before: Moment, told: dict[str, Told], story: tuple[str, ...], schedule: tuple[int, ...]
    ) -> None:
        open_ = [name for name in self.actors if not told[name].over]
        if not open_:
            self._end(told, story, schedule)
            return
        for number, name in enumerate(open_):
            if self._at is not before:
                self.world.restore(before.photograph)
                self._at = before
            after = {**told, name: self._take_turn(name, told[name])}
            tale, taken = (*story, _line(name, after[name])), (*schedule, number)
            rows = self._rows() if self._at is None else before.rows
            if self._check(after, rows, tale, taken):
                self._branch(self._at or self._moment(rows), after, tale, taken)

    def _moment(self, rows: bytes | None = None) -> Moment:
        """The world as it is now."""
        self._at = Moment(self.world.photograph(), rows or self._rows())
        return self._at

    def _one(self, choices: Choices) -> None:
        told, story = self._begun(), tuple[str, ...]()
        while open_ := [name for name in self.actors if not told[name].over]:
            name = choices.pick(open_, "whose turn")
            told[name] = self._take_turn(name, told[name])
            story = (*story, _line(name, told[name]))
            self._check(told, self._rows(), story, choices.schedule())
        self._end(told, story, choices.schedule())

    # -- Turns ----------------------------------------------------------------------------

    def _take_turn(self, name: str, told: Told) -> Told:
        """Bring the actor back to where it was, and let it take its next turn."""
        self.found.turns += 1
        work = self.actors[name](self.world)
        self._draw(name, 0, "after")
        waiting: Turn = work.send(None)
        for number, gave in enumerate(told.gave, 1):
            self._draw(name, number, "after")
            waiting = _tell(work, gave)
        self._draw(name, len(told.gave) + 1, "in")
        gave = _do(waiting)
        if not waiting.looks:
            self._at = None
        return self._hear(name, work, Told((*told.gave, gave), told.known_from))

    def _hear(self, name: str, work: Coroutine[Any, Any, Any], told: Told) -> Told:
        """Tell the actor what its turn gave, up to where it waits for the next."""
        try:
            while True:
                self._draw(name, len(told.gave), "after")
                waiting: Turn = _tell(work, told.gave[-1])
                if waiting.name != FORGET:
                    work.close()
                    return told
                told = Told((*told.gave, Gave(FORGET)), len(told.gave) + 1)
        except StopIteration as end:
            return Told(told.gave, len(told.gave), True, end.value)

    def _draw(self, name: str, number: int, point: str) -> None:
        """Ids and chance follow from who takes which turn, not from when."""
        self.world.clock.chance().seed(f"{name}/{number}/{point}")

    # -- Checks ---------------------------------------------------------------------------

    def _check(
        self, told: dict[str, Told], rows: bytes, story: Sequence[str], schedule: Sequence[int]
    ) -> bool:
        """Whether this state is to be gone on from."""
        if rows not in self._sound:
            self._sound.add(rows)
            if problems := self.always(self.world):
                raise Broken("; ".join(problems), story, schedule)
        state = hashlib.blake2b(rows)
        for name, past in told.items():
            known = [(gave.name, gave.value, str(gave.error)) for gave in past.gave[past.known_from :]]
            state.update(repr((name, len(past.gave), past.over, past.result, known)).encode())
        digest = state.digest()
        if digest in self._seen:
            return not self.prune
        self._seen.add(digest)
        self.found.states = len(self._seen)
        return True

    def _rows(self) -> bytes:
        """Everything that what follows depends on, as a digest."""
        raw = self.world.store.connection()
        rows = [raw.execute(query).fetchall() for query in QUERIES]
        guests = [self.world.ground.states(name) for name in self.world.agents]
        return hashlib.blake2b(repr((rows, guests)).encode()).digest()

    def _end(self, told: dict[str, Told], story: Sequence[str], schedule: Sequence[int]) -> None:
        self.found.orders += 1
        self._at = None  # what is asked at the end may go on with the world
        self.world.store.switching = False
        try:
            problems = self.at_end(self.world, {name: past.result for name, past in told.items()})
        finally:
            self.world.store.switching = True
        if problems:
            raise Broken("; ".join(problems), story, schedule)


def _do(waiting: Turn) -> Gave:
    try:
        return Gave(waiting.name, waiting.do())
    except Exception as error:
        return Gave(waiting.name, error=error)


def _tell(work: Coroutine[Any, Any, Any], gave: Gave) -> Any:
    if gave.error is not None:
        return work.throw(gave.error.with_traceback(None))
    return work.send(gave.value)


def _line(name: str, told: Told) -> str:
    last = [gave for gave in told.gave if gave.name != FORGET][-1]
    ends = f" → {told.result}" if told.over else ""
    return f"{name:<12} {last}{ends}"


def every_order(
    world: World,
    actors: Mapping[str, Actor],
    always: Callable[[World], Sequence[str]],
    at_end: Callable[[World, Mapping[str, Any]], Sequence[str]] = lambda world, results: [],
    *,
    prune: bool = True,
) -> Explored:
    """`Explorer.explore` in one call."""
    return Explorer(world, actors, always, at_end, prune).explore()


def random_orders(explorer: Explorer, seed: int, runs: int) -> Explored:
    """So many orders by chance, each from the same beginning."""
    for choices in at_random(seed, runs):
        explorer.play(choices)
    return explorer.found
