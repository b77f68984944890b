"""Placing: the scheduler proposes, the ledger grants.

The view may be stale the moment it is read; nothing rests on it. Candidates are offered to
the ledger one by one, best first. One that is refused was lost to somebody quicker: the
next is offered, and when all are lost the view is read again, until a look finds nothing
left to offer. So of racers for one place exactly one wins, and the others end on their next
candidate if there is one (M7).

G3: what a soft policy prefers is true until another member chooses. The claim names the
group's generation as the ranking saw it, and is refused if that has risen: then all is ranked
again. Where that happens too often the place is taken all the same, and told in the log.

M7: a move that may wait does so where a place may come free without anybody's help (`waiting`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog

from berthold.errors import NoValidHost, Refused
from berthold.ledger import claims, moves, queue, seats, view
from berthold.ledger.store import Store, Tx
from berthold.moves import steps, turns, twin, waiting, wishes
from berthold.moves.outcome import Outcome
from berthold.moves.playbook import Place, Scene
from berthold.moves.watch import Watch
from berthold.scheduler.candidates import Ranking, Refusal, fit, rank
from berthold.scheduler.explain import no_valid_host
from berthold.scheduler.request import GroupWish, Request
from berthold.scheduler.view import HostView, View
from berthold.settings import Settings

log = structlog.get_logger("berthold.placing")

LOOKS = 10  # that found candidates, all of which were lost
RANKED_AGAIN = 10  # since another member of a soft group had chosen


@dataclass(frozen=True)
class Survey:
    """What is wanted, the hosts as they are, and at which generation the soft group was seen; `gave_way`:
    that does not matter any more, since it has changed too often."""

    request: Request
    view: View
    group_generation: int | None
    gave_way: bool = False


async def place(
    store: Store, lease: moves.Lease, scene: Scene, line: Place, settings: Settings, watch: Watch
) -> Outcome:
    """Claim a host for the move's server, or wait for one. Raises `NoValidHost` with a reason for every
    host."""
    looks = again = 0
    while True:
        sight = await store.read(survey, scene, line, settings, watch, looks > 0)
        if sight.group_generation is not None and again == RANKED_AGAIN:
            log.warning("soft policy gave way", server=scene.server["id"], group=scene.server["group_id"])
            sight = replace(sight, group_generation=None, gave_way=True)
        ranking = rank(sight.request, sight.view, store.clock.chance())
        outcome, refused = await _offer(store, lease, scene, sight, ranking)
        if outcome is not None:
            return outcome
        if refused is None:
            again += 1
            continue
        looks += 1
        if refused and looks < LOOKS and not (_is_patient(scene) and refused.keys() == _held_back(refused)):
            continue
        waits, why_not = await _wait(store, lease, scene, line, settings, watch)
        if waits is not None:
            return waits
        raise _nowhere(scene, {**ranking.refused, **refused}, why_not)


async def _offer(
    store: Store, lease: moves.Lease, scene: Scene, sight: Survey, ranking: Ranking
) -> tuple[Outcome | None, dict[str, Refusal] | None]:
    """The first candidate that the ledger grants; else why it refused each; or None if the ranking is
    not true any more (G3)."""
    refused: dict[str, Refusal] = {}
    for host in ranking:
        want = _want(scene, sight, host)
        try:
            return await twin.place(store, lease, want, scene, host.name), refused
        except Refused as refusal:
            if refusal.rule == "G3":
                return None, None
            cause = CAUSES.get(refusal.rule, "already refused")
            refused[host.name] = Refusal(WAIT if refusal.wait else refusal.rule, cause, refusal.why)
    return None, refused


def _held_back(refused: Mapping[str, Refusal]) -> set[str]:
    """The hosts that are refused until somebody has arrived: to offer them again at once is no use."""
    return {name for name, refusal in refused.items() if refusal.filter == WAIT}


async def _wait(
    store: Store, lease: moves.Lease, scene: Scene, line: Place, settings: Settings, watch: Watch
) -> tuple[Outcome | None, str]:
    """How the move waits (M7), or why it does not, in words for its owner: none if it never might."""
    for _ in range(LOOKS if _is_patient(scene) else 0):
        seconds = waiting.left(scene, store.clock.now())
        if seconds <= 0:
            return None, f"It has waited {waiting.patience(scene):g} s for a place"
        hope = await store.read(_hope, scene, line, settings, watch)
        if not hope.prospects:
            return None, IN_A_CIRCLE if hope.circle else NO_USE
        outcome = await store.write(turns.wait_for_place, lease, hope.prospects, seconds)
        if outcome is not None:
            tell(scene, hope, seconds)
            return outcome, ""
    return None, IN_A_CIRCLE if _is_patient(scene) else ""


def _hope(tx: Tx, scene: Scene, line: Place, settings: Settings, watch: Watch) -> waiting.Hope:
    sight = survey(tx, scene, line, settings, watch, lost_all=True)
    return waiting.hope(tx, scene, sight.request, sight.view)


def _is_patient(scene: Scene) -> bool:
    return waiting.patience(scene) > 0


def tell(scene: Scene, hope: waiting.Hope, seconds: float) -> None:
    """Tell the operator once that a move waits, and for what."""
    if not scene.facts.get("waits"):
        log.info(
            "move waits for a place",
            server=scene.server["id"],
            move=scene.id,
            kind=scene.move["kind"],
            request=scene.move["request_id"],
            at_most_s=round(seconds),
            hosts="; ".join(f"{each.host.name}: {each}" for each in hope.prospects.values()),
        )


def _want(scene: Scene, sight: Survey, host: HostView) -> claims.Want:
    return claims.Want(
        scene.server["id"],
        host.id,
        sight.request.resources,
        scene.id,
        host.epoch,
        group_generation=sight.group_generation,
        gave_way=sight.gave_way,
        ticket=scene.move["number"],
        patient=_is_patient(scene),
    )


# The class of cause of what the ledger refuses, in the scheduler's words.
CAUSES: Mapping[str, str] = {
    "C1": "capacity",
    "G1": "group rule",
    "G2": "group rule",
    "M5": "host state",
    "M7": "others wait for it",
}
# In the place of the filter, where the ledger refuses only until others have arrived.
WAIT = "others are on the move"
NO_USE = "It would have waited, but no host may come free by itself"
IN_A_CIRCLE = "It would have waited, but in a circle: the servers that are in its way wait themselves"


def _nowhere(scene: Scene, refused: Mapping[str, Refusal], why_not: str) -> NoValidHost:
    message, reasons = no_valid_host(refused)
    if why_not:
        message = f"{message}. {why_not}"
    if last := scene.move["failure"].get("message"):
        message = f"{message}. In the last try {last}"
    return NoValidHost(message, reasons)


def survey(
    tx: Tx, scene: Scene, line: Place, settings: Settings, watch: Watch, lost_all: bool = False
) -> Survey:
    """What is wanted, and the hosts as they are. That none will do is never said of an old picture, and
    one that showed only hosts which the ledger then refused is old."""
    supply = watch.look(tx)
    server = scene.server
    group = view.group_of(tx, server["group_id"])
    request = replace(request_of(tx, scene, line, settings, group), queued=_queued(tx, scene, group))
    sight = View(
        supply,
        members=seats.holders(tx, group["id"], but=server["id"]) if group else {},
        own=frozenset(claim.host_id for claim in scene.claims),
        home=_home(tx, group, scene.move),
        heard_since=watch.heard_since,
    )
    if lost_all or not len(fit(request, sight)):
        sight = replace(sight, supply=watch.confirm(tx))
    soft = request.group is not None and request.group.is_soft
    return Survey(request, sight, group["generation"] if group and soft else None)


def request_of(
    tx: Tx, scene: Scene, line: Place, settings: Settings, group: Mapping[str, Any] | None
) -> Request:
    """Judged for the server's owner, whoever asked for the move."""
    server = scene.server
    flavor = steps.new_flavor(scene)
    same, different = (wishes.servers_named(server["hints"], hint) for hint in wishes.HOST_HINTS)
    required, forbidden = wishes.traits_named(flavor.get("extra_specs", {}), server["details"])
    return Request(
        resources=steps.resources_of(flavor),
        server_id=server["id"],
        project_id=server["project_id"],
        group=GroupWish(group["id"], group["name"], group["policy"], group["per_host"]) if group else None,
        host=scene.wish.get("host"),
        source=None if _may_stay(scene, line, settings) else scene.move["source_id"],
        ignore=dict(scene.facts.get("tried", {})),
        zone=scene.wish.get("zone", server["zone"]),
        same_host=view.hosts_of(tx, server["project_id"], same) if same else None,
        different_host=view.hosts_of(tx, server["project_id"], different),
        required_traits=required,
        forbidden_traits=forbidden,
        aggregates=wishes.aggregates_named(flavor.get("extra_specs", {})),
    )


def _queued(tx: Tx, scene: Scene, group: Mapping[str, Any] | None) -> frozenset[str]:
    """M7: the hosts for which somebody waits whom the server must let go first."""
    group_id = waiting.group_waited_for(scene) if group else None
    if group_id is None and not _is_patient(scene):
        return frozenset()
    return queue.ahead(tx, scene.move["number"], group_id, patient=_is_patient(scene))


def _may_stay(scene: Scene, line: Place, settings: Settings) -> bool:
    """Whether the server's own host is a candidate: a migration is one because it leaves."""
    return not line.leaves_source or (settings.resize_on_same_host and scene.move["kind"] == "resize")


def _home(tx: Tx, group: Mapping[str, Any] | None, move: Mapping[str, Any]) -> str | None:
    """Where an affinity group's members must be. A lone member may choose anew, and so may the first
    that is evacuated; the others follow it."""
    if group is None or group["policy"] != "affinity" or group["members"] == 1:
        return None
    places = view.places_of_group(tx, group["id"])
    if move["source_id"] == places.get("home") and (move["kind"] == "evacuation" or "next" in places):
        return places.get("next")
    return places.get("home")
