"""Bodies about quotas: only what is named changes."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from berthold.api.schemas.body import INTEGER_MAX, Body, Shape

# A limit; -1 is none.
Limit = Annotated[int, Meta(ge=-1, le=INTEGER_MAX)]


class QuotaChange(Shape):
    """`force` lets a limit be lower than what is used. Networks' quotas are not compute's any more."""

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
    tenant_id: Any = None  # the path says it; older clients repeat it
    force: bool = False


class UpdateQuota(Shape):
    quota_set: QuotaChange


OF_NETWORKS = ("fixed_ips", "floating_ips", "security_groups", "security_group_rules")
OF_FILES = ("injected_files", "injected_file_content_bytes", "injected_file_path_bytes")
UPDATE = Body(
    UpdateQuota,
    when={f"quota_set.{name}": "2.1-2.35" for name in OF_NETWORKS}
    | {f"quota_set.{name}": "2.1-2.56" for name in OF_FILES},
)
