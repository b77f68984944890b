"""Claims: the reservation that is the check.

`take` grants a list of (server, host, resources) in the caller's transaction, all or
nothing: capacity (C1), seat or place (G1, G2), claim and history are written together.
It looks at nothing first; guarded updates and constraints judge. A refusal names its
promise and ends the transaction, so every table stays as it was.

Locks are taken in one order: move (by the caller), group, server, hosts by id, inventory,
seat or place, then the inserts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, delete, select, update

from berthold.ledger import history, hosts, inventories, queue, schema, seats
from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Tx, clock_of

claim = schema.claim
host = schema.host

INSERT = Prepared(claim.insert())
SET_ROLE = Prepared(update(claim).where(claim.c.id == bindparam("claim")).values(role=bindparam("as")))
ONE = Prepared(select(claim).where(claim.c.id == bindparam("claim")))
REMOVE = Prepared(delete(claim).where(claim.c.id == bindparam("claim")))
END_RULE = Prepared(
    update(claim)
    .where(claim.c.server_id == bindparam("server"))
    .values(group_id=None, domain=None, place=None)
)
# Where a claim keeps what it takes of each resource class; there are no others that servers need.
AMOUNTS = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "disk_gb"}
STANDING = Prepared(select(claim).where(claim.c.server_id == bindparam("server"), claim.c.role != "left"))
OF_SERVER = (
    select(
        claim.c.id,
        claim.c.server_id,
        claim.c.host_id,
        host.c.name,
        host.c.status,
        claim.c.role,
        claim.c.move_id,
    )
    .select_from(claim.join(host, claim.c.host_id == host.c.id))
    .where(claim.c.server_id == bindparam("server"))
    .order_by(claim.c.host_id, claim.c.id)
)
FIND_OF_SERVER = Prepared(OF_SERVER)


@dataclass(frozen=True)
class Want:
    """One claim to take. `host_epoch` is what the asker's view of the host saw, if it had one, and
    `group_generation` what its ranking saw of a soft group (G3); `gave_way`: it has ranked too often in vain.
    `group_move`: the whole-group move that it belongs to, which the group's row names already. `ticket`: its
    number in the queue, None for the last; `patient`: whether it would wait for room (M7)."""

    server_id: str
    host_id: str
    resources: Mapping[str, int]
    move_id: str | None = None
    host_epoch: int | None = None
    role: str = "target"
    group_generation: int | None = None
    gave_way: bool = False
    group_move: str | None = None
    ticket: int | None = None
    patient: bool = False


@dataclass(frozen=True)
class Claim:
    """A standing claim, with its host's name and status."""

    id: str
    server_id: str
    host_id: str
    host_name: str
    host_status: str
    role: str
    move_id: str | None


def take(tx: Tx, wants: Sequence[Want]) -> list[str]:
    """Claim every want or none; the claims' ids, in the order of `wants`.

    Raises `Refused` with the promise that would be broken: C1, G1, G2, G3, M7, or M5 where the host
    may not be given anything. The transaction must end with it.
    """
    members = {want.server_id: seats.member_of(tx, want.server_id) for want in wants}
    chosen: set[str] = set()
    for want in sorted(wants, key=lambda want: members[want.server_id].group_id or ""):
        _enter_group(tx, members[want.server_id], want, chosen)
    locked = {
        host_id: hosts.lock(tx, host_id, epoch=epoch)
        for host_id, epoch in sorted({(want.host_id, want.host_epoch) for want in wants}, key=str)
    }
    for want in wants:
        _let_others_go_first(tx, members[want.server_id], want, locked[want.host_id].name)
    for want in wants:
        inventories.use(tx, want.host_id, want.resources)
    for want in wants:
        member = members[want.server_id]
        if rule := seats.RULES.get(member.rule):
            rule(tx, member, want.host_id, locked[want.host_id].name)
    # After this point it must succeed.
    return [_write(tx, want, members[want.server_id], locked[want.host_id]) for want in wants]


