"""Limits and quotas: what a project may use, and what it does."""

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
OTHER_QUOTA = "os_compute_api:os-quota-sets:show:other_project"
QUERY = frozenset({"tenant_id", "reserved"})
QUOTA_QUERY = frozenset({"user_id"})

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


def _pair(what: str) -> Any:
    return lambda usage, call: (usage[f"{what}_max"], usage[what])


def _fixed(limit: int) -> Any:
    return lambda usage, call: (limit, 0)


# Each quota as (limit, in use).
QUOTAS: list[Field[Usage]] = [
    Field("instances", _pair("instances")),
    Field("cores", _pair("cores")),
    Field("ram", _pair("ram")),
    Field("key_pairs", _fixed(keypairs.PER_USER_MAX)),
    Field("metadata_items", _fixed(METADATA_MAX)),
    Field("server_groups", _pair("server_groups")),
    Field("server_group_members", lambda usage, call: (usage["server_group_members_max"], 0)),
    *(
        Field(name, _fixed(-1), when="2.1-2.35")
        for name in ("fixed_ips", "floating_ips", "security_groups", "security_group_rules")
    ),
    *(
        Field(name, _fixed(0), when="2.1-2.56")
        for name in ("injected_files", "injected_file_content_bytes", "injected_file_path_bytes")
    ),
]


async def limits(call: Call) -> dict[str, Any]:
    """The caller's limits; an admin may ask for another project's."""
    project = call.query.text("tenant_id") or call.actor.project_id
    if project != call.actor.project_id:
        call.must(OTHERS)
    return {"limits": {"absolute": render(LIMITS, await _usage(call, project), call), "rate": []}}


async def quota(call: Call, project_id: str) -> dict[str, Any]:
    """What a project may use."""
    _check_project(call, project_id)
    shown = render(QUOTAS, await _usage(call, project_id), call)
    return {"quota_set": {"id": project_id, **{name: limit for name, (limit, _) in shown.items()}}}


async def quota_in_detail(call: Call, project_id: str) -> dict[str, Any]:
    """What it may use and what it does."""
    _check_project(call, project_id)
    shown = render(QUOTAS, await _usage(call, project_id), call)
    details = {name: {"limit": limit, "in_use": used, "reserved": 0} for name, (limit, used) in shown.items()}
    return {"quota_set": {"id": project_id, **details}}


async def defaults(call: Call, project_id: str) -> dict[str, Any]:
    """What a new project may use."""
    shown = render(QUOTAS, _nothing_yet(call.settings), call)
    return {"quota_set": {"id": project_id, **{name: limit for name, (limit, _) in shown.items()}}}


def _check_project(call: Call, project_id: str) -> None:
    if project_id != call.actor.project_id:
        call.must(OTHER_QUOTA)


async def _usage(call: Call, project_id: str) -> Usage:
    row = await call.store.read(reading.project, project_id)
    if row is None:
        return _nothing_yet(call.settings)
    return {
        name: -1 if name.endswith("_max") and value >= quotas.NO_LIMIT else value
        for name, value in row.items()
        if name != "id"
    }


def _nothing_yet(settings: Settings) -> Usage:
    """A project in which nothing was ever made: the default limits, and no use."""
    usage: dict[str, int] = {}
    for what in quotas.COUNTED:
        usage[what] = 0
        usage[f"{what}_max"] = getattr(settings, f"quota_{what}")
    usage["server_group_members_max"] = settings.quota_server_group_members
    return usage
