"""Quota sets: what a project may use and what it does, and what an operator says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berthold.api.call import Call
from berthold.api.limits import Usage, nothing_yet, usage_of
from berthold.api.schemas.quotas import OF_FILES, OF_NETWORKS, QuotaChange
from berthold.api.schemas.servers import METADATA_MAX
from berthold.api.views.fields import Field, render
from berthold.errors import Malformed
from berthold.ledger import quotas
from berthold.ledger.store import Tx
from berthold.records import keypairs

OTHERS = "os_compute_api:os-quota-sets:show:other_project"
QUERY = frozenset({"user_id"})


def _pair(what: str) -> Any:
    return lambda usage, call: (usage[f"{what}_max"], usage[what])


def _fixed(limit: int) -> Any:
    return lambda usage, call: (limit, 0)


# What is the same for every project.
FIXED: Mapping[str, int] = {
    "key_pairs": keypairs.PER_USER_MAX,
    "metadata_items": METADATA_MAX,
    **dict.fromkeys(OF_NETWORKS, -1),
    **dict.fromkeys(OF_FILES, 0),
}
# Each quota as (limit, in use).
QUOTAS: list[Field[Usage]] = [
    Field("instances", _pair("instances")),
    Field("cores", _pair("cores")),
    Field("ram", _pair("ram")),
    Field("key_pairs", _fixed(FIXED["key_pairs"])),
    Field("metadata_items", _fixed(FIXED["metadata_items"])),
    Field("server_groups", _pair("server_groups")),
    Field("server_group_members", lambda usage, call: (usage["server_group_members_max"], 0)),
    *(Field(name, _fixed(FIXED[name]), when="2.1-2.35") for name in OF_NETWORKS),
    *(Field(name, _fixed(FIXED[name]), when="2.1-2.56") for name in OF_FILES),
]


async def show(call: Call, project_id: str) -> dict[str, Any]:
    """What a project may use."""
    return {"quota_set": {"id": project_id, **_limits(await _usage(call, project_id), call)}}


async def detail(call: Call, project_id: str) -> dict[str, Any]:
    """What it may use and what it does."""
    shown = render(QUOTAS, await _usage(call, project_id), call)
    details = {name: {"limit": limit, "in_use": used, "reserved": 0} for name, (limit, used) in shown.items()}
    return {"quota_set": {"id": project_id, **details}}


async def defaults(call: Call, project_id: str) -> dict[str, Any]:
    """What a new project may use. Anybody may ask, so nobody learns by it which projects there are."""
    if call.may(OTHERS):
        await call.must_be_a_project(project_id)
    return {"quota_set": {"id": project_id, **_limits(nothing_yet(call.settings), call)}}


async def update(call: Call, project_id: str) -> dict[str, Any]:
    """Other limits for a project. Below what it uses only by `force`, and then it only stops growing."""
    if call.query.text("user_id") is not None:
        raise Malformed("user_id: this cloud has limits for projects, not for single users in them.")
    await call.must_be_a_project(project_id)
    await call.store.write(_update, call, project_id, call.body.quota_set)
    return {"quota_set": _limits(await usage_of(call, project_id), call)}


async def delete(call: Call, project_id: str) -> None:
    """The default limits again; of a project that was removed, too."""
    await call.store.write(_reset, call, project_id)


def _limits(usage: Usage, call: Call) -> dict[str, int]:
    return {name: limit for name, (limit, _) in render(QUOTAS, usage, call).items()}


async def _usage(call: Call, project_id: str) -> Usage:
    if project_id != call.actor.project_id:
        call.must(OTHERS)
        await call.must_be_a_project(project_id)
    return await usage_of(call, project_id)


def _update(tx: Tx, call: Call, project_id: str, wish: QuotaChange) -> None:
    for name, limit in FIXED.items():
        if getattr(wish, name) not in (None, limit):
            raise Malformed(f"{name}: this limit is the same for every project, {limit}.")
    limits = {name: limit for name in quotas.LIMITED if (limit := getattr(wish, name)) is not None}
    quotas.ensure_project(tx, project_id, call.settings)
    used = quotas.of(tx, project_id)
    for name, limit in limits.items():
        if not wish.force and -1 < limit < used[name].used:
            raise Malformed(
                f"Quota limit {limit} for {name} must be greater than or equal to already used and"
                f" reserved {used[name].used}."
            )
    if limits:
        quotas.set_limits(tx, project_id, **limits)


def _reset(tx: Tx, call: Call, project_id: str) -> None:
    if quotas.of(tx, project_id):
        limits = {name: getattr(call.settings, f"quota_{name}") for name in quotas.LIMITED}
        quotas.set_limits(tx, project_id, **limits)
