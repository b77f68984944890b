"""Server groups: a policy, how many members it allows on a host, and who counts as a member.

A server joins a group when it is created and only then. `members` counts from that moment,
placed or not. G4: deleting a group never moves a server and never loses a claim; it only
ends the rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, select, true, update

from berthold.errors import NotFound, Refused
from berthold.ledger import claims, group_moves, history, quotas, schema
from berthold.ledger.store import Tx, clock_of, greatest, now

group = schema.server_group
server = schema.server


def create(
    tx: Tx,
    *,
    project_id: str,
    user_id: str,
    name: str,
    policy: str,
    rules: Mapping[str, Any],
    members_max: int | None = None,
) -> str:
    """A new group; its id. `members_max`: what the project's limit says, unless given.

    Raises `Refused` Q1 when the project has all the groups it may have.
    """
    quotas.charge(tx, project_id, server_groups=1)
    limit = quotas.members_limit(tx, project_id) if members_max is None else quotas.as_number(members_max)
    new = clock_of(tx).new_id()
    tx.execute(
        group.insert().values(
            id=new,
            project_id=project_id,
            user_id=user_id,
            name=name,
            policy=policy,
            per_host=int(rules.get("max_server_per_host", 1)),
            rules=dict(rules),
            members_max=limit,
            created_at=now(tx),
        )
    )
    return new


def join(tx: Tx, group_id: str, *, may_wait: bool = False) -> str:
    """One more member; the group's policy. Raises `NotFound`, `Refused` Q1 (full) or, unless the member may
    wait for its place, G2 (the group moves).

    A member that holds no claim changes nothing for a group that is on its way: G2 is kept by the
    claim, which is refused until the group has arrived (`seats.enter`).
    """
    c = group.c
    row = tx.execute(
        update(group)
        .where(c.id == group_id, c.members < c.members_max, true() if may_wait else c.moving.is_(None))
        .values(members=c.members + 1)
        .returning(c.policy)
    ).first()
    if row is not None:
        policy: str = row.policy
        return policy
    standing = tx.execute(select(c.name, c.moving, c.members_max).where(c.id == group_id)).first()
    if standing is None:
        raise NotFound(f"Instance group {group_id} could not be found.")
    if standing.moving and not may_wait:
        later = "try again when it has arrived, or let the server wait for that"
        raise Refused("G2", f"group {standing.name} is moving; {later}", wait=True)
    raise Refused("Q1", f"Quota exceeded, too many servers in group: {standing.members_max} are allowed")


def part(tx: Tx, group_id: str) -> None:
    """One member less. Whoever calls takes the group off the server in the same transaction."""
    c, limit = group.c, schema.project.c.server_group_members_max
    tx.execute(update(group).where(c.id == group_id).values(members=c.members - 1))
    # Where the limit was lowered below the members, it follows them down (Q1).
    allowed = greatest(
        tx, select(limit).where(schema.project.c.id == c.project_id).scalar_subquery(), c.members
    )
    tx.execute(update(group).where(c.id == group_id, c.members_max > allowed).values(members_max=allowed))


def delete_group(tx: Tx, group_id: str) -> None:
    """End the rule (G4): members and their claims stay where they are, without it. Raises `NotFound`."""
    row = tx.execute(select(group.c.project_id).where(group.c.id == group_id).with_for_update()).first()
    if row is None:
        raise NotFound(f"Instance group {group_id} could not be found.")
    group_moves.scatter(tx, group_id)
    defer_membership(tx)
    freed = tx.execute(
        update(server)
        .where(server.c.group_id == group_id)
        .values(rule="none", group_id=None)  # the claims' rule follows by cascade
        .returning(server.c.id)
    )
    members = sorted(freed.scalars())
    quotas.give_back(tx, row.project_id, server_groups=1)
    claims.end_rule(tx, group_id, members, all_gone=True)
    tx.execute(delete(group).where(group.c.id == group_id))
    for member in members:
        history.record(tx, "ungrouped", server_id=member, group_id=group_id)


def defer_membership(tx: Tx) -> None:
    """Judge at the commit whether claims and seats belong to their servers' groups: a server and
    what rests on it cannot leave the group in one statement."""
    if tx.dialect.name == "postgresql":
        tx.exec_driver_sql("SET CONSTRAINTS claim_group_is_its_servers, g1_seat_of_member DEFERRED")
    else:
        tx.exec_driver_sql("PRAGMA defer_foreign_keys=ON")
