"""A small cloud as rows, and the ledger's words for what the tests do with it.

Hosts are `h0`, `h1` …; servers, groups and moves are called by short ids that are also their
names, so that what a test says is what the tables hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select, update

from berthold.database import metadata
from berthold.ledger import audit, claims, hosts, inventories, moves, quotas, schema, servers
from berthold.ledger.store import Store, Tx, now
from berthold.settings import Settings

FLAVOR = {"vcpus": 1, "ram": 512}
SMALL = {"VCPU": 1, "MEMORY_MB": 512}
PROJECT = "p"


def add_hosts(tx: Tx, /, count: int, **offers: int) -> None:
    """`count` hosts that offer 64 VCPU and 64 GiB, or what `offers` says, at epoch 1."""
    amounts = offers or {"VCPU": 64, "MEMORY_MB": 65536}
    for number in range(count):
        name = f"h{number}"
        inventories.make_provider(tx, name, name)
        tx.execute(
            schema.host.insert().values(
                id=name, name=name, status="up", agent_key=name, created_at=now(tx), updated_at=now(tx)
            )
        )
        inventories.set_inventory(tx, name, {each: {"total": n} for each, n in amounts.items()})


def add_group(tx: Tx, name: str, policy: str, per_host: int = 1, members_max: int = 1000) -> None:
    quotas.ensure_project(tx, PROJECT, Settings())
    quotas.charge(tx, PROJECT, server_groups=1)
    tx.execute(
        schema.server_group.insert().values(
            id=name,
            project_id=PROJECT,
            user_id="u",
            name=name,
            policy=policy,
            per_host=per_host,
            members_max=members_max,
            created_at=now(tx),
        )
    )


def add_server(tx: Tx, name: str, group: str | None = None, condition: str = "shelved_offloaded") -> str:
    """A server that joined `group` and is nowhere. Its row is created by the ledger, then renamed."""
    quotas.ensure_project(tx, PROJECT, Settings())
    made = servers.create(tx, project_id=PROJECT, group_id=group, flavor=FLAVOR, user_id="u", name=name)
    tx.execute(update(schema.server).where(schema.server.c.id == made).values(id=name, condition=condition))
    return name


def add_move(tx: Tx, server: str, kind: str = "live-migration") -> str:
    """An unfinished move of the server that nobody works on yet; its id."""
    servers.hold(tx, server)
    return moves.begin(
        tx,
        server_id=server,
        kind=kind,
        playbook=kind,
        wish={},
        request_id="req-1",
        user_id="u",
        project_id=PROJECT,
    )


def claim(
    tx: Tx, /, server: str, host: str, role: str = "home", resources: Mapping[str, int] = SMALL, **more: Any
) -> str:
    """One claim; its id. Raises what `claims.take` raises."""
    return claims.take(tx, [claims.Want(server, host, resources, role=role, **more)])[0]


def fence_and_leave(tx: Tx, claim_id: str, host: str) -> None:
    """What an evacuation does with the claim on the fenced host."""
    hosts.fence(tx, host)
    claims.leave_behind(tx, claim_id)


def dump(store: Store) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table, to be compared."""

    def rows(tx: Tx) -> dict[str, list[tuple[object, ...]]]:
        return {
            name: sorted((tuple(row) for row in tx.execute(select(table))), key=repr)
            for name, table in metadata.tables.items()
        }

    return store.read_now(rows)


def violations(store: Store, *promises: str) -> list[audit.Violation]:
    """What the audit finds (of these promises, where a test has no moves)."""
    found = store.read_now(audit.audit)
    return [each for each in found if not promises or each.promise in promises]


def events(tx: Tx, server: str) -> list[tuple[str, str | None]]:
    """What the history tells of a server, in order."""
    h = schema.history
    rows = tx.execute(select(h.c.event, h.c.host_id).where(h.c.server_id == server).order_by(h.c.number))
    return [(row.event, row.host_id) for row in rows]


def homes(tx: Tx) -> dict[str, str]:
    """Where each server that has a home lives."""
    c = schema.claim.c
    return {row[0]: row[1] for row in tx.execute(select(c.server_id, c.host_id).where(c.role == "home"))}


def where_claimed(tx: Tx, group: str) -> dict[str, set[str]]:
    """Which members of the group hold a claim on each host."""
    c = schema.claim.c
    found: dict[str, set[str]] = {}
    members = select(schema.server.c.id).where(schema.server.c.group_id == group)
    for row in tx.execute(select(c.host_id, c.server_id).where(c.server_id.in_(members))):
        found.setdefault(row.host_id, set()).add(row.server_id)
    return found
