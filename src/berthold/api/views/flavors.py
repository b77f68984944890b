"""How flavors are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berthold.api.call import Call
from berthold.api.views.fields import Field, column

SPECS_RULE = "os_compute_api:os-flavor-extra-specs:index"

_id = Field[Mapping[str, Any]]("id", column("id"))
_name = Field[Mapping[str, Any]]("name", column("name"))
_links = Field[Mapping[str, Any]]("links", lambda flavor, call: call.links("flavors", flavor["id"]))
_description = Field[Mapping[str, Any]]("description", column("description"), when="2.55")

BRIEF = [_id, _name, _links, _description]

FULL: list[Field[Mapping[str, Any]]] = [
    _id,
    _name,
    Field("ram", column("ram")),
    Field("vcpus", column("vcpus")),
    Field("disk", column("disk")),
    Field("swap", lambda flavor, call: flavor["swap"] or "", when="2.1-2.74"),
    Field("swap", column("swap"), when="2.75"),
    Field("OS-FLV-EXT-DATA:ephemeral", column("ephemeral")),
    Field("OS-FLV-DISABLED:disabled", column("disabled")),
    Field("rxtx_factor", lambda flavor, call: float(flavor["rxtx_factor"])),
    Field("os-flavor-access:is_public", column("is_public")),
    _links,
    _description,
    Field("extra_specs", column("extra_specs"), when="2.61", rule=SPECS_RULE),
]


def access(flavor_id: str, projects: list[str], call: Call) -> dict[str, Any]:
    """Who may use a flavor."""
    return {"flavor_access": [{"flavor_id": flavor_id, "tenant_id": project} for project in projects]}
