"""A host for a whole group: the scheduler proposes, the ledger grants a place to every member or to none.

As for a single server (`moves/placing.py`) nothing rests on what is looked at; a candidate that was
lost to somebody quicker gives way to the next. But this is done while whoever asked waits: the
answer is a group move that holds all its places, or why there is none.

M7: where only others on the move are in the way, a request that may wait is answered with a group
move that holds nothing yet. One member's move then looks again (`place`), in its turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import structlog

from berthold.errors import Failure, NoValidHost, Refused, WrongState
from berthold.ledger import claims, moves, queue
from berthold.ledger.store import Store, Tx
from berthold.moves import begin, departure, group_waiting, placing, together, turns, waiting, wishes
from berthold.moves.outcome import Outcome
from berthold.moves.placing import CAUSES, request_of
from berthold.moves.playbook import Place, Scene
from berthold.moves.watch import Watch
from berthold.scheduler.candidates import Refusal
from berthold.scheduler.explain import no_valid_host
from berthold.scheduler.request import Request
from berthold.scheduler.together import rank_together
from berthold.scheduler.view import View
from berthold.settings import Settings

log = structlog.get_logger("berthold.placing")

LOOKS = 3  # that found candidates, all of which were lost
WOULD_HELP = "That is over once others on the move have arrived; a group move may wait for it"


@dataclass(frozen=True)
class Asked:
    """Which group is to move, who asks, for the host of which name (None: the best). Of one that has
    waited: its group move, and its number in the queue."""

    group_id: str
    by: begin.By
    host: str | None
    waited: str | None = None
    ticket: int | None = None


async def move_group(
    store: Store, watch: Watch, settings: Settings, group_id: str, by: begin.By, host: str | None = None
) -> str:
    """Move the whole group to the host of that name, or to the best one; the group move's id. Every
    member has its place there when this returns, or the group waits for one as long as `by` says.

    Raises `NotFound`, `Malformed` for a host that cannot be meant, `WrongState` and `Refused` where the
    group cannot move now, `NoValidHost` with the reason of each host.
    """
    asked = Asked(group_id, by, host)
    try:
        return await _placed(store, watch, settings, asked)
    except (NoValidHost, Refused, WrongState) as no:
        hope = await store.read(_hope, asked, settings, watch)
        if by.wait_s <= 0 and hope.prospects:
            raise _told(no, WOULD_HELP) from no
        if by.wait_s <= 0:
            raise
        if not hope.prospects:
            raise _since(no, hope) from no
    return await store.write(group_waiting.ask, group_id, by, host)


async def place(store: Store, lease: moves.Lease, scene: Scene, settings: Settings, watch: Watch) -> Outcome:
    """Claim a host for every member of the group, for which this member's move waits, or wait on.

    Raises what `move_group` raises when there is nothing to wait for, or no time left.
    """
    asked = await store.read(_asked, scene)
    for _ in range(placing.LOOKS):
        try:
            await _placed(store, watch, settings, asked, lease)
            return Outcome("running", later=True)
        except (NoValidHost, Refused, WrongState) as no:
            seconds = waiting.left(scene, store.clock.now())
            if waiting.patience(scene) <= 0:
                raise
            if seconds <= 0:
                raise _told(no, f"It has waited {waiting.patience(scene):g} s for a place") from no
            hope = await store.read(_hope, asked, settings, watch)
            if not hope.prospects:
                raise _since(no, hope) from no
        outcome = await store.write(turns.wait_for_place, lease, hope.prospects, seconds)
        if outcome is not None:
            placing.tell(scene, hope, seconds)
            return outcome
    raise WrongState(placing.IN_A_CIRCLE)


def _asked(tx: Tx, scene: Scene) -> Asked:
    group_id, waited = scene.server["group_id"], scene.move["group_move_id"]
    if group_id is None:
        raise WrongState("Its group was deleted: there is no whole to move.")
    by = group_waiting.by_of(tx, waited)
    return Asked(group_id, by, scene.wish.get("host"), waited, scene.move["number"])


async def _placed(
    store: Store, watch: Watch, settings: Settings, asked: Asked, lease: moves.Lease | None = None
) -> str:
    """The group move, with a place for every member. Raises as `move_group` does."""
    refused: Mapping[str, Refusal] = {}
    for look in range(LOOKS):
        requests, sight = await store.read(survey, asked, settings, watch, look > 0)
        ranked = rank_together(requests, sight, store.clock.chance())
        lost: dict[str, Refusal] = {}
        for candidate in ranked.ranking:
            try:
                return await store.write(
                    together.begin, asked.group_id, asked.by, candidate.id, candidate.epoch, lease
                )
            except Refused as refusal:
                if refusal.rule == "G2":
                    raise  # it is the group that cannot move, wherever to
                cause = CAUSES.get(refusal.rule, "already refused")
                lost[candidate.name] = Refusal(refusal.rule, cause, refusal.why)
        refused = {**ranked.refused, **lost}
        if not lost and look:
            break
    raise NoValidHost(*no_valid_host(refused))


def _hope(tx: Tx, asked: Asked, settings: Settings, watch: Watch) -> waiting.Hope:
    """What the group may wait for: nothing, if something is in its way that does not end by itself."""
    supply = watch.confirm(tx)
    seen = departure.outlook(tx, asked.group_id, asked.by, asked.waited)
    if seen.going is None or not seen.may_yet_go:
        return waiting.Hope()
    busy = {each.move["id"]: each.name for each in seen.problems if each.move}
    requests = _requests(tx, seen.going, asked.host, settings)
    return waiting.hope_together(tx, requests, View(supply, heard_since=watch.heard_since), busy)


def _since(no: Failure, hope: waiting.Hope) -> Failure:
    return _told(no, placing.IN_A_CIRCLE if hope.circle else placing.NO_USE)


def _told(no: Failure, why: str) -> Failure:
    """The refusal, with why it was not waited, or no longer."""
    message = f"{no.message.rstrip('.')}. {why}"
    match no:
        case NoValidHost():
            return NoValidHost(message, no.reasons)
        case Refused():
            return Refused(no.rule, message)
    return WrongState(message)


# -- What is wanted -----------------------------------------------------------------------


def survey(
    tx: Tx, asked: Asked, settings: Settings, watch: Watch, anew: bool = False
) -> tuple[dict[str, Request], View]:
    """What each member wants, by its name, and the hosts as they are; `anew`, as the database has them."""
    supply = watch.look(tx)
    going = departure.departure(tx, asked.group_id, asked.by, waited=asked.waited)
    requests = _requests(tx, going, asked.host, settings)
    if asked.by.wait_s > 0:
        ahead = queue.ahead(tx, asked.ticket, None, patient=True)
        requests = {name: replace(wanted, queued=ahead) for name, wanted in requests.items()}
    # No home: the group as a whole may live anywhere.
    return requests, View(watch.confirm(tx) if anew else supply, heard_since=watch.heard_since)


def _requests(tx: Tx, going: departure.Departure, host: str | None, settings: Settings) -> dict[str, Request]:
    """Raises `Malformed` for a host that cannot be meant."""
    if host is not None:
        begin.check_host(tx, host, going.source)
    members = frozenset(server["id"] for server in going.servers)
    return {
        f"{server['name']} ({server['id']})": _wanted(tx, going, server, host, settings, members)
        for server in going.servers
    }


def _wanted(
    tx: Tx,
    going: departure.Departure,
    server: departure.Row,
    host: str | None,
    settings: Settings,
    members: frozenset[str],
) -> Request:
    move = {"source_id": going.source.host_id, "kind": "migration", "wish": {"host": host}, "facts": {}}
    scene = Scene(move, server, tuple(claims.of_server(tx, server["id"])))
    wanted = request_of(tx, scene, Place("claim places"), settings, going.group)
    if wishes.servers_named(server["hints"], "same_host") & members:
        # It wants to be where another member is, which goes with it.
        wanted = replace(wanted, same_host=None)
    return wanted
