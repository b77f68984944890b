"""Why a server can or cannot be placed, host by host: the scheduler asked once more, for an answer.

The request and the view are those that placing makes (`placing.survey`), so what is said here is
what a move that began now would meet. Nothing is claimed and nothing kept: the next moment may be
another.

An explanation is two transactions: `scene_of_server` first, `look` in the next, since a watch
must be looked at before anything else is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from berthold.ledger import claims, occupants, reading, schema, seats, view
from berthold.ledger.store import Tx
from berthold.moves import placing, waiting
from berthold.moves.books import PLAYBOOKS
from berthold.moves.explained import Against, HostSaid, Look
from berthold.moves.playbook import Place, Playbook, Scene
from berthold.moves.watch import Watch
from berthold.scheduler import unblock
from berthold.scheduler.candidates import Refusal, refusals
from berthold.scheduler.request import AFFINITY
from berthold.scheduler.unblock import Case, Occupant
from berthold.settings import Settings

Row = Mapping[str, Any]

# Which playbook a kind of move that chooses a host begins with.
BEGINS: Mapping[str, str] = {"migration": "resize"}
# These may end with the server on another host, or on none.
LEAVES = waiting.LEAVES_HOME | waiting.GIVES_HOME_BACK


@dataclass(frozen=True)
class Asked:
    """Whose place is asked for: the scene of a move that may not have begun, and its `Place`. `joins`:
    a further member of the group, which is not made yet."""

    scene: Scene
    line: Place
    joins: bool = False

    @property
    def kind(self) -> str:
        kind: str = self.scene.move["kind"]
        return kind

    @property
    def after(self) -> str | None:
        """The move that must end before this one can begin (M3)."""
        standing: Row | None = self.scene.server.get("move")
        return standing["id"] if standing and standing["id"] != self.scene.id else None


def place_of(book: Playbook) -> Place | None:
    """The line at which a playbook chooses a host for its server, if it does."""
    return next((line for line in book.lines if isinstance(line, Place) and not line.whole), None)


# -- Who asks -----------------------------------------------------------------------------


def scene_of_server(tx: Tx, server: reading.Row) -> Asked:
    """The server with the move that it would make if it were moved (or placed) now; `server` as
    `reading.server_of` gives it. One whose move has yet to choose its host has that one."""
    move = server["move"]
    if move is not None and move["state"] == "running" and move["target_id"] is None:
        line = place_of(PLAYBOOKS[move["playbook"]])
        if line is not None:
            return Asked(Scene(move, server, _claims(tx, server)), line)
    return as_if(tx, server, kind_for(server))


def as_if(tx: Tx, server: reading.Row, kind: str, wish: Mapping[str, Any] | None = None) -> Asked:
    """The server, as if a move of this kind began for it now."""
    home = server["host"]
    source = home["id"] if home and kind not in ("create", "unshelve") else None
    line = place_of(PLAYBOOKS[BEGINS.get(kind, kind)])
    assert line is not None, f"a {kind} chooses no host"
    return Asked(Scene(_not_begun(kind, source, wish or {}), server, _claims(tx, server)), line)


def kind_for(server: reading.Row) -> str:
    """How a server in this state would come to another host."""
    if server["host"] is None:
        return "unshelve" if server["condition"] == "shelved_offloaded" else "create"
    if server["host"]["status"] == "fenced":
        return "evacuation"
    return "live-migration" if server["condition"] == "active" else "migration"


def further_member(tx: Tx, group: reading.Row) -> Asked:
    """A server that would join the group: as large as the member that was made last."""
    flavor: Mapping[str, Any] = {"vcpus": 0, "ram": 0}
    if group["member_ids"]:
        flavor = reading.server_of(tx, group["member_ids"][-1], None)["flavor"]
    server = {
        **dict.fromkeys(schema.server.c.keys()),
        **{"id": "", "project_id": group["project_id"], "group_id": group["id"], "flavor": flavor},
        **{"hints": {}, "details": {}, "condition": "building"},
    }
    line = place_of(PLAYBOOKS["create"])
    assert line is not None
    return Asked(Scene(_not_begun("create", None, {}), server, ()), line, joins=True)


def _not_begun(kind: str, source_id: str | None, wish: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a move that is only thought of."""
    return {
        **dict.fromkeys(schema.move.c.keys()),
        **{"id": "", "number": None, "kind": kind, "playbook": BEGINS.get(kind, kind), "state": "running"},
        **{"line": 0, "attempt": 0, "source_id": source_id, "wish": dict(wish), "facts": {}, "failure": {}},
    }


