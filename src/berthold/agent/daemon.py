"""The agent of one host: takes asks, has the driver carry them out, answers.

Asks of different servers are carried out side by side, those of one server in the order of
their numbers. An ask that is under way is waited for, except by `locate` and `discard`:
whoever sends those has given up on what came before, so they end it first. Each ask is done
once and its answer repeated (`Journal`); an ask older than the latest one begun for its
server is not done at all. What only looks (`console`) is answered at once, beside all lines.

When the control plane says that this agent's epoch is over (M5), everything stops and the
agent registers anew. When it cannot be reached, the agent tries again for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import structlog

from berthold.agent.driver import Driver, Impossible
from berthold.agent.journal import Journal
from berthold.agent.protocol import (
    Answer,
    Ask,
    Beat,
    Door,
    Fenced,
    Guest,
    Progress,
    Report,
    Take,
    Welcome,
)

log = structlog.get_logger(__name__)

SUPERSEDED = "superseded by a later ask"
ENDS_OTHERS = frozenset({"locate", "discard"})
# Verbs that change nothing. They are not in the journal: one that was begun must not make an
# older ask of its server, which still waits, old news.
LOOKS = frozenset({"console"})

BACKOFF_FIRST_S = 0.1
BACKOFF_MOST_S = 5.0

M = TypeVar("M")
R = TypeVar("R")


def _guest(ask: Ask) -> Guest:
    return msgspec.convert(ask.args["guest"], Guest)


# Each verb, and where in the ask its arguments are.
VERBS: dict[str, Callable[[Driver, Ask], Awaitable[dict[str, Any]]]] = {
    "spawn": lambda driver, ask: driver.spawn(_guest(ask)),
    "check": lambda driver, ask: driver.check(_guest(ask)),
    "prepare": lambda driver, ask: driver.prepare(_guest(ask)),
    "send": lambda driver, ask: driver.send(ask.server, ask.args["target"]),
    "send_disk": lambda driver, ask: driver.send_disk(ask.server, ask.args["target"]),
    "locate": lambda driver, ask: driver.locate(ask.server),
    "start": lambda driver, ask: driver.start(_guest(ask)),
    "stop": lambda driver, ask: driver.stop(ask.server),
    "restore": lambda driver, ask: driver.restore(_guest(ask), ask.args["state"]),
    "reboot": lambda driver, ask: driver.reboot(_guest(ask), ask.args["hard"]),
    "pause": lambda driver, ask: driver.pause(ask.server),
    "unpause": lambda driver, ask: driver.unpause(ask.server),
    "suspend": lambda driver, ask: driver.suspend(ask.server),
    "resume": lambda driver, ask: driver.resume(ask.server),
    "rebuild": lambda driver, ask: driver.rebuild(_guest(ask)),
    "rescue": lambda driver, ask: driver.rescue(_guest(ask)),
    "attach_volume": lambda driver, ask: driver.attach_volume(ask.server, ask.args["volume"]),
    "detach_volume": lambda driver, ask: driver.detach_volume(ask.server, ask.args["volume"]),
    "attach_interface": lambda driver, ask: driver.attach_interface(ask.server, ask.args["port"]),
    "detach_interface": lambda driver, ask: driver.detach_interface(ask.server, ask.args["port"]),
    "console": lambda driver, ask: driver.console(ask.server, ask.args.get("lines")),
    "discard": lambda driver, ask: driver.discard(ask.server),
}


@dataclass
class Line:
    """The asks of one server: those that wait, and the one that is under way."""

    waiting: list[Ask] = field(default_factory=list)
    doing: Ask | None = None
    task: asyncio.Task[Answer] | None = None

    def next(self) -> Ask:
        """The one to do now: the oldest, unless a later one makes the older ones pointless."""
        self.waiting.sort(key=lambda ask: ask.seq)
        ending = [ask for ask in self.waiting if ask.verb in ENDS_OTHERS]
        ask = ending[-1] if ending else self.waiting[0]
        self.waiting.remove(ask)
        return ask

    def end_older(self) -> None:
        """End what is under way if one that waits has come to end it."""
        if (
            self.doing is not None
            and self.task is not None
            and any(ask.verb in ENDS_OTHERS and ask.seq > self.doing.seq for ask in self.waiting)
        ):
            self.task.cancel()


class Daemon:
    """One host's agent. `run` is the whole of it; `join` and `do` are its parts, for the lab."""

    def __init__(
        self,
        door: Door,
        driver: Driver,
        journal: Journal,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        take_wait_s: float = 20.0,
        report_every_s: float = 30.0,
    ) -> None:
        self.door = door
        self.driver = driver
        self.journal = journal
        self.welcome: Welcome | None = None
        self._sleep = sleep
        self._take_wait_s = take_wait_s
        self._report_every_s = report_every_s
        self._lines: dict[str, Line] = {}
        self._in_hand: set[str] = set()

    # -- By hand ------------------------------------------------------------------------

    async def join(self) -> Welcome:
        """Register once. From now on the agent acts at the epoch that it was given."""
        welcome = await self.door.register(self.driver.hello())
        self.joined(welcome)
        return welcome

    def joined(self, welcome: Welcome) -> None:
        """The agent was registered."""
        self.journal.speak_for(welcome.host)
        self.welcome = welcome

    async def do(self, ask: Ask) -> Answer:
        """Do the ask, once however often it comes, and say what came of it.

        Suspends only where the driver does. Whoever delivers the answer tells the journal
        `heard` afterwards.
        """
        assert self.welcome is not None, "an agent acts only once it is registered"
        if ask.verb in LOOKS:
            return await self._carry_out(ask)
        known = self.journal.answer_to(ask.id)
        if known is not None:
            return self._answer(ask, known.ok, known.reason, known.facts)
        if ask.epoch < self.welcome.epoch:
            # Begun before this agent died: perhaps it was done, and only `locate` can tell.
            begun = self.journal.has_begun(ask.id)
            facts = {"begun": True} if begun else {}
            return self._answer(ask, False, f"its epoch {ask.epoch} is over", facts)
        if ask.seq < self.journal.latest(ask.server):
            return self._answer(ask, False, SUPERSEDED)
        self.journal.begin(ask)
        answer = await self._carry_out(ask)
        self.journal.finish(answer)
        return answer

    async def _carry_out(self, ask: Ask) -> Answer:
        verb = VERBS.get(ask.verb)
        if verb is None:
            return self._answer(ask, False, f"this agent knows no verb {ask.verb}")
        try:
            return self._answer(ask, True, facts=await verb(self.driver, ask))
        except Impossible as no:
            return self._answer(ask, False, str(no))
        except Exception as wrong:
            # Whatever a driver trips over, the control plane must hear that it was not done.
            log.exception("the driver failed", ask=ask.id, verb=ask.verb, server=ask.server, move=ask.move)
            return self._answer(ask, False, f"{type(wrong).__name__}: {wrong}")

    def _answer(self, ask: Ask, ok: bool, reason: str = "", facts: dict[str, Any] | None = None) -> Answer:
        assert self.welcome is not None
        return Answer(self.welcome.host, self.welcome.epoch, ask.id, ok, reason, facts or {})

    def progress(self) -> dict[str, Progress]:
        """How far the sendings that are under way have come, by the ask that they are for."""
        sent = self.driver.progress()
        doing = {server: line.doing for server, line in self._lines.items() if line.doing is not None}
        return {doing[server].id: far for server, far in sent.items() if server in doing}

    # -- By itself ----------------------------------------------------------------------

    async def run(self) -> None:
        """Be the agent until cancelled. Ends by itself only if the control plane will not
        have this agent at all (a wrong token)."""
        while True:
            await self._join_in_the_end()
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._beat())
                    group.create_task(self._report())
                    group.create_task(self._take(group))
                    group.create_task(self._repeat_unheard())
            except* Fenced:
                log.warning("this agent's epoch is over", host=self.driver.hello().name)
            self._lines.clear()
            self._in_hand.clear()
            # Two agents that both speak for one host must not fence each other in a frenzy.
            await self._sleep(self._now().heartbeat_s)

    async def _join_in_the_end(self) -> None:
        delay = BACKOFF_FIRST_S
        while True:
            try:
                welcome = await self.join()
            except (ConnectionError, Fenced) as no:
                log.warning("cannot register", reason=str(no), again_in_s=delay)
                await self._sleep(delay)
                delay = min(delay * 2, BACKOFF_MOST_S)
            else:
                log.info("registered", host=self.driver.hello().name, id=welcome.host, epoch=welcome.epoch)
                return

    async def _beat(self) -> None:
        now = self._now()
        while True:
            await self._reach(self.door.heartbeat, Beat(now.host, now.epoch, self.progress()))
            await self._sleep(now.heartbeat_s)

    async def _report(self) -> None:
        now = self._now()
        while True:
            await self._reach(self.door.report, Report(now.host, now.epoch, self.driver.guests()))
            await self._sleep(self._report_every_s)

    async def _repeat_unheard(self) -> None:
        """What was answered before a restart and perhaps never heard."""
        now = self._now()
        for answer in self.journal.unheard():
            await self._deliver(msgspec.structs.replace(answer, host=now.host, epoch=now.epoch))

    async def _take(self, group: asyncio.TaskGroup) -> None:
        now = self._now()
        while True:
            take = Take(now.host, now.epoch, self._take_wait_s, sorted(self._in_hand))
            taken = await self._reach(self.door.take, take)
            for ask in taken.asks:
                self._line_up(ask, group)

    def _line_up(self, ask: Ask, group: asyncio.TaskGroup) -> None:
        """Put the ask in its server's line, unless it stands there already."""
        if ask.id in self._in_hand:
            return
        self._in_hand.add(ask.id)
        if ask.verb in LOOKS:
            group.create_task(self._look(ask))
            return
        line = self._lines.get(ask.server)
        if line is None:
            line = self._lines[ask.server] = Line([ask])
            group.create_task(self._work(ask.server, line))
        else:
            line.waiting.append(ask)
            line.end_older()

    async def _look(self, ask: Ask) -> None:
        await self._deliver(await self.do(ask))
        self._in_hand.discard(ask.id)

    async def _work(self, server: str, line: Line) -> None:
        """Do the asks of one server until none waits."""
        while line.waiting:
            ask = line.next()
            line.doing, line.task = ask, asyncio.create_task(self.do(ask))
            try:
                answer = await line.task
            except asyncio.CancelledError:
                this = asyncio.current_task()
                if this is not None and this.cancelling():
                    raise
                # It was the task that was ended, by an ask that came later.
                answer = self._answer(ask, False, SUPERSEDED)
                self.journal.finish(answer)
            line.doing = line.task = None
            await self._deliver(answer)
            self._in_hand.discard(ask.id)
        del self._lines[server]

    async def _deliver(self, answer: Answer) -> None:
        await self._reach(self.door.answer, answer)
        self.journal.heard(answer.ask)

    async def _reach(self, call: Callable[[M], Awaitable[R]], message: M) -> R:
        """Say it until it is heard."""
        delay = BACKOFF_FIRST_S
        while True:
            try:
                return await call(message)
            except ConnectionError as no:
                log.warning("the control plane cannot be reached", reason=str(no), again_in_s=delay)
                await self._sleep(delay)
                delay = min(delay * 2, BACKOFF_MOST_S)

    def _now(self) -> Welcome:
        assert self.welcome is not None
        return self.welcome
