"""The cloud in a storm: conductors and agents that all work at once, one transaction at a time.

A step of a conductor is begun, and goes on by one transaction whenever it is its turn; between
any two of them others act, users ask, time passes, the conductor dies or sleeps too long. Leases
are taken, renewed and lost as in real life.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

from sqlalchemy import MetaData

from berthold.database import metadata
from berthold.errors import Malformed, Stale, Unavailable, WrongState
from berthold.lab.databases import Look
from berthold.lab.furniture import add_network, add_volume
from berthold.lab.storm.hosts import EPOCHS, OPEN, Hosts
from berthold.lab.world import Turn, with_settings
from berthold.ledger import hosts, moves
from berthold.moves import begin, together
from berthold.moves.outcome import Outcome
from berthold.moves.runner import Runner

# Moves give up soon, so that a run sees how they do it.
SETTINGS = with_settings(
    retry_first_s=0.1, retry_last_s=1.0, tries_max=5, ask_s=8.0, send_s=15.0, resize_on_same_host=False
)
HOSTS, VCPUS, MEMORY_MB = 4, 4, 8192
CONDUCTORS = 2
FREE = "SELECT 1 FROM move WHERE state IN ('running','undoing') AND until < ? LIMIT 1"


@dataclass
class Step:
    """A conductor's step on a move, and the transaction that is its next (None: not begun)."""

    work: Coroutine[Any, Any, Outcome]
    due: Turn | None = None


@dataclass
class Conductor:
    """What a conductor holds in memory. While it sleeps it neither steps nor renews."""

    name: str
    runner: Runner
    asleep_until: float = 0.0
    renewed_at: float = 0.0
    held: dict[moves.Lease, Step | None] = field(default_factory=dict)
    resting: set[str] = field(default_factory=set)  # moves that wait for answers

    def forget(self, lease: moves.Lease) -> None:
        """It holds this lease no more."""
        if step := self.held.pop(lease, None):
            step.work.close()

    def die(self) -> None:
        """Between two transactions: whatever it was doing ends here."""
        for lease in list(self.held):
            self.forget(lease)


@dataclass
class Mood:
    """What will go wrong next at a door: `how` is "before" or "after" the thing is done."""

    name: str
    how: str
    error: Exception


