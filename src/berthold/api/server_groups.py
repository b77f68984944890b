"""Server groups: which servers must, or must not, share a host."""

from __future__ import annotations

from typing import Any

from berthold.api.call import Call
from berthold.api.microversions import Version
from berthold.api.schemas.server_groups import NewGroup
from berthold.api.views.fields import render, render_all
from berthold.api.views.server_groups import FIELDS
from berthold.errors import Malformed
from berthold.ledger import groups, quotas, reading
from berthold.ledger.store import Tx

QUERY = frozenset({"all_projects", "limit", "offset"})


async def index(call: Call) -> dict[str, Any]:
    """The project's groups; for an admin who says so, everybody's."""
    everybody = call.query.text("all_projects") is not None and call.may(
        "os_compute_api:os-server-groups:index:all_projects"
    )
    rows = await call.store.read(
        reading.groups,
        project_id=None if everybody else call.actor.project_id,
        limit=call.query.page(call.settings.page_max).limit,
        offset=call.query.number("offset") or 0,
    )
    return {"server_groups": render_all(FIELDS, rows, call)}


async def show(call: Call, group_id: str) -> dict[str, Any]:
    """One group with its members."""
    return {"server_group": render(FIELDS, await call.store.read(reading.group, group_id, call.scope), call)}


async def create(call: Call) -> dict[str, Any]:
    """A new group without members."""
    wish: NewGroup = call.body.server_group
    policy = wish.policy or (wish.policies or ["anti-affinity"])[0]
    if policy.startswith("soft-") and call.version < Version(2, 15):
        raise Malformed(f"Invalid input for field policies: '{policy}' needs microversion 2.15 or later.")
    if wish.rules.max_server_per_host is not None and policy != "anti-affinity":
        raise Malformed("Only anti-affinity policy supports rules.")
    return {"server_group": render(FIELDS, await call.store.write(_create, call, wish.name, policy), call)}


def _create(tx: Tx, call: Call, name: str, policy: str) -> Any:
    per_host = call.body.server_group.rules.max_server_per_host
    quotas.ensure_project(tx, call.actor.project_id, call.settings)
    new = groups.create(
        tx,
        project_id=call.actor.project_id,
        user_id=call.actor.user_id,
        name=name,
        policy=policy,
        rules={"max_server_per_host": per_host} if per_host else {},
    )
    return reading.group(tx, new, call.actor.project_id)


async def delete(call: Call, group_id: str) -> None:
    """The rule ends; its members and where they are stay as they were (G4)."""
    await call.store.write(_delete, group_id, call.scope)


def _delete(tx: Tx, group_id: str, project_id: str | None) -> None:
    reading.group(tx, group_id, project_id)
    groups.delete_group(tx, group_id)
