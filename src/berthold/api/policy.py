"""Who may do what: every rule under Nova's name with its default, and an operator's changes to it.

The engine is oslo.policy, so a policy file that was written for Nova says the same here. All
rules are loaded when a `Policy` is made, before any request (a file that cannot be read
stops the start), and never change after. A rule is decided once per caller, however many
requests and rows ask.

Whose thing it is never comes up here: reads are scoped to the caller's project before (T1),
so that somebody else's thing is not found rather than forbidden. What rules that speak of a
project compare with is the caller's own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from oslo_config import cfg
from oslo_policy import policy as oslo

from berthold.errors import Malformed, NotAllowed
from berthold.neighbours import Actor

ANYBODY = "@"  # whoever has a valid token
ADMIN = "rule:context_is_admin"
MANAGER = "rule:project_manager_or_admin"
MEMBER = "rule:project_member_or_admin"
READER = "rule:project_reader_or_admin"

# What the rules are made of, under the names that policy files use.
PARTS: dict[str, str] = {
    "context_is_admin": "role:admin",
    "admin_api": "rule:context_is_admin",
    "project_manager_api": "role:manager and project_id:%(project_id)s",
    "project_member_api": "role:member and project_id:%(project_id)s",
    "project_reader_api": "role:reader and project_id:%(project_id)s",
    "project_manager_or_admin": "rule:project_manager_api or rule:context_is_admin",
    "project_member_or_admin": "rule:project_member_api or rule:project_manager_or_admin",
    "project_reader_or_admin": "rule:project_reader_api or rule:project_member_or_admin",
}

RULES: dict[str, str] = {
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
    "os_compute_api:os-server-groups:move": MANAGER,
    "os_compute_api:os-server-groups:move:host": ADMIN,
    "os_compute_api:os-server-groups:move:show": READER,
    "os_compute_api:berthold-explain:show": READER,
    "os_compute_api:berthold-explain:hosts": ADMIN,
    "os_compute_api:berthold-compliance:show": READER,
    "os_compute_api:berthold-compliance:hosts": ADMIN,
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
    "os_compute_api:servers:start": MEMBER,
    "os_compute_api:servers:stop": MEMBER,
    "os_compute_api:servers:reboot": MEMBER,
    "os_compute_api:servers:confirm_resize": MEMBER,
    "os_compute_api:servers:revert_resize": MEMBER,
    "os_compute_api:servers:rebuild": MEMBER,
    "os_compute_api:servers:create_image": MEMBER,
    "os_compute_api:servers:create_image:allow_volume_backed": MEMBER,
    "os_compute_api:os-create-backup": MEMBER,
    "os_compute_api:os-rescue": MEMBER,
    "os_compute_api:os-unrescue": MEMBER,
    "os_compute_api:os-pause-server:pause": MEMBER,
    "os_compute_api:os-pause-server:unpause": MEMBER,
    "os_compute_api:os-suspend-server:suspend": MEMBER,
    "os_compute_api:os-suspend-server:resume": MEMBER,
    "os_compute_api:os-evacuate": ADMIN,
    "os_compute_api:os-shelve:shelve": MEMBER,
    "os_compute_api:os-shelve:shelve_offload": ADMIN,
    "os_compute_api:os-shelve:unshelve": MEMBER,
    "os_compute_api:os-shelve:unshelve_to_host": ADMIN,
    "os_compute_api:os-lock-server:lock": MEMBER,
    "os_compute_api:os-lock-server:unlock": MEMBER,
    "os_compute_api:os-lock-server:unlock:unlock_override": ADMIN,
    "os_compute_api:os-admin-actions:reset_state": ADMIN,
    "os_compute_api:os-deferred-delete:force": MEMBER,
    "os_compute_api:os-deferred-delete:restore": MEMBER,
    "os_compute_api:os-console-output": MEMBER,
    "os_compute_api:os-remote-consoles": MEMBER,
    "os_compute_api:os-server-diagnostics": ADMIN,
    "os_compute_api:ips:index": READER,
    "os_compute_api:ips:show": READER,
    "os_compute_api:os-attach-interfaces:list": READER,
    "os_compute_api:os-attach-interfaces:show": READER,
    "os_compute_api:os-attach-interfaces:create": MEMBER,
    "os_compute_api:os-attach-interfaces:delete": MEMBER,
    "os_compute_api:os-server-tags:index": READER,
    "os_compute_api:os-server-tags:show": READER,
    "os_compute_api:os-server-tags:update": MEMBER,
    "os_compute_api:os-server-tags:update_all": MEMBER,
    "os_compute_api:os-server-tags:delete": MEMBER,
    "os_compute_api:os-server-tags:delete_all": MEMBER,
    "os_compute_api:os-volumes-attachments:index": READER,
    "os_compute_api:os-volumes-attachments:show": READER,
    "os_compute_api:os-volumes-attachments:create": MEMBER,
    "os_compute_api:os-volumes-attachments:update": MEMBER,
    "os_compute_api:os-volumes-attachments:swap": ADMIN,
    "os_compute_api:os-volumes-attachments:delete": MEMBER,
    "os_compute_api:os-migrate-server:migrate": MANAGER,
    "os_compute_api:os-migrate-server:migrate:host": ADMIN,
    "os_compute_api:os-migrate-server:migrate_live": MANAGER,
    "os_compute_api:os-migrate-server:migrate_live:host": ADMIN,
    "os_compute_api:servers:migrations:index": MANAGER,
    "os_compute_api:servers:migrations:show": MANAGER,
    "os_compute_api:servers:migrations:force_complete": MANAGER,
    "os_compute_api:servers:migrations:delete": MANAGER,
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
    "os_compute_api:os-services:delete": ADMIN,
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
    "os_compute_api:os-quota-sets:update": ADMIN,
    "os_compute_api:os-quota-sets:delete": ADMIN,
    "os_compute_api:os-quota-class-sets:show": ADMIN,
    "os_compute_api:os-quota-class-sets:update": ADMIN,
    "os_compute_api:os-simple-tenant-usage:list": ADMIN,
    "os_compute_api:os-simple-tenant-usage:show": READER,
}


# What the engine says of a rule that it cannot read, traceback and all, is said below in a sentence.
logging.getLogger("oslo_policy._parser").setLevel(logging.CRITICAL + 1)

# How many decisions are remembered; beyond that the oldest are made again.
REMEMBERED = 20_000


class Policy:
    """All rules, the operator's file over the defaults. `None`: the defaults alone.

    Raises `Malformed` for a file that is not there or is no policy file.
    """

    def __init__(self, file: Path | None = None) -> None:
        conf = cfg.ConfigOpts()
        conf([], project="berthold", default_config_files=[], default_config_dirs=[])
        # Without `use_conf` it never looks at a file by itself: no request finds the rules half loaded.
        self._enforcer = oslo.Enforcer(conf, use_conf=False)
        try:
            rules = PARTS | RULES | _written(file)
            self._enforcer.set_rules(oslo.Rules.from_dict(rules), use_conf=False)
            self._enforcer.check_rules(raise_on_violation=True)
            _check_understood(file, rules, self._enforcer.rules)
        except oslo.InvalidDefinitionError as error:
            raise Malformed(
                f"{file} is not a policy file: a rule refers to one that is not there."
            ) from error
        self._decided = lru_cache(REMEMBERED)(self._decide)

    def allows(self, actor: Actor, rule: str) -> bool:
        """Whether `rule` lets the actor through."""
        assert rule in RULES or rule in PARTS, f"nobody knows rule {rule}"
        return self._decided(rule, actor.user_id, actor.project_id, actor.roles)

    def check(self, actor: Actor, rule: str) -> None:
        """Raise `NotAllowed` unless `rule` lets the actor through."""
        if not self.allows(actor, rule):
            raise NotAllowed(f"Policy doesn't allow {rule} to be performed.")

    def _decide(self, rule: str, user_id: str, project_id: str, roles: frozenset[str]) -> bool:
        whose = {"project_id": project_id, "user_id": user_id}
        return bool(self._enforcer.enforce(rule, whose, {**whose, "roles": sorted(roles)}))


def _check_understood(file: Path | None, written: Mapping[str, str], read: Mapping[str, object]) -> None:
    """Raise `Malformed` for a rule that is no expression. The engine makes a "nobody" of it, and says so in
    the log only; the cloud would start and refuse that request to all."""
    for name, text in written.items():
        if str(read[name]) == "!" != text.strip():
            raise Malformed(f"{file} is not a policy file: the rule {name} is no expression: {text!r}.")


def _written(file: Path | None) -> dict[str, str]:
    """The rules in an operator's file, YAML or JSON."""
    if file is None:
        return {}
    try:
        rules = oslo.parse_file_contents(file.read_text())
    except (OSError, ValueError) as error:
        raise Malformed(f"{file} is not a policy file: {error}") from error
    if not isinstance(rules, dict) or not all(isinstance(rule, str) for rule in rules.values()):
        raise Malformed(f'{file} is not a policy file: expected lines of the form "rule": "check".')
    return rules
