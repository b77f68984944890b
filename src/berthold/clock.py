"""The only door to time and chance.

Everything that asks what time it is, draws an id or breaks a tie does it here, so that the
lab can replay any run from a seed.
"""

from __future__ import annotations

import random
import time
import uuid
from typing import Protocol


class Clock(Protocol):
    """Time and chance, as one passes them down."""

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        ...

    def new_id(self) -> str:
        """A fresh UUID in its canonical form (lower case, with dashes)."""
        ...

    def chance(self) -> random.Random:
        """The source of every random choice."""
        ...


class SystemClock:
    """The machine's own clock and entropy."""

    def __init__(self) -> None:
        self._chance = random.SystemRandom()

    def now(self) -> float:
        return time.time()

    def new_id(self) -> str:
        return str(uuid.uuid4())

    def chance(self) -> random.Random:
        return self._chance


class SeededClock:
    """Time that stands still until told, ids and choices that follow from a seed."""

    def __init__(self, seed: int = 0, start: float = 1_750_000_000.0) -> None:
        self._chance = random.Random(seed)
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass: by microseconds, so that a database can say the same time."""
        self._now = round(self._now + seconds, 6)

    def new_id(self) -> str:
        return str(uuid.UUID(int=self._chance.getrandbits(128), version=4))

    def chance(self) -> random.Random:
        return self._chance
