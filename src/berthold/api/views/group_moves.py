"""How a whole-group move is shown. No API of OpenStack has this; it is documented in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berthold.api.call import Call
from berthold.api.views.fields import Field, column, iso_long, render_all
from berthold.api.views.migrations import HOST_RULE

Record = Mapping[str, Any]

MEMBER: list[Field[Record]] = [
    Field("server_id", column("server_id")),
    Field("name", column("name")),
    # moving, turning back, held, arrived, settling, done, deleted; waiting or stayed, of the one that waits
    Field("status", column("status")),
    Field("reason", column("reason")),  # why it is held, or found no host
    Field("host", column("host"), rule=HOST_RULE),
    Field("reasons_by_host", column("hosts"), rule=HOST_RULE),
]


def _members(group_move: Record, call: Call) -> list[dict[str, Any]]:
    return render_all(MEMBER, group_move["members"], call)


FIELDS: list[Field[Record]] = [
    Field("id", column("id")),
    Field("server_group_id", column("group_id")),
    # waiting, moving, held, returning, settling, done, returned, refused, scattered
    Field("status", column("status")),
    Field("reason", column("reason")),  # what it waits for, or why there was no host
    Field("source_host", column("source"), rule=HOST_RULE),
    Field("target_host", column("target"), rule=HOST_RULE),
    Field("request_id", column("request_id")),
    Field("created_at", lambda group_move, call: iso_long(group_move["created_at"])),
    Field("updated_at", lambda group_move, call: iso_long(group_move["updated_at"])),
    Field("members", _members),
]
