"""Limits: what a project may use and does, in one answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berthold.api.call import Call
from berthold.api.schemas.servers import METADATA_MAX
from berthold.api.views.fields import Field, constant, render
from berthold.ledger import quotas, reading
from berthold.records import keypairs
from berthold.settings import Settings

OTHERS = "os_compute_api:limits:other_project"
QUERY = frozenset({"tenant_id", "reserved"})

Usage = Mapping[str, Any]


def _of(key: str) -> Any:
    return lambda usage, call: usage[key]


LIMITS: list[Field[Usage]] = [
    Field("maxTotalInstances", _of("instances_max")),
    Field("maxTotalCores", _of("cores_max")),
    Field("maxTotalRAMSize", _of("ram_max")),
    Field("maxTotalKeypairs", constant(keypairs.PER_USER_MAX)),
    Field("maxServerMeta", constant(METADATA_MAX)),
    Field("maxServerGroups", _of("server_groups_max")),
    Field("maxServerGroupMembers", _of("server_group_members_max")),
    Field("maxImageMeta", constant(128), when="2.1-2.38"),
    Field("maxPersonality", constant(0), when="2.1-2.56"),
    Field("maxPersonalitySize", constant(0), when="2.1-2.56"),
    Field("maxSecurityGroups", constant(-1), when="2.1-2.35"),
    Field("maxSecurityGroupRules", constant(-1), when="2.1-2.35"),
    Field("maxTotalFloatingIps", constant(-1), when="2.1-2.35"),
    Field("totalInstancesUsed", _of("instances")),
    Field("totalCoresUsed", _of("cores")),
    Field("totalRAMUsed", _of("ram")),
    Field("totalServerGroupsUsed", _of("server_groups")),
    Field("totalSecurityGroupsUsed", constant(0), when="2.1-2.35"),
    Field("totalFloatingIpsUsed", constant(0), when="2.1-2.35"),
]


async def limits(call: Call) -> dict[str, Any]:
    """The caller's limits; an admin may ask for another project's."""
    project = call.query.text("tenant_id") or call.actor.project_id
    if project != call.actor.project_id:
        call.must(OTHERS)
    return {"limits": {"absolute": render(LIMITS, await usage_of(call, project), call), "rate": []}}


async def usage_of(call: Call, project_id: str) -> Usage:
    """What a project uses and may use; -1 is no limit."""
    row = await call.store.read(reading.project, project_id)
    if row is None:
        return nothing_yet(call.settings)
    return {
        name: -1 if name.endswith("_max") and value >= quotas.NO_LIMIT else value
        for name, value in row.items()
        if name != "id"
    }


def nothing_yet(settings: Settings) -> Usage:
    """A project in which nothing was ever made: the default limits, and no use."""
    usage: dict[str, int] = {}
    for what in quotas.COUNTED:
        usage[what] = 0
        usage[f"{what}_max"] = getattr(settings, f"quota_{what}")
    usage["server_group_members_max"] = settings.quota_server_group_members
    return usage
