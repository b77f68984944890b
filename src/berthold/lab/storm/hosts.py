"""The hosts in a storm: agents with asks in their hands, answers that go astray, machines without power.

An agent does one ask at a time for each server. What stalls stays in its hands until it is
released, ended by a later ask, or lost with its agent; what it had done it remembers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

from berthold.agent.daemon import ENDS_OTHERS, SUPERSEDED
from berthold.agent.faults import Died, Fault
from berthold.agent.protocol import Answer, Ask, Fenced, Report, Take, Welcome
from berthold.lab.world import World, now

EPOCHS = "SELECT name, epoch FROM host ORDER BY name"
OPEN = (
    "SELECT h.name, a.id, a.server_id, a.seq, a.verb FROM ask a JOIN host h ON h.id = a.host_id"
    " WHERE a.state = 'open'"
)


@dataclass
class InHand:
    """What an agent has begun and not ended."""

    ask: Ask
    work: Coroutine[Any, Any, Answer]


class Hosts(World):
    """A world whose agents act by turns, and badly."""

    def nothing_in_hand(self) -> None:
        """The beginning of a run."""
        self.struck: Counter[str] = Counter()
        self.planned: list[tuple[str, Fault]] = []
        self.hands: dict[str, dict[str, InHand]] = {name: {} for name in self.agents}
        self.late: list[tuple[str, Answer]] = []
        self.post: dict[str, list[str]] = {name: [] for name in self.agents}
        self.killed: set[str] = set()  # agents that do not run
        self.dark: set[str] = set()  # hosts without power
        self.alarms: list[tuple[float, Callable[[], object]]] = []

    def select(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """A look at the ledger's tables, quicker than a transaction."""
        return self.store.database.select(query, *values)

    def wake(self, move_id: str) -> None:
        """Something that was asked for the move was answered."""

    def alarm(self, seconds: float, ring: Callable[[], object]) -> None:
        """Let `ring` happen once so many seconds have passed."""
        self.alarms.append((self.clock.now() + seconds, ring))

    # -- Agents ---------------------------------------------------------------------------

    def can_act(self) -> list[str]:
        """Hosts whose agent has something to do, or an epoch that is over."""
        able = {name for name, epoch in self.select(EPOCHS) if self.welcome(name).epoch != epoch}
        busy = {name: self._busy(name) for name in self.agents}
        for name, ask, server, seq, verb in self.select(OPEN):
            held = self.hands[name].get(server)
            if ask not in busy[name] and (held is None or (verb in ENDS_OTHERS and seq > held.ask.seq)):
                able.add(name)
        return sorted(able - self.silent)

    def welcome(self, name: str) -> Welcome:
        welcome = self.agents[name].welcome
        assert welcome is not None
        return welcome

    def tally(self) -> int:
        """How many faults have struck by now."""
        for name, fault in [each for each in self.planned if each[1].times == 0]:
            self.planned.remove((name, fault))
            self.struck[name] += 1
        return self.struck.total()

    def _busy(self, name: str) -> list[str]:
        return [each.ask.id for each in self.hands[name].values()] + [
            answer.ask for of, answer in self.late if of == name
        ]

    def agent_turn(self, name: str, chance: Random) -> None:
        """The agent does the ask that is next for one of its servers."""
        welcome = self.welcome(name)
        try:
            asks = now(self.door.take(Take(welcome.host, welcome.epoch, 0.0, self._busy(name)))).asks
        except Fenced:
            self.join(name)
            return
        if not asks:
            return
        server = chance.choice(sorted({ask.server for ask in asks}))
        mine = sorted((ask for ask in asks if ask.server == server), key=lambda ask: ask.seq)
        ending = [ask for ask in mine if ask.verb in ENDS_OTHERS]
        ask = ending[-1] if ending else mine[0]
        held = self.hands[name].get(server)
        if held is not None:
            if not (ask.verb in ENDS_OTHERS and ask.seq > held.ask.seq):
                return
            self._end(name, held)
        self._carry(name, InHand(ask, self.agents[name].do(ask)))

    def _end(self, name: str, held: InHand) -> None:
        """A later ask ends what is under way."""
        del self.hands[name][held.ask.server]
        held.work.close()
        welcome = self.welcome(name)
        answer = Answer(welcome.host, welcome.epoch, held.ask.id, False, SUPERSEDED)
        self.agents[name].journal.finish(answer)
        self.deliver(name, answer, 1)

    def _carry(self, name: str, hand: InHand) -> None:
        """Carry on with what the agent has in hand, to its end or to where it stalls."""
        self.hands[name][hand.ask.server] = hand
        try:
            hand.work.send(None)
        except StopIteration as end:
            del self.hands[name][hand.ask.server]
            self._post(name, hand.ask, end.value)
        except Died:
            del self.hands[name][hand.ask.server]
            self.agent_dies(name)
            self.alarm(2.0, lambda: self.agent_returns(name))

    def _post(self, name: str, ask: Ask, answer: Answer) -> None:
        """The answer goes its way, or astray."""
        fate = self.post[name].pop() if self.post[name] else ""
        if fate:
            self.struck[f"an answer is {fate}"] += 1
        if fate == "late":
            self.late.append((name, answer))
            self.alarm(3.0, self.deliver_late)
        elif fate != "lost":  # a lost one is asked for again, and repeated
            self.deliver(name, answer, 2 if self.faults_of[name].stutter(ask.verb, ask.server) else 1)

    def deliver(self, name: str, answer: Answer, times: int) -> None:
        try:
            for _ in range(times):
                now(self.door.answer(answer))
        except Fenced:
            self.join(name)
            return
        self.agents[name].journal.heard(answer.ask)
        for (move_id,) in self.select("SELECT move_id FROM ask WHERE id = ?", answer.ask):
            self.wake(move_id)

    def deliver_late(self) -> None:
        late, self.late = self.late, []
        for name, answer in late:
            if name not in self.silent:
                self.deliver(name, answer, 1)

    def release(self) -> None:
        """Nothing that is in an agent's hands stalls any longer."""
        for faults in self.faults_of.values():
            faults.release()
        for name, hands in self.hands.items():
            for hand in list(hands.values()):
                self._carry(name, hand)

    def agent_dies(self, name: str) -> None:
        """What it had in its hands is lost; what it had done it remembers."""
        for hand in self.hands[name].values():
            hand.work.close()
        self.hands[name].clear()
        self.late = [each for each in self.late if each[0] != name]
        self.killed.add(name)
        self.silent.add(name)

    def agent_returns(self, name: str) -> None:
        """The agent's process begins anew, if its host has power."""
        if name not in self.dark:
            self.agent_dies(name)
            self.killed.discard(name)
            self.restart_agent(name)
            self._speak(name)

    def heard_again(self, name: str) -> None:
        """Whoever was cut off from the host hears of it again, if its agent runs."""
        if name not in self.killed:
            self.silent.discard(name)

    def join(self, name: str) -> None:
        """The same process registers anew: its epoch was over."""
        for hand in self.hands[name].values():
            hand.work.close()
        self.hands[name].clear()
        now(self.agents[name].join())
        self._speak(name)

    def _speak(self, name: str) -> None:
        """What an agent says as soon as it is registered: what it had answered, and what is there."""
        agent, welcome = self.agents[name], self.welcome(name)
        for answer in agent.journal.unheard():
            self.deliver(name, msgspec.structs.replace(answer, host=welcome.host, epoch=welcome.epoch), 1)
        self.report(name)

    def report(self, name: str) -> None:
        welcome = self.welcome(name)
        with suppress(Fenced):
            now(self.door.report(Report(welcome.host, welcome.epoch, self.agents[name].driver.guests())))

    # -- Machines -------------------------------------------------------------------------

    def lose_power(self, name: str) -> None:
        self.ground.power_off(name)
        self.agent_dies(name)
        self.dark.add(name)

    def regain_power(self, name: str) -> None:
        self.dark.discard(name)
        self.agent_returns(name)