class Cloud(Hosts):
    """A world whose conductors and agents are many and act by turns."""

    def __init__(self, tables: MetaData = metadata, url: str = "sqlite://") -> None:
        super().__init__(HOSTS, vcpus=VCPUS, memory_mb=MEMORY_MB, settings=SETTINGS, tables=tables, url=url)
        self.network = add_network(self)
        for number in range(3):
            add_volume(self, f"disk-{number}")
        self._sound, self._ears = self.companions.neighbours, list(self.store.bus._hearers)
        self.start_over()

    def start_over(self) -> None:
        """Forget everything but what the ledger and the hosts hold; for the beginning of a run."""
        self.store.bus._hearers[:] = self._ears  # not those of conductors that are no more
        self.nothing_in_hand()
        self.broken_database: list[Mood] = []
        self.broken_neighbours: list[Mood] = []
        self.born = 0
        self.crew = [self.new_conductor() for _ in range(CONDUCTORS)]

    def wake(self, move_id: str) -> None:
        for each in self.crew:
            each.resting.discard(move_id)

    def new_conductor(self) -> Conductor:
        self.born += 1
        moody: Any = {
            what: Moody(getattr(self._sound, what), self) for what in ("images", "volumes", "networks")
        }
        runner = Runner(self.store, replace(self._sound, **moody), self.settings)
        return Conductor(f"conductor {self.born}", runner)

    def changes(self) -> tuple[int, int]:
        """Rises whenever anything is written, in the ledger or on the hosts."""
        return self.store.database.changes(), self.ground.changes()

    def by(self) -> begin.By:
        """Some who ask may wait for a place instead of being refused (M7)."""
        patience = 12.0 if self.clock.chance().random() < 0.3 else 0.0
        return replace(super().by(), wait_s=patience)

    # -- Turns ----------------------------------------------------------------------------

    def looks(self) -> list[Look]:
        """What `turns` asks."""
        return [(FREE, self.clock.now()), (EPOCHS,), (OPEN,)]

    def turns(self) -> list[Callable[[Random], object]]:
        """Whatever somebody could do now."""
        awake = [each for each in self.crew if not each.asleep_until]
        found: list[Callable[[Random], object]] = []
        if awake and self.select(FREE, self.clock.now()):
            found.append(lambda chance: self.take(chance.choice(awake), limit=chance.randint(1, 4)))
        for each in awake:
            for lease, step in each.held.items():
                if step or lease.move_id not in each.resting:
                    found.append(partial(self._go_on, each, lease))
        found += [partial(self.agent_turn, name) for name in self.can_act()]
        return found

    def work(self, chance: Random, turns: int) -> None:
        """So many turns of whoever can, by chance; where nobody can, time passes."""
        for _ in range(turns):
            able = self.turns()
            if not able or chance.random() < 0.05:
                self.pass_time(chance.choice((0.2, 0.5, 1.0)))
            else:
                chance.choice(able)(chance)

    def pass_time(self, seconds: float) -> None:
        """Second by second, as conductors and agents live through it."""
        while seconds > 0:
            self.clock.advance(min(seconds, 1.0))
            seconds -= 1.0
            self.tick()

    def tick(self) -> None:
        """What everybody does once a second."""
        present = self.clock.now()
        due = [ring for at, ring in self.alarms if at <= present]
        self.alarms = [alarm for alarm in self.alarms if alarm[0] > present]
        for ring in due:
            ring()
        for each in self.crew:
            if each.asleep_until and each.asleep_until <= present:
                each.asleep_until = 0.0
            if not each.asleep_until:
                self._each_second(each)
        if self.select("SELECT 1 FROM group_move WHERE state <> 'done' LIMIT 1"):
            self.attend()
        self.hear()

    def _each_second(self, conductor: Conductor) -> None:
        """What a conductor does beside its steps: renew its leases in time, look for moves and answers."""
        present, lease_s = self.clock.now(), self.settings.lease_s
        if conductor.held and present - conductor.renewed_at > lease_s / 3:
            conductor.renewed_at = present
            self.store.write_now(moves.renew, conductor.name, list(conductor.held), lease_s)
        conductor.resting.clear()
        if self.select(FREE, present):
            self.take(conductor)

    # -- Conductors -----------------------------------------------------------------------

    def take(self, conductor: Conductor, limit: int = 32) -> None:
        """The conductor leases what nobody works on."""
        taken = self.store.write_now(moves.take, conductor.name, self.settings.lease_s, limit)
        for lease in sorted(taken, key=lambda each: each.move_id):  # each engine has an order of its own
            conductor.resting.discard(lease.move_id)
            conductor.held[lease] = None

    def _go_on(self, conductor: Conductor, lease: moves.Lease, _: Random) -> None:
        """The conductor's step on the move goes on by one transaction, or a step begins."""
        step = conductor.held[lease]
        if step is None:
            conductor.resting.discard(lease.move_id)
            step = conductor.held[lease] = Step(conductor.runner.step(lease))
        try:
            with self._switching():
                step.due = self._next(step)
        except StopIteration as end:
            conductor.held[lease] = None
            if end.value.over:
                conductor.forget(lease)
            elif end.value.wait_s:
                conductor.resting.add(lease.move_id)
        except (Stale, Unavailable):
            # As the conductor does: it lets go of the move, and the lease ends by itself.
            conductor.forget(lease)

    def _next(self, step: Step) -> Turn:
        if step.due is None:
            begun: Turn = step.work.send(None)
            return begun
        try:
            gave = self._do(step.due)
        except Exception as error:
            thrown: Turn = step.work.throw(error)
            return thrown
        following: Turn = step.work.send(gave)
        return following

    def _do(self, due: Turn) -> Any:
        mood = self.broken_database.pop() if self.broken_database else None
        if mood is not None:
            self.struck[mood.name] += 1
        if mood is not None and mood.how == "before":
            raise mood.error
        with self._switching(False):
            gave = due.do()
        if mood is not None:
            raise mood.error
        return gave

    @contextmanager
    def _switching(self, on: bool = True) -> Iterator[None]:
        before, self.store.switching = self.store.switching, on
        try:
            yield
        finally:
            self.store.switching = before

    # -- Repairs --------------------------------------------------------------------------

    def repair(self) -> None:
        """Nothing fails any more, and whatever was away comes back."""
        self.broken_database.clear()
        self.broken_neighbours.clear()
        self.alarms.clear()
        for each in self.crew:
            each.asleep_until = 0.0
        for name, faults in self.faults_of.items():
            faults.release()
            faults.forget()
            self.post[name].clear()
        self.release()
        self.deliver_late()
        self.dark.clear()
        for name in sorted(self.silent):
            self.agent_returns(name)

    def tend(self) -> None:
        """What operators do until all is well: let hosts act again, resume what is stuck. And agents
        report what they have."""
        for name, status in self.select("SELECT name, status FROM host ORDER BY name"):
            self.report(name)
            if status == "fenced":
                with suppress(Malformed):  # servers are still being evacuated from it
                    self.store.write_now(hosts.unfence, self.host_id(name))
        for (move_id,) in self.select("SELECT id FROM move WHERE state = 'stuck' ORDER BY number"):
            self.store.write_now(moves.unstick, move_id)
        for (group,) in self.select("SELECT group_id FROM group_move WHERE state = 'moving' ORDER BY id"):
            word = together.forward if self.clock.chance().random() < 0.5 else together.back
            with suppress(WrongState):
                self.store.write_now(word, group, self.by())

    def at_rest(self) -> bool:
        """Whether nothing is left to do."""
        left = self.select(
            "SELECT 1 FROM move WHERE state IN ('running','undoing','stuck')"
            " UNION ALL SELECT 1 FROM ask WHERE state = 'open'"
            " UNION ALL SELECT 1 FROM group_move WHERE state <> 'done'"
            " UNION ALL SELECT 1 FROM host WHERE status <> 'up' LIMIT 1"
        )
        return not left


class Moody:
    """A neighbour that fails when the cloud says so."""

    def __init__(self, one: Any, cloud: Cloud) -> None:
        self._one = one
        self._cloud = cloud

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._one, name)

        async def called(*args: Any, **kwargs: Any) -> Any:
            moods = self._cloud.broken_neighbours
            mood = moods.pop() if moods else None
            if mood is not None:
                self._cloud.struck[mood.name] += 1
            made = await call(*args, **kwargs) if mood is None or mood.how == "after" else None
            if mood is not None:
                raise mood.error
            return made

        return called


# What a neighbour may raise: it does not answer, it refuses, it breaks.
PLANNED = (Unavailable, WrongState, RuntimeError)
