"""Waiting for a place instead of failing (M7): who may, for what, and how long.

A patient move (its request said for how many seconds) that finds no host waits if some host would
do once everything that is *in flight* there has ended: the claims of servers on the move that may
be given up when the move is done or undone, those of deletes, and of resizes that wait for their
owner's word. What is at rest is not waited for, nor a host that is down, nor anything that an
operator must change.

Nothing waits in a circle: a server that waits is not in flight. So a move begins to wait only
for moves that go on, and each of those either ends or is told no. While it waits the move holds
what it held, its own home, and its place in the queue (`ledger/queue.py`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from berthold.ledger import occupants, queue, view
from berthold.ledger.store import Tx
from berthold.moves.books import PLAYBOOKS
from berthold.moves.group_move import WAITS_TO_GO
from berthold.moves.playbook import Place, Scene
from berthold.moves.status import WAITS
from berthold.records import actions
from berthold.scheduler.candidates import fit
from berthold.scheduler.filters import capacity
from berthold.scheduler.filters import group as group_rule
from berthold.scheduler.request import AFFINITY, ANTI_AFFINITY, Request
from berthold.scheduler.supply import HostView
from berthold.scheduler.together import fit_together
from berthold.scheduler.view import View

# In the wish of a move: for how many seconds it may wait each time it looks for a place.
PATIENCE = "wait_s"
# For how many hosts one move stands in the queue; it takes any other that comes free.
HOSTS_MAX = 32

Row = Mapping[str, Any]


def may_wait(playbook: str) -> bool:
    """Whether a move of this playbook looks for a place, so could wait for one."""
    return any(isinstance(line, Place) for line in PLAYBOOKS[playbook].lines)


# Above its point of no return such a move may yet take its server away from where it is at home …
LEAVES_HOME = frozenset(
    name
    for name, book in PLAYBOOKS.items()
    if any(isinstance(line, Place) and line.leaves_source for line in book.lines)
)
# … and such a one will.
GIVES_HOME_BACK = frozenset({"delete", "shelve-offload", "shelve-and-offload"})
# A member of a whole group on its way ends on either of its two hosts and gives up the other.
EITHER_WAY = frozenset(name for name, book in PLAYBOOKS.items() if book.lines[0] is WAITS_TO_GO)


@dataclass(frozen=True)
class Prospect:
    """A host that would do once `blockers`, the ids of moves, have ended. `causes`: what is in the way
    now; `names`: of the servers on those moves, for operators; `room`: whether it is waited for there."""

    host: HostView
    causes: frozenset[str] = frozenset()
    blockers: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    room: bool = False

    def __str__(self) -> str:
        if not self.names:
            return "it may be free in a moment"
        return f"{' and '.join(sorted(self.causes))}: {', '.join(sorted(self.names))} on the move"


@dataclass(frozen=True)
class Hope:
    """What a move may wait for, by host id. `circle`: it may not, though it could if it were allowed to
    wait for others that wait."""

    prospects: Mapping[str, Prospect] = field(default_factory=dict)
    circle: bool = False


def patience(scene: Scene) -> float:
    """For how many seconds the move may wait for a place; 0 if it is to fail at once. So does whatever would
    leave a fenced host, but for an evacuation: it cannot, and while it waited nobody could evacuate."""
    at_home = any(claim.host_status == "fenced" for claim in scene.claims_in("home"))
    if at_home and scene.move["kind"] != "evacuation":
        return 0.0
    seconds: float = scene.wish.get(PATIENCE, 0)
    return seconds


def left(scene: Scene, present: float) -> float:
    """How many of them are left, counted from when it began to look."""
    since: float = scene.move["line_since"]
    return since + patience(scene) - present


# -- What there is to hope for ------------------------------------------------------------


def hope(tx: Tx, scene: Scene, request: Request, sight: View) -> Hope:
    """What the move that wants this may wait for. `sight` is of the same snapshot as `tx`, or later."""
    group = view.group_of(tx, scene.server["group_id"])
    held = [row for row in occupants.on_the_move(tx, scene.server["id"]) if _may_go(row)]
    request = replace(request, queued=frozenset())
    going = [row for row in held if not row["waits"]]
    prospects = _prospects(tx, request, sight, group, going)
    if not prospects:
        newer = _newer(tx, request, sight)
        return Hope(newer, circle=not newer and bool(_prospects(tx, request, sight, group, held)))
    return Hope(prospects)


def _may_go(row: Row) -> bool:
    """Whether a claim may be given up when its server's move ends, one way or the other."""
    playbook, running = row["playbook"], row["state"] == "running"
    if row["state"] == "stuck" or row["role"] == "left":
        return False
    if row["role"] in ("target", "source") or playbook in EITHER_WAY:
        return True
    if playbook in GIVES_HOME_BACK:
        return bool(running)
    if _stays(row):
        return False
    if row["state"] == "waiting" or playbook == "revert-resize":
        goes_from = row["target_id"]
    elif running and playbook in LEAVES_HOME:
        goes_from = row["source_id"]
    else:
        return False
    return bool(row["host_id"] == goes_from)


