"""How server groups are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berthold.api.views.fields import Field, column, constant

FIELDS: list[Field[Mapping[str, Any]]] = [
    Field("id", column("id")),
    Field("name", column("name")),
    Field("policies", lambda group, call: [group["policy"]], when="2.1-2.63"),
    Field("policy", column("policy"), when="2.64"),
    Field("rules", column("rules"), when="2.64"),
    Field("members", column("member_ids")),
    Field("metadata", constant({}), when="2.1-2.63"),
    Field("project_id", column("project_id"), when="2.13"),
    Field("user_id", column("user_id"), when="2.13"),
]
