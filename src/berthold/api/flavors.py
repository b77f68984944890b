"""Flavors, their extra specs and who may use those that are not public."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from berthold.api.call import Call
from berthold.api.microversions import Version
from berthold.api.query import Page
from berthold.api.views import flavors as views
from berthold.api.views.fields import next_link, render, render_all
from berthold.errors import Malformed, NotFound, WrongState
from berthold.records import flavors

CHECKED = Version(2, 86)
QUERY = frozenset({"limit", "marker", "is_public", "minRam", "minDisk", "sort_key", "sort_dir"})


async def index(call: Call) -> dict[str, Any]:
    """The names."""
    return await _page(call, views.BRIEF)


async def detail(call: Call) -> dict[str, Any]:
    """The flavors in full."""
    return await _page(call, views.FULL)


async def _page(call: Call, fields: Any) -> dict[str, Any]:
    page = call.query.page(call.settings.page_max)
    rows = await call.store.read(
        flavors.page,
        project_id=call.scope,
        # A member sees the public ones and those that its project was given; an admin what it asks for.
        is_public=_publicity(call) if call.is_admin else None,
        min_ram=call.query.number("minRam") or 0,
        min_disk=call.query.number("minDisk") or 0,
        limit=page.limit,
        marker=page.marker,
        sort=call.query.sorting(flavors.SORT_KEYS, "flavorid", "asc")[0],
    )
    return _listed(call, page, rows, fields)


def _publicity(call: Call) -> bool | None:
    if (call.query.text("is_public") or "").lower() == "none":
        return None
    return call.query.flag("is_public", default=True)


def _listed(call: Call, page: Page, rows: list[Any], fields: Any) -> dict[str, Any]:
    document: dict[str, Any] = {"flavors": render_all(fields, rows, call)}
    if links := next_link(call, page, [row["id"] for row in rows]):
        document["flavors_links"] = links
    return document


async def show(call: Call, flavor_id: str) -> dict[str, Any]:
    """One flavor."""
    row = await call.store.read(flavors.get, flavor_id, call.scope)
    return {"flavor": render(views.FULL, row, call)}


async def create(call: Call) -> dict[str, Any]:
    """A new flavor."""
    wish = call.body.flavor
    row = await call.store.write(
        flavors.create,
        id=None if wish.id in (None, "auto") else str(wish.id),
        name=wish.name,
        description=wish.description,
        vcpus=wish.vcpus,
        ram=wish.ram,
        disk=wish.disk,
        ephemeral=wish.ephemeral,
        swap=wish.swap,
        rxtx_factor=str(wish.rxtx_factor),
        is_public=wish.is_public,
    )
    return {"flavor": render(views.FULL, row, call)}


async def update(call: Call, flavor_id: str) -> dict[str, Any]:
    """Write the description; nothing else of a flavor can change."""
    row = await call.store.write(flavors.describe, flavor_id, call.body.flavor.description)
    return {"flavor": render(views.FULL, row, call)}


async def delete(call: Call, flavor_id: str) -> None:
    """Servers that were made with it keep their copy."""
    await call.store.write(flavors.remove, flavor_id)


# -- Extra specs --------------------------------------------------------------------------


async def specs(call: Call, flavor_id: str) -> dict[str, Any]:
    """All extra specs."""
    return {"extra_specs": (await call.store.read(flavors.get, flavor_id, call.scope))["extra_specs"]}


async def spec(call: Call, flavor_id: str, key: str) -> dict[str, Any]:
    """One extra spec."""
    found = (await call.store.read(flavors.get, flavor_id, call.scope))["extra_specs"]
    if key not in found:
        raise NotFound(f"Flavor {flavor_id} has no extra specs with key {key}.")
    return {key: found[key]}


async def add_specs(call: Call, flavor_id: str) -> dict[str, Any]:
    """Add or replace extra specs."""
    specs = {key: str(value) for key, value in call.body.extra_specs.items()}
    _check_traits(call, specs)
    await call.store.write(flavors.add_specs, flavor_id, specs)
    return {"extra_specs": specs}


async def set_spec(call: Call, flavor_id: str, key: str) -> dict[str, Any]:
    """Add or replace one; the body names the same key as the path."""
    if key not in call.body:
        raise Malformed("Request body and URI mismatch: the key in the path is not the one in the body.")
    specs = {key: str(call.body[key])}
    _check_traits(call, specs)
    await call.store.write(flavors.add_specs, flavor_id, specs)
    return specs


def _check_traits(call: Call, specs: Mapping[str, str]) -> None:
    """From 2.86 on a trait is required or forbidden; another word would be a wish that nobody reads."""
    for key, value in specs.items():
        if call.version >= CHECKED and key.startswith("trait:") and value not in ("required", "forbidden"):
            raise Malformed(
                f"Validation failed; {key}: '{value[:60]}' is neither 'required' nor 'forbidden'."
            )


async def delete_spec(call: Call, flavor_id: str, key: str) -> None:
    """Take one away."""
    await call.store.write(flavors.remove_spec, flavor_id, key)


# -- Access -------------------------------------------------------------------------------


async def access(call: Call, flavor_id: str) -> dict[str, Any]:
    """Who may use a flavor that is not public."""
    return views.access(flavor_id, await call.store.read(flavors.projects_of, flavor_id), call)


async def action(call: Call, flavor_id: str) -> dict[str, Any]:
    """Give a project access, or take it away, from one that was removed too."""
    add, remove = call.body.add, call.body.remove
    if (add is UNSET) == (remove is UNSET):
        raise Malformed("Expected exactly one action: addTenantAccess or removeTenantAccess.")
    if remove is not UNSET:
        call.must("os_compute_api:os-flavor-access:remove_tenant_access")
        left = await call.store.write(flavors.revoke, flavor_id, remove.tenant)
        return views.access(flavor_id, left, call)
    call.must("os_compute_api:os-flavor-access:add_tenant_access")
    await call.must_be_a_project(add.tenant)
    row = await call.store.read(flavors.get, flavor_id, None)
    if row["is_public"] and call.version >= Version(2, 7):
        raise WrongState("Can not add access to a public flavor.")
    return views.access(flavor_id, await call.store.write(flavors.grant, flavor_id, add.tenant), call)