def _enter_group(tx: Tx, member: seats.Member, want: Want, chosen: set[str]) -> None:
    """G2 needs the group's row held, and a member with a home elsewhere to be the whole group; G3 that
    nobody has chosen since the ranking."""
    if member.rule in seats.SOFT and member.group not in chosen:
        seats.choose(tx, member, want.group_generation)
        chosen.add(member.group)  # members that are claimed together were ranked together
    if member.rule != "affinity" or "affinity" not in seats.RULES:
        return
    if want.group_move:
        seats.enter(tx, member.group, want.group_move)
        return
    standing = (
        select(host.c.id, host.c.status)
        .select_from(claim.join(host, claim.c.host_id == host.c.id))
        .where(claim.c.server_id == want.server_id, claim.c.role != "left", claim.c.host_id != want.host_id)
    )
    elsewhere = tx.execute(standing).first()
    flight = seats.flight_from(elsewhere.id) if elsewhere else None
    moving_for = seats.enter(tx, member.group, want.move_id, flight)
    if elsewhere is None or flight is None or moving_for == flight:
        return
    if elsewhere.status == "fenced":
        seats.begin_moving(tx, member.group, flight)
    else:
        seats.begin_moving(tx, member.group, want.move_id or want.server_id, members=1)


def _let_others_go_first(tx: Tx, member: seats.Member, want: Want, host_name: str) -> None:
    """M7: nobody overtakes who waits for a place of the same group, nor the patient who waits for room."""
    group_id = member.group_id if member.rule in seats.RULES and not want.group_move else None
    if group_id or want.patient:
        queue.let_go_first(tx, want.host_id, host_name, want.ticket, group_id, patient=want.patient)


def _write(tx: Tx, want: Want, member: seats.Member, locked: hosts.Locked) -> str:
    new = clock_of(tx).new_id()
    amounts = columns_of(want.resources)
    assert amounts is not None, f"a claim keeps no account of one of {sorted(want.resources)}"
    follows = member.rule if member.rule in seats.RULES else None
    told = member.rule
    if follows == "affinity" and want.group_move:
        told = seats.WHOLE
    elif follows == "affinity" and seats.is_fleeing(tx, member.group):
        told = seats.FLEEING
    INSERT.change(
        tx,
        {
            "id": new,
            "server_id": want.server_id,
            "host_id": want.host_id,
            "host_epoch": locked.epoch,
            "move_id": want.move_id,
            "role": want.role,
            "rule": member.rule,
            "group_id": member.group_id,
            "domain": want.host_id if follows == "anti-affinity" else None,
            "place": want.host_id if follows == "affinity" else None,
            **amounts,
        },
    )
    inventories.raise_generation(tx, want.host_id)
    history.record(
        tx,
        "claimed",
        claim_id=new,
        server_id=want.server_id,
        host_id=want.host_id,
        move_id=want.move_id,
        group_id=member.group_id,
        policy=told,
        per_host=member.per_host,
        amounts=want.resources,
    )
    return new


def release(tx: Tx, claim_id: str, is_gone: Callable[[], bool] | None = None) -> bool:
    """Give a claim up, with all it held; whether there was one (a repeated release does nothing).

    `is_gone` is asked only if the host's epoch has passed on since the claim was taken: if it says no,
    the claim stays (M1).
    """
    row = ONE.mapping(tx, {"claim": claim_id})
    if row is None:
        return False
    if row["place"] or row["rule"] in seats.SOFT:
        seats.hold(tx, row["group_id"])
    locked = hosts.lock(tx, row["host_id"], must_be_up=False)
    if is_gone is not None and locked.epoch != row["host_epoch"] and not is_gone():
        return False
    if not REMOVE.change(tx, {"claim": claim_id}):
        return False
    inventories.give_back(tx, row["host_id"], resources_of(row))
    inventories.raise_generation(tx, row["host_id"])
    if row["group_id"]:
        seats.leave(tx, row["group_id"], row["domain"], row["place"], row["server_id"])
    _tell(tx, "freed", dict(row))
    return True


