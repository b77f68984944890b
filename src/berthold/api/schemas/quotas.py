"""Bodies about quotas: only what is named changes."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from berthold.api.schemas.body import INTEGER_MAX, Body, Shape

# A limit; -1 is none.
Limit = Annotated[int, Meta(ge=-1, le=INTEGER_MAX)]


class Limits(Shape):
    """Networks' quotas are not compute's any more."""

    instances: Limit | None = None
    cores: Limit | None = None
    ram: Limit | None = None
    key_pairs: Limit | None = None
    metadata_items: Limit | None = None
    server_groups: Limit | None = None
    server_group_members: Limit | None = None
    fixed_ips: Limit | None = None
    floating_ips: Limit | None = None
    security_groups: Limit | None = None
    security_group_rules: Limit | None = None
    injected_files: Limit | None = None
    injected_file_content_bytes: Limit | None = None
    injected_file_path_bytes: Limit | None = None


class QuotaChange(Limits):
    """`force` lets a limit be lower than what is used."""

    tenant_id: Any = None  # the path says it; older clients repeat it
    force: bool = False


class UpdateQuota(Shape):
    quota_set: QuotaChange


class UpdateClass(Shape):
    quota_class_set: Limits


OF_NETWORKS = ("fixed_ips", "floating_ips", "security_groups", "security_group_rules")
OF_FILES = ("injected_files", "injected_file_content_bytes", "injected_file_path_bytes")
UPDATE = Body(
    UpdateQuota,
    when={f"quota_set.{name}": "2.1-2.35" for name in OF_NETWORKS}
    | {f"quota_set.{name}": "2.1-2.56" for name in OF_FILES},
)

# Of a quota class: it had the quotas of networks for longer than a project, and got those of groups later.
CLASSES = {
    **dict.fromkeys(OF_NETWORKS, "2.1-2.49"),
    **dict.fromkeys(OF_FILES, "2.1-2.56"),
    **dict.fromkeys(("server_groups", "server_group_members"), "2.50"),
}
UPDATE_CLASS = Body(UpdateClass, when={f"quota_class_set.{name}": when for name, when in CLASSES.items()})