def _stays(row: Row) -> bool:
    """Whether the server's move changes nothing but what it holds on its host."""
    return row["source_id"] is not None and row["source_id"] == row["target_id"]


def _prospects(
    tx: Tx, request: Request, sight: View, group: Row | None, going: Sequence[Row]
) -> dict[str, Prospect]:
    """The hosts that would do if nobody held there what `going` rows say; not all, if they are many."""
    mine = [row for row in going if group is not None and row["group_id"] == group["id"] and not _stays(row)]
    without = replace(
        sight, supply=sight.supply.with_hosts(_freed(sight, going), {}), members=_fewer(sight, mine)
    )
    found: dict[str, Prospect] = {}
    for home in _homes(tx, request, sight, group, mine):
        for row in fit(request, replace(without, home=home))[:HOSTS_MAX].tolist():
            host = sight.hosts[row]
            found.setdefault(host.id, _prospect(request, sight, host, going, mine))
    return found


def _freed(sight: View, going: Sequence[Row]) -> list[HostView]:
    """The hosts of these claims, with what they would have free."""
    freed: dict[str, Counter[str]] = defaultdict(Counter)
    for row in going:
        freed[row["host_id"]].update(row["resources"])
    hosts = []
    for host_id, amounts in freed.items():
        if host := sight.supply.find(host_id):
            offers = {
                name: replace(offer, used=offer.used - amounts[name]) for name, offer in host.capacity.items()
            }
            hosts.append(replace(host, capacity=offers))
    return hosts


def _fewer(sight: View, mine: Sequence[Row]) -> dict[str, int]:
    """How many members each host would have."""
    leavers: dict[str, set[str]] = defaultdict(set)
    for row in mine:
        leavers[row["host_id"]].add(row["id"])
    return {host_id: count - len(leavers[host_id]) for host_id, count in sight.members.items()}


def _homes(
    tx: Tx, request: Request, sight: View, group: Row | None, mine: Sequence[Row]
) -> Iterable[str | None]:
    """Where the affinity group might live when it has arrived, or all others were deleted."""
    if group is None or group["policy"] != AFFINITY:
        return [sight.home]
    if len({row["id"] for row in mine if row["playbook"] == "delete"}) == group["members"] - 1:
        return [None]
    return view.places_of_group(tx, group["id"]).values() if group["moving"] and mine else [sight.home]


def _prospect(
    request: Request, sight: View, host: HostView, going: Sequence[Row], mine: Sequence[Row]
) -> Prospect:
    causes: dict[str, list[Row]] = {}
    if capacity(request, host, sight):
        causes["capacity"] = [row for row in going if row["host_id"] == host.id]
    if request.group is not None and request.group.policy == AFFINITY and mine:
        causes["group rule"] = list(mine)
    elif group_rule(request, host, sight):
        causes["group rule"] = [row for row in mine if row["host_id"] == host.id]
    rows = [row for those in causes.values() for row in those]
    return Prospect(
        host,
        frozenset(causes),
        frozenset(row["move_id"] for row in rows),
        frozenset(row["name"] for row in rows),
        room="capacity" in causes,
    )


