"""Who may do what: every rule under Nova's name, with its default.

A rule is decided once per request, from the caller's roles. Whose thing it is never comes
up here: reads are scoped to the caller's project before (T1), so that somebody else's thing
is not found rather than forbidden.
"""

from __future__ import annotations

from berthold.errors import NotAllowed
from berthold.neighbours import Actor

ANYBODY = frozenset[str]()  # whoever has a valid token
ADMIN = frozenset({"admin"})
MANAGER = ADMIN | {"manager"}
MEMBER = MANAGER | {"member"}
READER = MEMBER | {"reader"}

RULES: dict[str, frozenset[str]] = {
    "os_compute_api:flavors": ANYBODY,
    "os_compute_api:os-flavor-manage:create": ADMIN,
    "os_compute_api:os-flavor-manage:update": ADMIN,
    "os_compute_api:os-flavor-manage:delete": ADMIN,
    "os_compute_api:os-flavor-access": ADMIN,
    "os_compute_api:os-flavor-access:add_tenant_access": ADMIN,
    "os_compute_api:os-flavor-access:remove_tenant_access": ADMIN,
    "os_compute_api:os-flavor-extra-specs:index": READER,
    "os_compute_api:os-flavor-extra-specs:show": READER,
    "os_compute_api:os-flavor-extra-specs:create": ADMIN,
    "os_compute_api:os-flavor-extra-specs:update": ADMIN,
    "os_compute_api:os-flavor-extra-specs:delete": ADMIN,
    "os_compute_api:os-server-groups:index": READER,
    "os_compute_api:os-server-groups:index:all_projects": ADMIN,
    "os_compute_api:os-server-groups:show": READER,
    "os_compute_api:os-server-groups:create": MEMBER,
    "os_compute_api:os-server-groups:delete": MEMBER,
    "os_compute_api:servers:index": READER,
    "os_compute_api:servers:detail": READER,
    "os_compute_api:servers:index:get_all_tenants": ADMIN,
    "os_compute_api:servers:allow_all_filters": ADMIN,
    "os_compute_api:servers:show": READER,
    "os_compute_api:servers:show:host_status": ADMIN,
    "os_compute_api:servers:show:flavor-extra-specs": READER,
    "os_compute_api:os-extended-server-attributes": ADMIN,
    "os_compute_api:servers:create": MEMBER,
    "os_compute_api:servers:create:forced_host": ADMIN,
    "compute:servers:create:requested_destination": ADMIN,
    "os_compute_api:servers:create:zero_disk_flavor": ADMIN,
    "os_compute_api:servers:update": MEMBER,
    "os_compute_api:servers:delete": MEMBER,
    "os_compute_api:servers:resize": MEMBER,
    "os_compute_api:servers:confirm_resize": MEMBER,
    "os_compute_api:servers:revert_resize": MEMBER,
    "os_compute_api:os-lock-server:unlock:unlock_override": ADMIN,
    "os_compute_api:os-migrate-server:migrate": MANAGER,
    "os_compute_api:os-migrate-server:migrate:host": ADMIN,
    "os_compute_api:os-migrate-server:migrate_live": MANAGER,
    "os_compute_api:os-migrate-server:migrate_live:host": ADMIN,
    "os_compute_api:servers:migrations:index": MANAGER,
    "os_compute_api:servers:migrations:show": MANAGER,
    "os_compute_api:os-migrations:index": MANAGER,
    "os_compute_api:os-migrations:index:all_projects": ADMIN,
    "os_compute_api:os-migrations:index:host": ADMIN,
    "os_compute_api:server-metadata:index": READER,
    "os_compute_api:server-metadata:show": READER,
    "os_compute_api:server-metadata:create": MEMBER,
    "os_compute_api:server-metadata:update": MEMBER,
    "os_compute_api:server-metadata:update_all": MEMBER,
    "os_compute_api:server-metadata:delete": MEMBER,
    "os_compute_api:os-instance-actions:list": READER,
    "os_compute_api:os-instance-actions:show": READER,
    "os_compute_api:os-instance-actions:events": ADMIN,
    "os_compute_api:os-instance-actions:events:details": ADMIN,
    "os_compute_api:os-hypervisors:list": ADMIN,
    "os_compute_api:os-hypervisors:list-detail": ADMIN,
    "os_compute_api:os-hypervisors:show": ADMIN,
    "os_compute_api:os-hypervisors:uptime": ADMIN,
    "os_compute_api:os-hypervisors:statistics": ADMIN,
    "os_compute_api:os-hypervisors:search": ADMIN,
    "os_compute_api:os-hypervisors:servers": ADMIN,
    "os_compute_api:os-services:list": ADMIN,
    "os_compute_api:os-services:update": ADMIN,
    "os_compute_api:os-aggregates:index": ADMIN,
    "os_compute_api:os-aggregates:show": ADMIN,
    "os_compute_api:os-aggregates:create": ADMIN,
    "os_compute_api:os-aggregates:update": ADMIN,
    "os_compute_api:os-aggregates:delete": ADMIN,
    "os_compute_api:os-aggregates:add_host": ADMIN,
    "os_compute_api:os-aggregates:remove_host": ADMIN,
    "os_compute_api:os-aggregates:set_metadata": ADMIN,
    "os_compute_api:os-availability-zone:list": READER,
    "os_compute_api:os-availability-zone:detail": ADMIN,
    "os_compute_api:os-keypairs:index": READER,
    "os_compute_api:os-keypairs:show": READER,
    "os_compute_api:os-keypairs:create": MEMBER,
    "os_compute_api:os-keypairs:delete": MEMBER,
    "os_compute_api:os-keypairs:of_other_users": ADMIN,
    "os_compute_api:limits": ANYBODY,
    "os_compute_api:limits:other_project": ADMIN,
    "os_compute_api:os-quota-sets:show": READER,
    "os_compute_api:os-quota-sets:show:other_project": ADMIN,
    "os_compute_api:os-quota-sets:defaults": ANYBODY,
    "os_compute_api:os-quota-sets:detail": READER,
}


def allows(actor: Actor, rule: str) -> bool:
    """Whether `rule` lets the actor through."""
    wanted = RULES[rule]
    return not wanted or not wanted.isdisjoint(actor.roles)


def check(actor: Actor, rule: str) -> None:
    """Raise `NotAllowed` unless `rule` lets the actor through."""
    if not allows(actor, rule):
        raise NotAllowed(f"Policy doesn't allow {rule} to be performed.")
