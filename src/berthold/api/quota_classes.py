"""The quota class `default`: what a new project may use. It is fixed here, so it is shown and not changed."""

from __future__ import annotations

from typing import Any

from berthold.api.call import Call
from berthold.api.limits import Usage, nothing_yet
from berthold.api.quotas import QUOTAS
from berthold.api.schemas.quotas import CLASSES
from berthold.api.views.fields import Field, render
from berthold.errors import NotFound, WrongState

DEFAULT = "default"


def _limit(pair: Any) -> Any:
    return lambda usage, call: pair(usage, call)[0]


LIMITS: list[Field[Usage]] = [
    Field(each.name, _limit(each.value), when=CLASSES.get(each.name, "2.1")) for each in QUOTAS
]


async def show(call: Call, quota_class: str) -> dict[str, Any]:
    """What a new project may use."""
    _must_be_default(quota_class)
    return {"quota_class_set": {"id": quota_class, **_limits(call)}}


async def update(call: Call, quota_class: str) -> dict[str, Any]:
    """Nothing changes: what is asked for may only be what stands."""
    _must_be_default(quota_class)
    standing = _limits(call)
    wish = call.body.quota_class_set
    for name, limit in standing.items():
        if getattr(wish, name) not in (None, limit):
            raise WrongState(
                f"{name}: the default quotas of this cloud are fixed, and this one is {limit}. Set the quota"
                " of a project instead: PUT /os-quota-sets/{project_id}."
            )
    return {"quota_class_set": standing}


def _limits(call: Call) -> dict[str, int]:
    return render(LIMITS, nothing_yet(call.settings), call)


def _must_be_default(quota_class: str) -> None:
    if quota_class != DEFAULT:
        raise NotFound(f"Quota class {quota_class} could not be found: there is one, `{DEFAULT}`.")