# -- The same for a whole group -----------------------------------------------------------


def hope_together(tx: Tx, requests: Mapping[str, Request], sight: View, busy: Mapping[str, str]) -> Hope:
    """What a whole group may wait for whose members want this; `busy`: the moves of members that must end
    first, with their servers' names. It keeps its turn for room even where only those are in its way."""
    held = [row for row in occupants.on_the_move(tx) if _may_go(row)]
    going = [row for row in held if not row["waits"]]
    if not queue.waiting(tx, busy):
        if prospects := _prospects_together(requests, sight, going, busy):
            return Hope(prospects)
        if newer := _newer(tx, next(iter(requests.values())), sight):
            return Hope(newer)
    return Hope(circle=bool(_prospects_together(requests, sight, held, busy)))


def _prospects_together(
    requests: Mapping[str, Request], sight: View, going: Sequence[Row], busy: Mapping[str, str]
) -> dict[str, Prospect]:
    freed = replace(sight, supply=sight.supply.with_hosts(_freed(sight, going), {}))
    fits = set(fit_together(requests, sight).tolist())
    found = {}
    for row in fit_together(requests, freed)[:HOSTS_MAX].tolist():
        host = sight.hosts[row]
        there = [] if row in fits else [each for each in going if each["host_id"] == host.id]
        causes = {"capacity"} if there else set()
        found[host.id] = Prospect(
            host,
            frozenset(causes | ({"group rule"} if busy else set())),
            frozenset({each["move_id"] for each in there} | busy.keys()),
            frozenset({each["name"] for each in there} | set(busy.values())),
            room=True,
        )
    return found


def _newer(tx: Tx, request: Request, sight: View) -> dict[str, Prospect]:
    """Hosts that changed since this snapshot: what they hold by now is not known here."""
    numbers = view.generations(tx)
    changed = [host for host in sight.hosts if host.generation > numbers.get(host.id, host.generation)]
    return {host.id: Prospect(host) for host in changed}


# -- What is told of it -------------------------------------------------------------------


def group_waited_for(scene: Scene) -> str | None:
    """The group, for a seat or place of which the server waits. One that waits for its whole group wants
    none that another member could want."""
    ruled = scene.server["rule"] in (ANTI_AFFINITY, AFFINITY) and not scene.move["group_move_id"]
    return scene.server["group_id"] if ruled else None


def waits(scene: Scene, prospects: Mapping[str, Prospect], present: float) -> dict[str, Any]:
    """What is remembered of a move that waits: since when, in words for its owner, and by host for
    operators."""
    causes = Counter(" and ".join(sorted(each.causes)) or "in a moment" for each in prospects.values())
    counted = ", ".join(
        f"{count} {'host' if count == 1 else 'hosts'}: {cause}" for cause, count in sorted(causes.items())
    )
    before = scene.facts.get("waits", {})
    return {
        "since": before.get("since", present),
        "message": f"Waits for a place until others on the move have ended. {counted}",
        "hosts": dict(sorted((each.host.name, str(each)) for each in prospects.values())),
    }


def end(tx: Tx, scene: Scene, trouble: str | None = None) -> Scene:
    """The move waits no longer (for nothing, if there is `trouble`). The caller holds it."""
    waited = scene.facts.get("waits")
    if not waited:
        return scene
    queue.leave(tx, scene.id)
    actions.record(tx, scene.facts["action"], WAITS, since=waited["since"], host=None, details=trouble)
    facts = {name: fact for name, fact in scene.facts.items() if name != "waits"}
    return replace(scene, move={**scene.move, "facts": facts})