def _claims(tx: Tx, server: reading.Row) -> tuple[claims.Claim, ...]:
    return tuple(claims.of_server(tx, server["id"]))


# -- What each host says ------------------------------------------------------------------


def look(tx: Tx, asked: Asked, settings: Settings, watch: Watch) -> Look:
    """Every host as it is now, with all that is against it. Call it first in `tx`."""
    sight = placing.survey(tx, asked.scene, asked.line, settings, watch, True)
    request, seen = sight.request, sight.view
    group = view.group_of(tx, asked.scene.server["group_id"])
    if asked.joins and group and group["policy"] == AFFINITY:
        seen = replace(seen, home=view.places_of_group(tx, group["id"]).get("home"))
    me = asked.scene.server["id"]
    members = _by_host(row for row in _members(tx, group) if row["id"] != me)
    moving = _by_host(occupants.on_the_move(tx, me))
    closed = unblock.group_is_moving(request) if group and _is_closed(group, asked.scene) else None
    hosts = []
    for host in seen.hosts:
        at = seen.home if request.group and request.group.policy == AFFINITY else host.id
        leaving = [each for each in moving[host.id] if each.leaves or each.role == "source"]
        case = Case(request, seen, host, members[at], leaving)
        refused = _that_matter([*refusals(request, host, seen), *([closed] if closed else [])])
        hosts.append(_said(case, refused, seen.members.get(host.id, 0)))
    return Look(asked.kind, tuple(hosts), asked.after)


def _that_matter(refused: list[Refusal]) -> list[Refusal]:
    """Of the host that a move leaves nothing else needs to be said."""
    return [each for each in refused if each.filter == "source host"] or refused


def _members(tx: Tx, group: Row | None) -> Sequence[Row]:
    return occupants.of_group(tx, group["id"]) if group else []


def _by_host(rows: Iterable[Row]) -> Mapping[str | None, list[Occupant]]:
    found: dict[str | None, list[Occupant]] = defaultdict(list)
    for row in rows:
        found[row["host_id"]].append(occupant(row))
    return found


def occupant(row: Row) -> Occupant:
    """A claim with its server's unfinished move, as the scheduler speaks of it."""
    return Occupant(
        row["id"],
        row["name"],
        row["role"],
        row.get("resources"),
        row["move_id"],
        row["kind"],
        parked=row["state"] == "waiting",
        leaves=row["playbook"] in LEAVES,
    )


def _is_closed(group: Row, scene: Scene) -> bool:
    """G2: whether an affinity group is on its way for something else than this move; then the ledger
    lets nobody in."""
    if group["policy"] != AFFINITY or group["moving"] is None:
        return False
    flight = seats.flight_from(scene.move["source_id"]) if scene.move["source_id"] else None
    return group["moving"] not in (scene.id, scene.move.get("group_move_id"), flight)


def _said(case: Case, refused: Sequence[Refusal], members: int) -> HostSaid:
    return HostSaid(case.host.name, tuple(_against(case, each) for each in refused), members)


def _against(case: Case, refusal: Refusal) -> Against:
    blocking = tuple(case.members) if refusal.filter in ("group", "moving") else ()
    return Against(
        refusal.filter,
        refusal.cause,
        refusal.reason,
        unblock.rule_of(refusal),
        blocking,
        tuple(unblock.ways(refusal, case)),
        tuple(unblock.owners_ways(refusal, case.request, blocking)),
    )
