"""Placing: the scheduler proposes, the ledger grants.

The view may be stale the moment it is read; nothing rests on it. Candidates are offered to
the ledger one by one, best first. One that is refused was lost to somebody quicker: the
next is offered, and when all are lost the view is read again, until a look finds nothing
left to offer. So of racers for one place exactly one wins, and the others end on their next
candidate if there is one (M7).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berthold.errors import NoValidHost, Refused
from berthold.ledger import claims, moves, view
from berthold.ledger.store import Store, Tx
from berthold.moves import steps, turns
from berthold.moves.playbook import Place, Scene
from berthold.moves.turns import Outcome
from berthold.scheduler.candidates import Refusal, rank
from berthold.scheduler.explain import no_valid_host
from berthold.scheduler.request import GroupWish, Request
from berthold.scheduler.view import HostView, Inventory, View
from berthold.settings import Settings

LOOKS = 10


async def place(store: Store, lease: moves.Lease, scene: Scene, line: Place, settings: Settings) -> Outcome:
    """Claim a host for the move's server. Raises `NoValidHost` with a reason for every host."""
    resources = steps.resources_of(steps.new_flavor(scene))
    refused: dict[str, Refusal] = {}
    for _ in range(LOOKS):
        request, sight = await store.read(survey, scene, line, settings)
        ranking = rank(request, sight, store.clock.chance())
        refused = dict(ranking.refused)
        for host in ranking.candidates:
            want = claims.Want(scene.server["id"], host.id, resources, scene.id, host.epoch)
            try:
                return await store.write(turns.place_line, lease, want)
            except Refused as refusal:
                refused[host.name] = Refusal(
                    refusal.rule, CAUSES.get(refusal.rule, "already refused"), refusal.why
                )
        if not ranking.candidates:
            break
    raise _nowhere(scene, refused)


# The class of cause of what the ledger refuses, in the scheduler's words.
CAUSES: Mapping[str, str] = {"C1": "capacity", "G1": "group rule", "G2": "group rule", "M5": "host state"}


def _nowhere(scene: Scene, refused: Mapping[str, Refusal]) -> NoValidHost:
    message, reasons = no_valid_host(refused)
    if last := scene.move["failure"].get("message"):
        message = f"{message}. The last host that was tried said: {last}"
    return NoValidHost(message, reasons)


def survey(tx: Tx, scene: Scene, line: Place, settings: Settings) -> tuple[Request, View]:
    """What is wanted, and the hosts as they are."""
    server = scene.server
    group = view.group_of(tx, server["group_id"])
    wish = None
    if group is not None:
        wish = GroupWish(group["id"], group["name"], group["policy"], group["per_host"])
    request = Request(
        resources=steps.resources_of(steps.new_flavor(scene)),
        server_id=server["id"],
        project_id=server["project_id"],
        group=wish,
        host=scene.wish.get("host"),
        source=None if _may_stay(scene, line, settings) else scene.move["source_id"],
        ignore=dict(scene.facts.get("tried", {})),
        zone=server["zone"],
    )
    return request, View(
        tuple(_host(row) for row in view.hosts(tx, server, settings.silent_after_s)), _home(tx, server, group)
    )


def _may_stay(scene: Scene, line: Place, settings: Settings) -> bool:
    """Whether the server's own host is a candidate: a migration is one because it leaves."""
    return not line.leaves_source or (settings.resize_on_same_host and scene.move["kind"] == "resize")


def _home(tx: Tx, server: Mapping[str, Any], group: Mapping[str, Any] | None) -> str | None:
    """Where an affinity group's members must be; a lone member may choose anew."""
    if group is None or group["policy"] != "affinity" or group["members"] == 1:
        return None
    return view.home_of_group(tx, group["id"])


def _host(row: view.HostRow) -> HostView:
    return HostView(
        id=row.id,
        name=row.name,
        status=row.status,
        disabled=row.disabled,
        heard=row.heard,
        epoch=row.epoch,
        zone=row.zone,
        traits=row.traits,
        capacity={
            name: Inventory(i["capacity"], i["used"], i["min_unit"], i["max_unit"], i["step_size"])
            for name, i in row.inventories.items()
        },
        members=row.members,
        own=row.own,
    )