def columns_of(resources: Mapping[str, int]) -> dict[str, int] | None:
    """What a claim of these takes, as its columns say it; None if there is one that it has no column for."""
    if not resources.keys() <= AMOUNTS.keys():
        return None
    return {column: resources.get(name, 0) for name, column in AMOUNTS.items()}


def resources_of(row: Mapping[str, Any]) -> dict[str, int]:
    """What the claim of that row takes, by resource class."""
    return {name: row[column] for name, column in AMOUNTS.items() if row[column]}


def switch_home(tx: Tx, server_id: str) -> None:
    """M2: the server's target becomes its home and its home the source, in this one transaction.

    Called again for a revert it goes back: the source becomes the home, the home the target.
    """
    roles = {row["role"]: row for row in standing_rows(tx, server_id)}
    arriving = roles.get("target") or roles.get("source")
    assert arriving, f"server {server_id} has nowhere to switch to"
    if "home" in roles:
        behind = "source" if arriving["role"] == "target" else "target"
        # Two statements, since the unique index is judged row by row.
        _set_role(tx, arriving["id"], "left")
        _set_role(tx, roles["home"]["id"], behind)
    _set_role(tx, arriving["id"], "home")
    _tell(tx, "home", arriving)


def leave_behind(tx: Tx, claim_id: str) -> None:
    """The claim waits on a fenced host: it keeps capacity and seat and gives up the affinity place."""
    row = ONE.mapping(tx, {"claim": claim_id})
    assert row is not None, f"there is no claim {claim_id}"
    if row["place"]:
        seats.hold(tx, row["group_id"])
    hosts.lock(tx, row["host_id"], must_be_up=False)
    tx.execute(update(claim).where(claim.c.id == claim_id).values(role="left", place=None))
    if row["place"]:
        seats.leave(tx, row["group_id"], None, row["place"], row["server_id"])
    _tell(tx, "left", dict(row))


def end_rule(tx: Tx, group_id: str, members: Sequence[str], *, all_gone: bool = False) -> None:
    """The claims of these members of the group follow no rule any more; `all_gone`: nobody's do.

    The caller has taken the group off the servers (the claims' `rule` follows by cascade), after
    `groups.defer_membership`, in the same transaction.
    """
    for server_id in members:
        END_RULE.change(tx, {"server": server_id})
    seats.clear(tx, group_id, None if all_gone else members)


def of_server(tx: Tx, server_id: str) -> list[Claim]:
    """Every claim of the server."""
    return [Claim(*row) for row in FIND_OF_SERVER.rows(tx, {"server": server_id})]


def home_of(tx: Tx, server_id: str) -> Claim | None:
    """The claim of the server on its home (M2); None if it has none."""
    return next((claim for claim in of_server(tx, server_id) if claim.role == "home"), None)


def find(tx: Tx, claim_id: str) -> Claim | None:
    """The claim of that id, if it stands."""
    row = ONE.mapping(tx, {"claim": claim_id})
    if row is None:
        return None
    return next((each for each in of_server(tx, row["server_id"]) if each.id == claim_id), None)


def left_on(tx: Tx, host_id: str) -> list[Claim]:
    """What servers have left behind on the host."""
    left = select(claim.c.id).where(claim.c.host_id == host_id, claim.c.role == "left").order_by(claim.c.id)
    found = [find(tx, each) for each in tx.execute(left).scalars()]
    return [each for each in found if each is not None]


def standing_rows(tx: Tx, server_id: str) -> Sequence[Mapping[str, Any]]:
    """The server's claims that are not left behind, as rows."""
    return STANDING.mappings(tx, {"server": server_id})


def _set_role(tx: Tx, claim_id: str, role: str) -> None:
    SET_ROLE.change(tx, {"claim": claim_id, "as": role})


def _tell(tx: Tx, event: str, row: Mapping[str, Any]) -> None:
    history.record(
        tx,
        event,
        claim_id=row["id"],
        server_id=row["server_id"],
        host_id=row["host_id"],
        move_id=row["move_id"],
        group_id=row["group_id"],
        policy=row["rule"],
    )
