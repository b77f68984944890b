"""The whole surface: one row per method, path and range of versions.

A row names the function, the policy rule and the status of success; where they matter, the
shape of the body and the query parameters that are known. Paths are below `/v2.1`, with or
without a project's id in front. To add a resource: a row here, a file beside this one, a
view.
"""

from __future__ import annotations

from berthold.api import (
    aggregates,
    flavors,
    hypervisors,
    instance_actions,
    keypairs,
    limits,
    migrations,
    server_actions,
    server_create,
    server_filters,
    server_groups,
    server_metadata,
    servers,
    services,
)
from berthold.api.dispatch import Route
from berthold.api.schemas import actions as action
from berthold.api.schemas import aggregates as aggregate
from berthold.api.schemas import flavors as flavor
from berthold.api.schemas import keypairs as keypair
from berthold.api.schemas import server_groups as group
from berthold.api.schemas import servers as server
from berthold.api.schemas import services as service

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
    # -- Servers
    Route("GET", "/servers", servers.index, "servers:index", query=server_filters.QUERY),
    Route("GET", "/servers/detail", servers.detail, "servers:detail", query=server_filters.QUERY),
    Route("POST", "/servers", server_create.create, "servers:create", 202, body=server.CREATE),
    Route("GET", "/servers/{server_id}", servers.show, "servers:show"),
    Route("PUT", "/servers/{server_id}", servers.update, "servers:update", body=server.UPDATE),
    Route("DELETE", "/servers/{server_id}", servers.delete, "servers:delete", 204),
    # Each action has a rule of its own, in `server_actions.ACTIONS`.
    Route("POST", "/servers/{server_id}/action", server_actions.act, "servers:show", 202, body=action.ANY),
    Route("GET", "/servers/{server_id}/metadata", server_metadata.index, "server-metadata:index"),
    Route("POST", "/servers/{server_id}/metadata", server_metadata.add, "server-metadata:create",
          body=server.METADATA),
    Route("PUT", "/servers/{server_id}/metadata", server_metadata.replace, "server-metadata:update_all",
          body=server.METADATA),
    Route("GET", "/servers/{server_id}/metadata/{key}", server_metadata.show, "server-metadata:show"),
    Route("PUT", "/servers/{server_id}/metadata/{key}", server_metadata.put, "server-metadata:update",
          body=server.ITEM),
    Route("DELETE", "/servers/{server_id}/metadata/{key}", server_metadata.delete, "server-metadata:delete",
          204),
    # -- What happened to them
    Route("GET", "/servers/{server_id}/os-instance-actions", instance_actions.index,
          "os-instance-actions:list", query=instance_actions.QUERY, strict="2.58"),
    Route("GET", "/servers/{server_id}/os-instance-actions/{request_id}", instance_actions.show,
          "os-instance-actions:show"),
    Route("GET", "/servers/{server_id}/migrations", migrations.of_server, "servers:migrations:index",
          when="2.23"),
    Route("GET", "/servers/{server_id}/migrations/{migration_id}", migrations.one_of_server,
          "servers:migrations:show", when="2.23"),
    Route("GET", "/os-migrations", migrations.index, "os-migrations:index", query=migrations.QUERY,
          strict="2.59"),
    # -- Hosts
    Route("GET", "/os-hypervisors", hypervisors.index, "os-hypervisors:list", query=hypervisors.QUERY,
          strict="2.33"),
    Route("GET", "/os-hypervisors/detail", hypervisors.detail, "os-hypervisors:list-detail",
          query=hypervisors.QUERY, strict="2.33"),
    Route("GET", "/os-hypervisors/statistics", hypervisors.statistics, "os-hypervisors:statistics",
          when="2.1-2.87"),
    Route("GET", "/os-hypervisors/{hypervisor_id}", hypervisors.show, "os-hypervisors:show",
          query=hypervisors.SHOW_QUERY),
    Route("GET", "/os-hypervisors/{hypervisor_id}/uptime", hypervisors.uptime, "os-hypervisors:uptime",
          when="2.1-2.87"),
    Route("GET", "/os-hypervisors/{pattern}/search", hypervisors.search, "os-hypervisors:search",
          when="2.1-2.52"),
    Route("GET", "/os-hypervisors/{pattern}/servers", hypervisors.servers, "os-hypervisors:servers",
          when="2.1-2.52"),
    Route("GET", "/os-services", services.index, "os-services:list", query=services.QUERY),
    Route("PUT", "/os-services/enable", services.enable, "os-services:update", when="2.1-2.52",
          body=service.NAMED),
    Route("PUT", "/os-services/disable", services.disable, "os-services:update", when="2.1-2.52",
          body=service.NAMED),
    Route("PUT", "/os-services/disable-log-reason", services.disable_with_reason, "os-services:update",
          when="2.1-2.52", body=service.NAMED),
    Route("PUT", "/os-services/{service_id}", services.update, "os-services:update", when="2.53",
          body=service.CHANGE),
    Route("GET", "/os-aggregates", aggregates.index, "os-aggregates:index"),
    Route("POST", "/os-aggregates", aggregates.create, "os-aggregates:create", body=aggregate.CREATE),
    Route("GET", "/os-aggregates/{aggregate_id}", aggregates.show, "os-aggregates:show"),
    Route("PUT", "/os-aggregates/{aggregate_id}", aggregates.update, "os-aggregates:update",
          body=aggregate.UPDATE),
    Route("DELETE", "/os-aggregates/{aggregate_id}", aggregates.delete, "os-aggregates:delete"),
    Route("POST", "/os-aggregates/{aggregate_id}/action", aggregates.action, "os-aggregates:show",
          body=aggregate.ACTION),
    Route("GET", "/os-availability-zone", aggregates.zones, "os-availability-zone:list"),
    Route("GET", "/os-availability-zone/detail", aggregates.zones_in_detail, "os-availability-zone:detail"),
    # -- Users and projects
    Route("GET", "/os-keypairs", keypairs.index, "os-keypairs:index", query=keypairs.QUERY),
    Route("POST", "/os-keypairs", keypairs.create, "os-keypairs:create", when="2.1-2.1",
          body=keypair.CREATE),
    Route("POST", "/os-keypairs", keypairs.create, "os-keypairs:create", 201, when="2.2",
          body=keypair.CREATE),
    Route("GET", "/os-keypairs/{name}", keypairs.show, "os-keypairs:show", query=keypairs.SHOW_QUERY),
    Route("DELETE", "/os-keypairs/{name}", keypairs.delete, "os-keypairs:delete", 202, when="2.1-2.1"),
    Route("DELETE", "/os-keypairs/{name}", keypairs.delete, "os-keypairs:delete", 204, when="2.2",
          query=keypairs.SHOW_QUERY),
    Route("GET", "/limits", limits.limits, "limits", query=limits.QUERY),
    Route("GET", "/os-quota-sets/{project_id}", limits.quota, "os-quota-sets:show",
          query=limits.QUOTA_QUERY),
    Route("GET", "/os-quota-sets/{project_id}/detail", limits.quota_in_detail, "os-quota-sets:detail",
          query=limits.QUOTA_QUERY),
    Route("GET", "/os-quota-sets/{project_id}/defaults", limits.defaults, "os-quota-sets:defaults"),
)
# fmt: on
