"""The whole surface: one row per method, path and range of versions.

A row names the function, the policy rule and the status of success; where they matter, the
shape of the body and the query parameters that are known. Paths are below `/v2.1`, with or
without a project's id in front. To add a resource: a row here, a file beside this one, a
view.
"""

from __future__ import annotations

from berthold.api import (
    flavors,
    server_groups,
)
from berthold.api.dispatch import Route
from berthold.api.schemas import flavors as flavor
from berthold.api.schemas import server_groups as group

# fmt: off
ROUTES: tuple[Route, ...] = (
    # -- Flavors
    Route("GET", "/flavors", flavors.index, "flavors", query=flavors.QUERY),
    Route("GET", "/flavors/detail", flavors.detail, "flavors", query=flavors.QUERY),
    Route("POST", "/flavors", flavors.create, "os-flavor-manage:create", body=flavor.CREATE),
    Route("GET", "/flavors/{flavor_id}", flavors.show, "flavors"),
    Route("PUT", "/flavors/{flavor_id}", flavors.update, "os-flavor-manage:update", when="2.55",
          body=flavor.UPDATE),
    Route("DELETE", "/flavors/{flavor_id}", flavors.delete, "os-flavor-manage:delete", 202),
    Route("POST", "/flavors/{flavor_id}/action", flavors.action, "os-flavor-access", body=flavor.ACTION),
    Route("GET", "/flavors/{flavor_id}/os-flavor-access", flavors.access, "os-flavor-access"),
    Route("GET", "/flavors/{flavor_id}/os-extra_specs", flavors.specs, "os-flavor-extra-specs:index"),
    Route("POST", "/flavors/{flavor_id}/os-extra_specs", flavors.add_specs, "os-flavor-extra-specs:create",
          body=flavor.SPECS),
    Route("GET", "/flavors/{flavor_id}/os-extra_specs/{key}", flavors.spec, "os-flavor-extra-specs:show"),
    Route("PUT", "/flavors/{flavor_id}/os-extra_specs/{key}", flavors.set_spec,
          "os-flavor-extra-specs:update", body=flavor.SPEC),
    Route("DELETE", "/flavors/{flavor_id}/os-extra_specs/{key}", flavors.delete_spec,
          "os-flavor-extra-specs:delete"),
    # -- Server groups
    Route("GET", "/os-server-groups", server_groups.index, "os-server-groups:index",
          query=server_groups.QUERY),
    Route("POST", "/os-server-groups", server_groups.create, "os-server-groups:create", body=group.CREATE),
    Route("GET", "/os-server-groups/{group_id}", server_groups.show, "os-server-groups:show"),
    Route("DELETE", "/os-server-groups/{group_id}", server_groups.delete, "os-server-groups:delete", 204),
)
# fmt: on
