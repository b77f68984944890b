"""How long simulated hosts take, and how they misbehave, on demand."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NoReturn

from berthold.agent.protocol import Answer, Ask, Asks, Beat, Door, Heard, Hello, Report, Take, Welcome

Kind = Literal["refuse", "stall", "forget", "answer twice", "die before", "die after"]

# Seconds per verb for a demonstration: long enough to see several moves under way at once.
LIFELIKE: Mapping[str, float] = {
    "spawn": 0.6, "check": 0.05, "prepare": 0.3, "send": 1.5, "send_disk": 1.0,
    "start": 0.4, "stop": 0.4, "discard": 0.2,
}  # fmt: skip


@dataclass
class Pace:
    """Seconds that each verb takes, give or take the share `jitter`. A verb not named takes none."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    jitter: float = 0.0
    chance: random.Random = field(default_factory=random.Random)

    def of(self, verb: str) -> float:
        base = self.seconds.get(verb, 0.0)
        return base * self.chance.uniform(1 - self.jitter, 1 + self.jitter) if base > 0 else 0.0


class Died(BaseException):
    """The agent died here. Not an Exception: as after a real death, nothing may be written down
    or answered, so nothing but a test or the process's end may catch it."""


def die() -> NoReturn:
    raise Died


@dataclass
class Fault:
    """One planned fault: what happens, to which verb and server (None: any), how often yet.

    refuse       answers no, with `reason`, and does nothing
    stall        does not begin until released
    forget       does it, and does not answer until released
    answer twice does it and says so twice (by way of `FaultyDoor`)
    die before   the agent dies before it does it
    die after    the agent dies when it has done it
    """

    kind: Kind
    verb: str | None = None
    server: str | None = None
    times: int = 1
    reason: str = "a fault was planned"
    released: bool = False

    def fits(self, verb: str, server: str) -> bool:
        return self.times > 0 and self.verb in (None, verb) and self.server in (None, server)


class Faults:
    """The faults planned for one host. Without any it obeys. `dying` is how it dies; a process of
    its own may pass something more final than the exception."""

    def __init__(self, dying: Callable[[], NoReturn] = die) -> None:
        self.die = dying
        self._planned: list[Fault] = []

    def plan(
        self,
        kind: Kind,
        *,
        verb: str | None = None,
        server: str | None = None,
        times: int = 1,
        reason: str = "a fault was planned",
    ) -> Fault:
        """Let the next `times` asks that fit go wrong. Set `released` on the result to end a stall."""
        fault = Fault(kind, verb, server, times, reason)
        self._planned.append(fault)
        return fault

    def strike(self, verb: str, server: str) -> Fault | None:
        """The fault that strikes this verb now, if any; it is used up once."""
        return self._use(verb, server, lambda fault: fault.kind != "answer twice")

    def stutter(self, verb: str, server: str) -> bool:
        """Whether the answer to this is to be given twice."""
        return self._use(verb, server, lambda fault: fault.kind == "answer twice") is not None

    def release(self) -> None:
        """End every stall, those to come too."""
        for fault in self._planned:
            fault.released = True

    def forget(self) -> None:
        """From now on nothing is planned."""
        self._planned.clear()

    def _use(self, verb: str, server: str, right_kind: Callable[[Fault], bool]) -> Fault | None:
        for fault in self._planned:
            if right_kind(fault) and fault.fits(verb, server):
                fault.times -= 1
                return fault
        return None


class FaultyDoor:
    """The control plane's door, through which some answers go twice."""

    def __init__(self, door: Door, faults: Faults) -> None:
        self._door = door
        self._faults = faults
        self._asks: dict[str, Ask] = {}

    async def register(self, hello: Hello) -> Welcome:
        return await self._door.register(hello)

    async def heartbeat(self, beat: Beat) -> Beat:
        return await self._door.heartbeat(beat)

    async def take(self, take: Take) -> Asks:
        taken = await self._door.take(take)
        self._asks.update((ask.id, ask) for ask in taken.asks)
        return taken

    async def answer(self, answer: Answer) -> Heard:
        ask = self._asks.pop(answer.ask, None)
        if ask is not None and self._faults.stutter(ask.verb, ask.server):
            await self._door.answer(answer)
        return await self._door.answer(answer)

    async def report(self, report: Report) -> Heard:
        return await self._door.report(report)
