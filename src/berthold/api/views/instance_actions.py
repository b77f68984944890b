"""How instance actions and their events are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berthold.api.call import Call
from berthold.api.views.fields import Field, column, iso_long
from berthold.api.views.servers import host_id

Record = Mapping[str, Any]
EVENTS = "os_compute_api:os-instance-actions:events"
DETAILS = "os_compute_api:os-instance-actions:events:details"

ACTION: list[Field[Record]] = [
    Field("action", column("action")),
    Field("instance_uuid", column("server_id")),
    Field("request_id", column("request_id")),
    Field("user_id", column("user_id")),
    Field("project_id", column("project_id")),
    Field("start_time", lambda action, call: iso_long(action["started_at"])),
    Field("message", column("message")),
    Field("updated_at", lambda action, call: iso_long(action["updated_at"]), when="2.58"),
]


def _host_id(event: Record, call: Call) -> str:
    return host_id(event["project_id"], event["host"])


# `traceback` is for operators in every version; before 2.51 so were events as a whole.
EVENT: list[Field[Record]] = [
    Field("event", column("event")),
    Field("start_time", lambda event, call: iso_long(event["started_at"])),
    Field("finish_time", lambda event, call: iso_long(event["finished_at"])),
    Field("result", column("result")),
    Field("traceback", column("traceback"), rule=EVENTS),
    Field("host", column("host"), when="2.62", rule=EVENTS),
    Field("hostId", _host_id, when="2.62"),
    Field("details", column("details"), when="2.84", rule=DETAILS),
]
