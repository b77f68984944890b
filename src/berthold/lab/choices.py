"""One source of every decision: all of them in turn, a seeded few, or one run again.

    for choices in every_path():
        first = choices.pick(["a", "b"])
        second = choices.pick(["c", "d", "e"], "what comes next")

The loop runs six times. A run that failed is told by `choices.schedule()` and run again by
`replayed(schedule)`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Choice:
    """`number` of `bound` possibilities was chosen; `what` says what for."""

    number: int
    bound: int
    what: str
    option: str


class Choices:
    """The decisions of one run: first those of `script`, then by chance, or always the first."""

    def __init__(self, script: Sequence[int] = (), chance: random.Random | None = None) -> None:
        self._script = tuple(script)
        self._chance = chance
        self.taken: list[Choice] = []

    def pick(self, options: Sequence[T], what: str = "") -> T:
        """One of `options`, which must not be empty."""
        place = len(self.taken)
        if place < len(self._script):
            number = self._script[place]
            assert number < len(options), f"choice {place} of this schedule is {number} of {len(options)}"
        else:
            number = self._chance.randrange(len(options)) if self._chance else 0
        self.taken.append(Choice(number, len(options), what, str(options[number])))
        return options[number]

    def schedule(self) -> list[int]:
        """What `replayed` needs to do the same again."""
        return [choice.number for choice in self.taken]

    def __str__(self) -> str:
        return f"schedule {self.schedule()}"


def replayed(schedule: Sequence[int]) -> Choices:
    """The same decisions again."""
    return Choices(schedule)


def at_random(seed: int, runs: int) -> Iterator[Choices]:
    """So many runs, each decided by chance; all follow from the seed."""
    for number in range(runs):
        yield Choices(chance=random.Random(f"{seed}/{number}"))


def every_path() -> Iterator[Choices]:
    """Every run there is. The number of possibilities may depend on what was chosen before."""
    script: list[int] = []
    while True:
        choices = Choices(script)
        yield choices
        taken = list(choices.taken)
        while taken and taken[-1].number + 1 == taken[-1].bound:
            taken.pop()
        if not taken:
            return
        script = [choice.number for choice in taken]
        script[-1] += 1
