"""A group, domain by domain: who holds seats or its place, what is in flight, and what it moves for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berthold.ledger import moves, occupants, reading, seats, view
from berthold.ledger.store import Tx
from berthold.moves import explain, group_status
from berthold.moves.explained import Domain, GroupSaid
from berthold.scheduler.request import AFFINITY, ANTI_AFFINITY


def said(tx: Tx, group: reading.Row) -> GroupSaid:
    """The group as it stands; `group` as `reading.group` gives it."""
    rows = occupants.of_group(tx, group["id"])
    places = {host_id: role for role, host_id in view.places_of_group(tx, group["id"]).items()}
    domains: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        domains.setdefault(row["host_id"], []).append(row)
    placed = {row["id"] for row in rows}
    everybody, operators = moving(tx, group)
    return GroupSaid(
        group,
        tuple(
            Domain(
                held[0]["host"],
                tuple(explain.occupant(row) for row in held),
                group["per_host"] if group["policy"] == ANTI_AFFINITY else None,
                places.get(host_id) if group["policy"] == AFFINITY else None,
            )
            for host_id, held in domains.items()
        ),
        tuple(each for each in group["member_ids"] if each not in placed),
        everybody,
        operators,
    )


def moving(tx: Tx, group: reading.Row) -> tuple[str, str]:
    """What the group is on its way for: for everybody, and with hosts for operators."""
    what = group["moving"]
    if what is None:
        return "", ""
    if host_id := seats.flown_from(what):
        names = {each: name for name, each in reading.host_names(tx).items()}
        says = "its members are being evacuated"
        return says, f"{says} from {names.get(host_id, host_id)}"
    if move := moves.find(tx, what):
        name = reading.server_of(tx, move["server_id"], None, deleted=True)["name"]
        says = f"for the {move['kind']} of its one member {name} (move {what})"
        return says, says
    whole = group_status.look(tx, group["id"])
    says = f"the whole group moves to another host and is {whole['status']} (group move {what})"
    says_more = f"{says}, from {whole['source']} to {whole['target']}"
    if whole["status"] == "held":
        command = f"berthold group move {group['id']}"
        says_more += f"; it goes on with: {command} --resume, or goes back with: {command} --back"
    return says, says_more
