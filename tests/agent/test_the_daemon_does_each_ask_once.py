"""The daemon against a control plane that is a few lists: once, in order, and never while fenced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from berthold.agent.daemon import SUPERSEDED, Daemon
from berthold.agent.faults import Died, FaultyDoor
from berthold.agent.ground import Ground
from berthold.agent.journal import Journal
from berthold.agent.protocol import (
    Answer,
    Ask,
    Asks,
    Beat,
    Fenced,
    Guest,
    Heard,
    Hello,
    Progress,
    Report,
    Running,
    Take,
    Welcome,
)
from berthold.agent.simulated import Simulated
from berthold.lab.turns import now as by_hand


class ControlPlane:
    """A door behind which asks lie in a list until they are answered."""

    def __init__(self) -> None:
        self.epoch = 0
        self.hellos: list[Hello] = []
        self.beats = 0
        self.progress: dict[str, Progress] = {}
        self.asks: list[Ask] = []
        self.answers: list[Answer] = []
        self.reports: list[Report] = []
        self.unreachable = 0
        self._news = asyncio.Event()

    def ask(self, *asks: Ask) -> None:
        self.asks += asks
        self._news.set()

    def fence(self) -> None:
        self.epoch += 1
        self._news.set()

    async def register(self, hello: Hello) -> Welcome:
        self._reach()
        self.epoch += 1
        self.hellos.append(hello)
        return Welcome("h-1", self.epoch, 0.0)

    async def heartbeat(self, beat: Beat) -> Beat:
        self._reach(beat.epoch)
        self.beats += 1
        self.progress.update(beat.progress)
        return beat

    async def take(self, take: Take) -> Asks:
        self._reach(take.epoch)
        while not (waiting := [ask for ask in self.asks if ask.id not in take.busy]):
            self._news.clear()
            await self._news.wait()
            self._reach(take.epoch)
        return Asks(waiting)

    async def answer(self, answer: Answer) -> Heard:
        self._reach(answer.epoch)
        self.answers.append(answer)
        self.asks = [ask for ask in self.asks if ask.id != answer.ask]
        return Heard()

    async def report(self, report: Report) -> Heard:
        self._reach(report.epoch)
        self.reports.append(report)
        return Heard()

    def answered(self, ask: str) -> Answer | None:
        return next((answer for answer in self.answers if answer.ask == ask), None)

    def _reach(self, epoch: int | None = None) -> None:
        if self.unreachable:
            self.unreachable -= 1
            raise ConnectionError("nobody there")
        if epoch is not None and epoch != self.epoch:
            raise Fenced


def ask(seq: int, verb: str, server: str = "s-1", epoch: int = 1, **args: Any) -> Ask:
    if verb in ("spawn", "prepare", "start"):
        args["guest"] = msgspec.to_builtins(Guest(server, "web", 1, 512))
    return Ask(f"a-{seq}", seq, epoch, "m-1", server, verb, args=args)


async def no_time(_: float) -> None:
    await asyncio.sleep(0)


class Recorder(Simulated):
    """Writes down which deeds were begun."""

    def __init__(self, ground: Ground, name: str = "node1") -> None:
        super().__init__(ground, name, sleep=no_time)
        self.begun: list[tuple[str, str]] = []

    async def _before(self, verb: str, server: str, seconds: float | None = None) -> Any:
        self.begun.append((verb, server))
        return await super()._before(verb, server, seconds)


async def until(true: Callable[[], object]) -> None:
    """Let the tasks go on until it is true."""
    for _ in range(20_000):
        if true():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came true")


Story = Callable[[ControlPlane, Recorder, Daemon], Coroutine[Any, Any, None]]


def with_daemon(story: Story) -> None:
    """Tell the story beside a running daemon."""

    async def tell() -> None:
        ground = Ground()
        plane, driver = ControlPlane(), Recorder(ground)
        door = FaultyDoor(plane, driver.faults)
        daemon = Daemon(door, driver, ground.journal("node1"), sleep=no_time)
        running = asyncio.create_task(daemon.run())
        try:
            await story(plane, driver, daemon)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            ground.close()

    asyncio.run(tell())


def stepped(ground: Ground, epoch: int = 1, host: str = "h-1") -> tuple[Recorder, Daemon]:
    driver = Recorder(ground)
    # Stepped by hand, the daemon never comes near its door.
    daemon = Daemon(FaultyDoor(None, driver.faults), driver, ground.journal("node1"))  # type: ignore[arg-type]
    daemon.joined(Welcome(host, epoch))
    return driver, daemon


# -- The core, by hand --------------------------------------------------------------------


def test_an_ask_that_comes_again_is_not_done_again_and_gets_the_same_answer() -> None:
    driver, daemon = stepped(Ground())
    first = by_hand(daemon.do(ask(1, "spawn")))
    assert first.ok
    assert by_hand(daemon.do(ask(1, "spawn"))) == first
    assert driver.begun == [("spawn", "s-1")]


def test_an_older_ask_is_old_news_once_a_later_one_has_begun() -> None:
    driver, daemon = stepped(Ground())
    by_hand(daemon.do(ask(2, "discard")))
    late = by_hand(daemon.do(ask(1, "spawn")))
    assert (late.ok, late.reason) == (False, SUPERSEDED)
    assert by_hand(daemon.do(ask(1, "spawn", server="s-2"))).ok is True
    assert driver.guests() == [Running("s-2", "running")]


def test_a_look_at_the_console_makes_no_older_ask_old_news() -> None:
    _, daemon = stepped(Ground())
    by_hand(daemon.do(ask(1, "spawn")))
    look = by_hand(daemon.do(ask(3, "console")))
    assert look.facts["output"].endswith("login:")
    assert by_hand(daemon.do(ask(2, "stop"))).facts == {"was_running": True}


def test_an_ask_of_an_epoch_that_is_over_is_not_done() -> None:
    driver, daemon = stepped(Ground(), epoch=3)
    answer = by_hand(daemon.do(ask(1, "spawn", epoch=2)))
    assert (answer.ok, answer.reason, answer.facts) == (False, "its epoch 2 is over", {})
    assert driver.begun == []


@pytest.mark.parametrize("death", ["die before", "die after"])
def test_what_was_begun_before_a_death_is_finished_after_it(death: Any) -> None:
    ground = Ground()
    driver, daemon = stepped(ground)
    driver.faults.plan(death, verb="spawn")
    with pytest.raises(Died):
        by_hand(daemon.do(ask(1, "spawn")))
    _, again = stepped(ground)
    assert by_hand(again.do(ask(1, "spawn"))).ok
    assert ground.runners("s-1") == ["node1"]


def test_what_was_begun_at_an_older_epoch_is_not_claimed_to_be_undone() -> None:
    ground = Ground()
    driver, daemon = stepped(ground)
    driver.faults.plan("die after", verb="spawn")
    with pytest.raises(Died):
        by_hand(daemon.do(ask(1, "spawn")))
    _, again = stepped(ground, epoch=2)
    answer = by_hand(again.do(ask(1, "spawn")))
    assert (answer.ok, answer.facts) == (False, {"begun": True})


def test_a_refusal_and_a_driver_that_breaks_are_answers_too() -> None:
    driver, daemon = stepped(Ground())
    driver.faults.plan("refuse", reason="no disk space left")
    refused = by_hand(daemon.do(ask(1, "spawn")))
    assert (refused.ok, refused.reason) == (False, "no disk space left")
    broken = by_hand(daemon.do(ask(2, "send")))
    assert (broken.ok, broken.reason) == (False, "KeyError: 'target'")
    unknown = by_hand(daemon.do(ask(3, "levitate")))
    assert (unknown.ok, unknown.reason) == (False, "this agent knows no verb levitate")


def test_the_journal_keeps_answers_over_a_restart_until_they_are_heard(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    answer = Answer("h-1", 1, "a-1", True, facts={"console": "x"})
    journal = Journal.open(path, "node1")
    journal.speak_for("h-1")
    journal.begin(ask(1, "spawn"))
    journal.finish(answer)
    journal.begin(ask(2, "stop"))
    journal.close()

    again = Journal.open(path, "node1")
    again.speak_for("h-1")
    assert again.unheard() == [answer]
    assert again.answer_to("a-1") == answer
    assert (again.answer_to("a-2"), again.has_begun("a-2"), again.latest("s-1")) == (None, True, 2)
    again.heard("a-1")
    assert again.unheard() == []
    again.close()


def test_what_was_noted_for_another_control_plane_is_void() -> None:
    ground = Ground()
    _, daemon = stepped(ground)
    by_hand(daemon.do(ask(7, "spawn")))
    _, elsewhere = stepped(ground, host="h-2")
    assert by_hand(elsewhere.do(ask(1, "discard"))).ok


# -- The daemon, running ------------------------------------------------------------------


def test_it_registers_beats_reports_and_answers() -> None:
    async def story(plane: ControlPlane, driver: Recorder, daemon: Daemon) -> None:
        plane.ask(ask(1, "spawn"))
        await until(lambda: plane.answered("a-1") and plane.beats > 3 and plane.reports)
        assert plane.hellos[0].name == "node1"
        assert [answer.ok for answer in plane.answers] == [True]

    with_daemon(story)


def test_asks_of_one_server_go_in_order_and_other_servers_do_not_wait() -> None:
    async def story(plane: ControlPlane, driver: Recorder, daemon: Daemon) -> None:
        stall = driver.faults.plan("stall", verb="spawn", server="s-1")
        plane.ask(ask(3, "start"), ask(2, "stop"), ask(1, "spawn"), ask(4, "spawn", server="s-2"))
        await until(lambda: plane.answered("a-4"))
        assert [answer.ask for answer in plane.answers] == ["a-4"]
        stall.released = True
        await until(lambda: plane.answered("a-3"))
        assert [word for word, server in driver.begun if server == "s-1"] == ["spawn", "stop", "start"]
        assert all(answer.ok for answer in plane.answers)

    with_daemon(story)


@pytest.mark.parametrize("verb", ["locate", "discard"])
@pytest.mark.parametrize("kind", ["stall", "forget"])
def test_locate_and_discard_end_what_hangs(verb: str, kind: Any) -> None:
    async def story(plane: ControlPlane, driver: Recorder, daemon: Daemon) -> None:
        driver.faults.plan(kind, verb="spawn")
        plane.ask(ask(1, "spawn"), ask(2, "stop"))
        await until(lambda: driver.begun)
        plane.ask(ask(3, verb))
        await until(lambda: plane.answered("a-3") and not plane.asks)
        first, second, third = (plane.answered(f"a-{n}") for n in (1, 2, 3))
        assert first is not None
        assert second is not None
        assert third is not None
        assert (first.ok, first.reason, second.ok, second.reason) == (False, SUPERSEDED) * 2
        assert third.ok
        assert ("stop", "s-1") not in driver.begun

    with_daemon(story)


def test_a_fenced_agent_stops_what_it_does_and_registers_anew() -> None:
    async def story(plane: ControlPlane, driver: Recorder, daemon: Daemon) -> None:
        driver.faults.plan("stall", verb="spawn")
        plane.ask(ask(1, "spawn"))
        await until(lambda: driver.begun)
        plane.asks.clear()
        plane.fence()
        await until(lambda: len(plane.hellos) == 2)
        plane.ask(ask(2, "discard", epoch=3))
        await until(lambda: plane.answered("a-2"))
        assert [(answer.ask, answer.epoch) for answer in plane.answers] == [("a-2", 3)]
        assert driver.guests() == []

    with_daemon(story)


def test_it_tries_again_while_the_control_plane_is_away() -> None:
    async def story(plane: ControlPlane, driver: Recorder, daemon: Daemon) -> None:
        plane.unreachable = 3
        await until(lambda: plane.hellos)
        stall = driver.faults.plan("stall")
        plane.ask(ask(1, "spawn"))
        await until(lambda: driver.begun)
        plane.unreachable = 5
        stall.released = True
        await until(lambda: plane.answered("a-1"))
        assert len(plane.hellos) == 1

    with_daemon(story)


def test_an_answer_that_was_not_heard_before_a_restart_is_given_after_it() -> None:
    async def story() -> None:
        ground = Ground()
        _, before = stepped(ground)
        await before.do(ask(1, "spawn"))
        plane = ControlPlane()
        driver = Recorder(ground)
        running = asyncio.create_task(Daemon(plane, driver, ground.journal("node1"), sleep=no_time).run())
        await until(lambda: plane.answered("a-1"))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert driver.begun == []
        assert ground.journal("node1").unheard() == []

    asyncio.run(story())


def test_an_answer_may_be_given_twice_on_demand() -> None:
    async def story(plane: ControlPlane, driver: Recorder, daemon: Daemon) -> None:
        driver.faults.plan("answer twice", verb="spawn")
        plane.ask(ask(1, "spawn"), ask(2, "stop"))
        await until(lambda: plane.answered("a-2"))
        assert [answer.ask for answer in plane.answers] == ["a-1", "a-1", "a-2"]

    with_daemon(story)


def test_a_death_in_the_driver_ends_the_daemon_without_an_answer() -> None:
    async def story() -> None:
        ground, plane = Ground(), ControlPlane()
        driver = Recorder(ground)
        driver.faults.plan("die after", verb="spawn")
        plane.ask(ask(1, "spawn"))
        with pytest.raises(BaseExceptionGroup) as ended:
            await Daemon(plane, driver, ground.journal("node1"), sleep=no_time).run()
        assert ended.value.subgroup(Died) is not None
        assert plane.answers == []

    asyncio.run(story())


def test_the_console_is_shown_while_a_send_is_under_way_whose_progress_the_heartbeats_tell() -> None:
    async def story(plane: ControlPlane, driver: Recorder, daemon: Daemon) -> None:
        await until(lambda: plane.hellos)
        plane.ask(ask(1, "spawn"))
        await until(lambda: len(plane.answers) == 1)
        driver.faults.plan("stall", verb="send")
        plane.ask(ask(2, "send", target="node2"))
        await until(lambda: ("send", "s-1") in driver.begun)
        plane.ask(ask(3, "console"))
        await until(lambda: len(plane.answers) == 2)
        assert plane.answers[-1].ask == ask(3, "console").id
        sent = ask(2, "send").id
        await until(lambda: sent in plane.progress)
        assert plane.progress[sent].memory_total_bytes == 512 << 20
        plane.ask(ask(4, "discard"))
        await until(lambda: len(plane.answers) == 4)
        await until(lambda: not daemon.progress())

    with_daemon(story)
