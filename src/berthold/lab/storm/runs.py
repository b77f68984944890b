"""One storm: a history of things asked, faults and turns, checked after each of them, and calmed.

A history is a list of lines (what, word, number). The word says what somebody would like to ask
for or break; where nobody fits it, another word is drawn. All else follows from the number. So a
history can be played again, and still means something when lines are left out: `shortest` finds
out which of them are needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from sqlalchemy import MetaData
from structlog.testing import capture_logs

from berthold.database import metadata
from berthold.errors import Failure
from berthold.lab.storm.checks import Watcher, remains
from berthold.lab.storm.cloud import MEMORY_MB, VCPUS, Cloud
from berthold.lab.storm.faults import FAULTS, FAULTS_WORDS
from berthold.lab.storm.operations import (
    OPERATIONS,
    OPERATORS_WORDS,
    USERS_WORDS,
    Operation,
    furnish,
)
from berthold.lab.storm.sight import Sight, look

What = Literal["asks", "breaks", "works"]
Line = tuple[What, str, int]

# What every run reaches: acknowledged operations, and faults that struck.
OPERATIONS_LEAST, FAULTS_LEAST = 30, 10
# What can be asked whatever happens, but for its own sake only.
ALWAYS = frozenset({"delete", "create-group", "delete-group", "quota-set"})
WORDS = (*USERS_WORDS, *OPERATORS_WORDS)
NUMBERS = 2**16
CALM, CALM_S = "-- calm --", 300


class Broken(AssertionError):
    """A promise was broken, or the cloud never was calm again. Its message is the story; `lines` are the
    history, to be played again."""

    def __init__(self, problem: str, lines: Sequence[Line], story: Sequence[str]) -> None:
        told = "\n".join(f"  {number:3} {line}" for number, line in enumerate(story))
        super().__init__(f"{problem}\n{told}\nlines = {list(lines)}")
        self.problem = problem
        self.lines = list(lines)
        self.in_the_calm = CALM in story

    @property
    def promise(self) -> str:
        """Which promise, in a word: the same for the same fault."""
        return self.problem.split(":")[0].split(" ")[0]


class Sea:
    """Where storms begin: a furnished cloud and its photograph. `guarded` false: a ledger that lost
    what keeps its promises, where only the judge and the guests are believed."""

    def __init__(self, tables: MetaData = metadata, *, url: str = "sqlite://", guarded: bool = True) -> None:
        self.guarded = guarded
        with capture_logs():
            self.cloud = Cloud(tables, url)
            furnish(self.cloud)
            self.cloud.settle()
        self._photograph = self.cloud.photograph()

    def calm(self) -> Cloud:
        """The cloud as it was before any storm."""
        self.cloud.restore(self._photograph)
        for agent in self.cloud.agents.values():
            driver: Any = agent.driver
            driver.amounts = {"VCPU": VCPUS, "MEMORY_MB": MEMORY_MB, "DISK_GB": 100}
        self.cloud.start_over()
        return self.cloud

    def close(self) -> None:
        self.cloud.close()


@dataclass
class Storm:
    """One run. `acknowledged` and `contended` count operations by name."""

    sea: Sea
    lines: list[Line] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    acknowledged: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    contended: int = 0

    def __post_init__(self) -> None:
        self.cloud = self.sea.calm()
        self.watcher = Watcher(self.cloud, audited=self.sea.guarded)
        self._interrupted: set[str] = set()
        self._check()

    @property
    def operations(self) -> int:
        return self.acknowledged.total()

    @property
    def faults(self) -> int:
        return self.cloud.tally()

    def play(self, lines: Iterable[Line]) -> None:
        with self._telling():
            for what, word, number in lines:
                {"asks": self.asks, "breaks": self.breaks, "works": self.works}[what](word, number)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """What nobody has foreseen is told with its story too."""
        try:
            yield
        except Broken:
            raise
        except Exception as error:
            raise Broken(f"{type(error).__name__}: {error}", self.lines, self.story) from error

    # -- Lines ----------------------------------------------------------------------------

    def asks(self, word: str, number: int) -> None:
        """Somebody asks for `word`, or for something else that can be asked now; then some turns pass."""
        chance = self._begin("asks", word, number)
        for patience in reversed(range(6)):
            sight = look(self.cloud)
            wanted = self._wanted(word, sight, chance, anything=not patience)
            if any(self._ask(OPERATIONS[name], subject, sight, chance) for name, subject in wanted):
                break
            self._turns(chance, 6)
        self._turns(chance, chance.randrange(8))

    def breaks(self, word: str, number: int) -> None:
        """Something fails: `word`, or what else can; then some turns pass."""
        chance = self._begin("breaks", word, number)
        before = {name: self.cloud.ground.states(name) for name in self.cloud.agents}
        for name in [word, *chance.sample(FAULTS_WORDS, len(FAULTS_WORDS))]:
            if said := FAULTS[name].strike(self.cloud, chance):
                self._tell(said)
                break
        for name in self.cloud.dark:
            self._interrupted |= before[name].keys()
        self._turns(chance, chance.randrange(6))

    def works(self, word: str, number: int) -> None:
        """Conductors and agents take some turns."""
        chance = self._begin("works", word, number)
        self._turns(chance, 4 + chance.randrange(16))

    def _begin(self, what: What, word: str, number: int) -> Random:
        self.lines.append((what, word, number))
        self.cloud.clock.chance().seed(f"{len(self.lines)}/{number}")
        return Random(f"{what}/{word}/{number}")

    def _tell(self, said: str) -> None:
        self.story.append(said)

    # -- Asking ---------------------------------------------------------------------------

    def _wanted(
        self, word: str, sight: Sight, chance: Random, *, anything: bool
    ) -> Iterator[tuple[str, str]]:
        """(operation, subject), the wished one first. While fewer than half of what was asked was asked
        of contended groups, only those are. What always can be asked is not drawn for want of anything
        else, before there was time for more to come to rest."""
        drawn = chance.sample(WORDS, len(WORDS))
        words = dict.fromkeys([word, *(each for each in drawn if anything or each not in ALWAYS)])
        owed = not anything and 2 * self.contended < self.operations + 1
        for name in words:
            subjects = list(OPERATIONS[name].may(self.cloud, sight))
            chance.shuffle(subjects)
            for subject in subjects[:4]:
                if not owed or self._contends(name, subject, sight):
                    yield name, subject

    def _contends(self, name: str, subject: str, sight: Sight) -> bool:
        if subject in sight.groups:  # somebody joins it, or all of it moves
            return sight.contended(subject)
        group = next((each.group for each in sight.servers if each.id == subject), None)
        return sight.contended(group, but=subject)

    def _ask(self, operation: Operation, subject: str, sight: Sight, chance: Random) -> bool:
        named = next((each.name for each in sight.servers if each.id == subject), subject)
        try:
            operation.ask(self.cloud, subject, chance)
        except Failure as no:
            self.refused += 1
            self._tell(f"{operation.name} {named}: no, {no}")
            return False
        self.acknowledged[operation.name] += 1
        self.contended += self._contends(operation.name, subject, sight)
        self._tell(f"{operation.name} {named}")
        self._acknowledge(subject)
        return True

    def _acknowledge(self, server: str) -> None:
        """A1: the move that was begun will be asked for in the end."""
        for move, condition in self.cloud.select(
            "SELECT m.id, s.condition FROM move m JOIN server s ON s.id = m.server_id WHERE s.id = ?"
            " AND m.state = 'running' AND m.line = 0",
            server,
        ):
            self.watcher.began(move, condition)

    # -- Turns and checks -----------------------------------------------------------------

    def _turns(self, chance: Random, turns: int) -> None:
        self._check()
        for _ in range(turns):
            self.cloud.work(chance, 1)
            self._check()

    def _check(self) -> None:
        if problems := self.watcher.problems():
            raise Broken("; ".join(problems), self.lines, self.story)

    # -- The end --------------------------------------------------------------------------

    def fill(self) -> None:
        """Lines until the run has its operations and faults."""
        chance = Random(repr(self.lines[-1:]))
        for _ in range(20 * OPERATIONS_LEAST):
            short = self.operations < OPERATIONS_LEAST or 2 * self.contended < self.operations
            if short:
                self.asks(chance.choice(USERS_WORDS), chance.randrange(NUMBERS))
            elif self.faults < FAULTS_LEAST:
                self.breaks(chance.choice(FAULTS_WORDS), chance.randrange(NUMBERS))
                self.works("", chance.randrange(NUMBERS))
            else:
                return
        raise Broken("the run never gets its operations and faults", self.lines, self.story)

    def end(self) -> None:
        """Everything is repaired and has its time; then nothing is left over."""
        self._tell(CALM)
        self.cloud.repair()
        with self._telling():
            self._calm(Random(0))
        if problems := remains(self.cloud, self._interrupted):
            raise Broken("; ".join(problems), self.lines, self.story)

    def _calm(self, chance: Random) -> None:
        for _ in range(CALM_S):
            while turns := self.cloud.turns():
                chance.choice(turns)(chance)
                self._check()
            if self.cloud.at_rest():
                return
            self.cloud.tend()
            self.cloud.pass_time(1.0)
            self._check()


def script(seed: int | str) -> list[Line]:
    """A history by chance, long enough for its operations and faults."""
    chance = Random(f"storm {seed}")
    lines: list[Line] = []
    for _ in range(OPERATIONS_LEAST + 4):
        words = USERS_WORDS if chance.random() < 0.75 else OPERATORS_WORDS
        lines.append(("asks", chance.choice(words), chance.randrange(NUMBERS)))
    for _ in range(FAULTS_LEAST + 4):
        lines.append(("breaks", chance.choice(FAULTS_WORDS), chance.randrange(NUMBERS)))
    for _ in range(OPERATIONS_LEAST):
        lines.append(("works", "", chance.randrange(NUMBERS)))
    chance.shuffle(lines)
    return lines


def run(sea: Sea, lines: Iterable[Line], *, fill: bool = True, calm: bool = True) -> Storm:
    """A storm from its beginning to the calm, or without that. Raises `Broken`."""
    with capture_logs():
        storm = Storm(sea)
        storm.play(lines)
        if fill:
            storm.fill()
        if calm:
            storm.end()
    return storm


def shortest(sea: Sea, broken: Broken, tries: int = 300) -> Broken:
    """The same promise broken by fewer lines: parts are left out for as long as it still breaks."""
    best, size = broken, max(1, len(broken.lines) // 2)
    while tries > 0:
        found = None
        for start in range(0, len(best.lines), size):
            lines = best.lines[:start] + best.lines[start + size :]
            tries -= 1
            if tries >= 0 and (found := _breaks(sea, lines, broken)):
                best = found
                break
        if found is None:
            if size == 1:
                break
            size = max(1, size // 2)
    return best


def _breaks(sea: Sea, lines: Sequence[Line], broken: Broken) -> Broken | None:
    """How these lines break the same promise, if they do."""
    try:
        run(sea, lines, fill=False, calm=broken.in_the_calm)
    except Broken as again:
        return again if again.promise == broken.promise else None
    return None
