"""A host for a whole group: the scheduler proposes, the ledger grants a place to every member or to none.

As for a single server (`moves/placing.py`) nothing rests on what is looked at; a candidate that was
lost to somebody quicker gives way to the next. But this is done while whoever asked waits: the
answer is a group move that holds all its places, or why there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from berthold.errors import NoValidHost, Refused
from berthold.ledger import claims
from berthold.ledger.store import Store, Tx
from berthold.moves import begin, together, wishes
from berthold.moves.placing import CAUSES, request_of
from berthold.moves.playbook import Place, Scene
from berthold.moves.watch import Watch
from berthold.scheduler.candidates import Refusal
from berthold.scheduler.explain import no_valid_host
from berthold.scheduler.request import Request
from berthold.scheduler.together import rank_together
from berthold.scheduler.view import View
from berthold.settings import Settings

LOOKS = 3  # that found candidates, all of which were lost


async def move_group(
    store: Store, watch: Watch, settings: Settings, group_id: str, by: begin.By, host: str | None = None
) -> str:
    """Move the whole group to the host of that name, or to the best one; the group move's id. Every
    member has its place there when this returns.

    Raises `NotFound`, `Malformed` for a host that cannot be meant, `WrongState` and `Refused` where the
    group cannot move now, `NoValidHost` with the reason of each host.
    """
    refused: Mapping[str, Refusal] = {}
    for look in range(LOOKS):
        requests, sight = await store.read(survey, group_id, by, host, settings, watch, look > 0)
        ranked = rank_together(requests, sight, store.clock.chance())
        lost: dict[str, Refusal] = {}
        for candidate in ranked.ranking:
            try:
                return await store.write(together.begin, group_id, by, candidate.id, candidate.epoch)
            except Refused as refusal:
                if refusal.rule == "G2":
                    raise  # it is the group that cannot move, wherever to
                cause = CAUSES.get(refusal.rule, "already refused")
                lost[candidate.name] = Refusal(refusal.rule, cause, refusal.why)
        refused = {**ranked.refused, **lost}
        if not lost and look:
            break
    raise NoValidHost(*no_valid_host(refused))


def survey(
    tx: Tx,
    group_id: str,
    by: begin.By,
    host: str | None,
    settings: Settings,
    watch: Watch,
    anew: bool = False,
) -> tuple[dict[str, Request], View]:
    """What each member wants, by its name, and the hosts as they are; `anew`, as the database has them."""
    supply = watch.look(tx)
    going = together.departure(tx, group_id, by)
    if host is not None:
        begin.check_host(tx, host, going.source)
    members = frozenset(server["id"] for server in going.servers)
    requests = {
        f"{server['name']} ({server['id']})": _wanted(tx, going, server, host, settings, members)
        for server in going.servers
    }
    # No home: the group as a whole may live anywhere.
    return requests, View(watch.confirm(tx) if anew else supply, heard_since=watch.heard_since)


def _wanted(
    tx: Tx,
    going: together.Departure,
    server: together.Row,
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
