"""The runner: takes a leased move one step further, whatever happened before.

A step looks at the move, does what its line needs outside of transactions (asks a
neighbour, ranks hosts), and ends in one transaction (`turns`). It keeps nothing in memory:
any conductor can take the next step. A line may be done twice if its conductor dies between
doing and writing; that is why asks and calls are idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import structlog

from berthold.errors import NoValidHost, Stale, Unavailable
from berthold.ledger import hosts, moves
from berthold.ledger.outbox import Sent
from berthold.ledger.store import Store
from berthold.moves import group_placing, onward, placing, turns
from berthold.moves.outcome import LOOK_AGAIN_S, Outcome, Trouble, by_host
from berthold.moves.playbook import Ask, Call, Place, Scene, Write
from berthold.moves.sight import Sight, can_act, can_return, errands, is_aborted, line_of, look
from berthold.moves.watch import Watch
from berthold.neighbours import Neighbours
from berthold.settings import Settings

log = structlog.get_logger("berthold.moves")


class Runner:
    """Steps moves. Holds nothing but its doors to the ledger and the neighbours.

    A step is one line. With `at_once` it takes the lines that follow and ask nobody into the same
    transaction; if that fails, it is line by line, so that each line meets its own trouble.
    """

    def __init__(
        self, store: Store, neighbours: Neighbours, settings: Settings, *, at_once: bool = False
    ) -> None:
        self.at_once = at_once
        self.store = store
        self.neighbours = neighbours
        self.settings = settings
        self.since = store.clock.now()
        self.watch = Watch(store, settings.silent_after_s)

    async def step(self, lease: moves.Lease, seen: Scene | None = None, *, answered: bool = False) -> Outcome:
        """Do what the move's line needs; how that left it. `seen` is the scene as the step before left it,
        if it told; `answered`: there is news, so probably the answer that was waited for.

        Raises `Stale` when somebody else works on the move, `Unavailable` when the database
        does not answer; both mean: stop, nothing is lost.
        """
        if answered and self.at_once and (outcome := await self._answered(lease)) is not None:
            return outcome
        sight = Sight(seen) if seen else await self.store.read(look, lease)
        scene = sight.scene
        try:
            if not sight.all_sent:
                return await self.store.write(turns.send_line, lease)
            if scene.move["state"] == "undoing":
                return await self._back(lease, sight)
            return await self._forward(lease, sight)
        except Stale:
            raise
        except Exception as error:
            if isinstance(error, Unavailable) and not isinstance(line_of(scene), Call):
                raise
            return await self._unforeseen(lease, scene, Trouble.of(error))

    async def _answered(self, lease: moves.Lease) -> Outcome | None:
        try:
            return await self.store.write(onward.answered, lease)
        except (Stale, Unavailable):
            raise
        except Exception as error:
            log.debug("not at once", move=lease.move_id, reason=str(error))
            return None

    async def _end(self, lease: moves.Lease, turn: Callable[..., Outcome], *args: Any) -> Outcome:
        """End a line, and what follows with it if that can be."""
        if self.at_once:
            try:
                return await self.store.write(onward.and_on, lease, turn, *args)
            except (Stale, Unavailable):
                raise
            except Exception as error:
                log.debug("not at once", move=lease.move_id, reason=str(error))
        return await self.store.write(turn, lease, *args)

    async def _unforeseen(self, lease: moves.Lease, scene: Scene, trouble: Trouble) -> Outcome:
        """The line's own code failed. At the line that decides its asks may have been done all the same."""
        line = line_of(scene)
        if scene.move["state"] == "undoing" or not (isinstance(line, Ask) and line.decides):
            return await self._trouble(lease, scene, trouble)
        if scene.facts.get("locating"):
            return await self.store.write(turns.retry_undo, lease, trouble, self.settings)
        return await self.store.write(turns.locate, lease, trouble)

    # -- Forward --------------------------------------------------------------------------

    async def _forward(self, lease: moves.Lease, sight: Sight) -> Outcome:
        if is_aborted(sight.scene) and not _has_decided(sight):
            return await self._abort(lease, sight)
        match line_of(sight.scene):
            case Write():
                return await self._end(lease, turns.write_line)
            case Place() as line:
                return await self._place(lease, sight.scene, line)
            case Ask():
                return await self._ask(lease, sight)
            case Call() as line:
                made = await line.do(self.neighbours, sight.scene)
                return await self._end(lease, turns.call_line, made)
        raise AssertionError("a parked move is not leased")

    async def _abort(self, lease: moves.Lease, sight: Sight) -> Outcome:
        """Turn back; from the line that decides, only if the agents say that the guest has not moved."""
        scene, line = sight.scene, line_of(sight.scene)
        trouble = Trouble("it was aborted", trace=f"aborted while it was to {line.name}")
        if not (isinstance(line, Ask) and line.decides):
            return await self._trouble(lease, scene, trouble)
        if scene.facts.get("locating"):
            return await self._located(lease, sight)
        return await self.store.write(turns.locate, lease, trouble)

    async def _place(self, lease: moves.Lease, scene: Scene, line: Place) -> Outcome:
        try:
            if line.whole:
                return await group_placing.place(self.store, lease, scene, self.settings, self.watch)
            return await placing.place(self.store, lease, scene, line, self.settings, self.watch)
        except NoValidHost:
            # A whole site comes back in no order: hosts that may still report are waited for.
            if await self._may_report(scene):
                return await self.store.write(turns.put_off, lease, LOOK_AGAIN_S)
            raise

    async def _may_report(self, scene: Scene) -> bool:
        """Whether hosts that were not heard may be heard soon: this conductor has just begun, or nobody at
        all was heard for a while, which is this cloud's own doing (its database, the agents' door, a machine
        that was paused). That is believed for as long as a host may be silent, then no longer."""
        present, patience = self.store.clock.now(), self.settings.silent_after_s
        waited = present - scene.move["line_since"]
        if waited < patience and not await self.store.read(hosts.any_heard, present - patience):
            self.since = present
        young = present - self.since < patience
        return young and await self.store.read(hosts.any_unheard, self.since)

    async def _ask(self, lease: moves.Lease, sight: Sight) -> Outcome:
        scene, line = sight.scene, line_of(sight.scene)
        assert isinstance(line, Ask)
        if scene.facts.get("locating"):
            return await self._located(lease, sight)
        problem = self._problem(sight, line)
        if problem is not None:
            if line.decides:
                return await self.store.write(turns.locate, lease, problem)
            return await self._trouble(lease, scene, problem)
        if _open(sight.asks):
            return Outcome(scene.move["state"], wait_s=LOOK_AGAIN_S)
        return await self._end(lease, turns.ask_line)

    def _problem(self, sight: Sight, line: Ask) -> Trouble | None:
        """Why the line's asks will not all be answered well, if that is so."""
        scene = sight.scene
        for _, host_id in errands(scene):
            if can_return(scene) and not can_act(scene, host_id):
                name = scene.host_name(host_id) or host_id
                message = "a host that is needed was fenced"
                return Trouble.at_host(message, {name: "fenced"}, f"{name} is fenced", again=True)
        for ask in sight.asks:
            name = scene.host_name(ask.host_id) or ask.host_id
            if ask.state == "done" and not ask.answer.get("ok"):
                reason = ask.answer.get("reason") or "it did not say why"
                return Trouble.refused(name, ask.verb, reason, again=True)
            if ask.state == "open" and can_return(scene) and (why := self._overdue(sight, ask, line)):
                return Trouble.overdue(name, ask.verb, why)
        return None

    def _overdue(self, sight: Sight, ask: Sent, line: Ask) -> str | None:
        """Why it makes no sense to wait longer for this answer, if it makes none."""
        present = self.store.clock.now()
        allowed = self.settings.send_s if line.long else self.settings.ask_s
        if present - sight.scene.move["line_since"] > allowed:
            return f"no answer within {allowed:g} s"
        heard = max(sight.heard_at.get(ask.host_id, 0.0), self.since)
        if present - heard > self.settings.silent_after_s:
            return f"its agent has been silent for {present - heard:.0f} s"
        return None

    async def _located(self, lease: moves.Lease, sight: Sight) -> Outcome:
        """The agents say who runs the guest; that, not the lost answer, chooses the direction."""
        scene = sight.scene
        told = {ask.host_id: ask.answer["facts"] for ask in sight.asks if ask.is_good}
        if told.get(scene.move["target_id"], {}).get("running"):
            return await self.store.write(turns.ask_line, lease)
        if _open(sight.asks):
            return Outcome(scene.move["state"], wait_s=LOOK_AGAIN_S)
        if bad := [ask for ask in sight.asks if not ask.is_good]:
            name = scene.host_name(bad[0].host_id) or bad[0].host_id
            trouble = Trouble.refused(name, bad[0].verb, str(bad[0].answer.get("reason")))
            return await self.store.write(turns.retry_undo, lease, trouble, self.settings)
        doubt = scene.facts.get("doubt", "")
        name = scene.host_name(scene.move["target_id"]) or ""
        hosts = scene.facts.get("doubted", {})
        words = "; ".join(f"{each}: {why}" for each, why in hosts.items()) or doubt
        said = f"{words}; the guest does not run on {name}"
        trouble = Trouble.at_host(doubt, hosts, said, again=True)
        return await self._trouble(lease, scene, trouble)

    # -- Back -----------------------------------------------------------------------------

    async def _back(self, lease: moves.Lease, sight: Sight) -> Outcome:
        scene, line = sight.scene, line_of(sight.scene)
        if isinstance(line, Call) and callable(line.undo) and not scene.facts.get("again"):
            await line.undo(self.neighbours, scene)
        if _open(sight.asks):
            return Outcome(scene.move["state"], wait_s=LOOK_AGAIN_S)
        if bad := [ask for ask in sight.asks if not ask.is_good]:
            reason = str(bad[0].answer.get("reason"))
            name = scene.host_name(bad[0].host_id) or bad[0].host_id
            trouble = Trouble.refused(name, bad[0].verb, reason)
            return await self._trouble(lease, scene, trouble)
        return await self.store.write(turns.undo_line, lease)

    async def _trouble(self, lease: moves.Lease, scene: Scene, trouble: Trouble) -> Outcome:
        """Tell the operator once, then turn back or try again."""
        back = scene.move["state"] == "undoing"
        log.warning(
            "line failed",
            server=scene.server["id"],
            move=scene.id,
            kind=scene.move["kind"],
            request=scene.move["request_id"],
            line=line_of(scene).name,
            way="back" if back else "forward",
            reason=trouble.message,
            hosts="; ".join(by_host(trouble.hosts)),
            trace=trouble.trace if not trouble.hosts else "",
        )
        f = turns.retry_undo if back else turns.fail_line
        return await self.store.write(f, lease, trouble, self.settings)


def _has_decided(sight: Sight) -> bool:
    """Whether the agents have answered well to the line that decides: then it is too late to turn back."""
    line = line_of(sight.scene)
    decides = isinstance(line, Ask) and line.decides and not sight.scene.facts.get("locating")
    return decides and all(ask.is_good for ask in sight.asks)


def _open(asks: Sequence[Sent]) -> bool:
    return any(ask.state == "open" for ask in asks)
