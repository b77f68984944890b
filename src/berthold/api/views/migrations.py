"""How migrations are shown: all of them to operators, and the live ones in progress under their server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berthold.api.call import Call
from berthold.api.views.fields import Field, column, iso_long
from berthold.moves.status import migration_status

Record = Mapping[str, Any]
HOST_RULE = "os_compute_api:os-migrations:index:host"


def _end(which: str, what: str) -> Any:
    """Name or address of the source or target; a manager is shown neither."""

    def value(move: Record, call: Call) -> str | None:
        host = move[which]
        if host is None or not call.may(HOST_RULE):
            return None
        shown: str | None = host["name"] if what == "name" else host["facts"].get("host_ip")
        return shown

    return value


def _links(move: Record, call: Call) -> list[dict[str, str]]:
    return call.links("servers", move["server_id"], "migrations", move["number"])


BASE: list[Field[Record]] = [
    Field("id", column("number")),
    Field("uuid", column("id"), when="2.59"),
    Field("status", lambda move, call: migration_status(move)),
    Field("source_compute", _end("source", "name")),
    Field("source_node", _end("source", "name")),
    Field("dest_compute", _end("target", "name")),
    Field("dest_node", _end("target", "name")),
    Field("dest_host", _end("target", "address")),
    Field("created_at", lambda move, call: iso_long(move["created_at"])),
    Field("updated_at", lambda move, call: iso_long(move["updated_at"])),
    Field("user_id", column("user_id"), when="2.80"),
    Field("project_id", column("project_id"), when="2.80"),
]

FIELDS: list[Field[Record]] = [
    *BASE,
    Field("instance_uuid", column("server_id")),
    Field("old_instance_type_id", column("old_flavor")),
    Field("new_instance_type_id", column("new_flavor")),
    Field("migration_type", column("kind"), when="2.23"),
]


def with_links(move: Record, shown: dict[str, Any], call: Call) -> dict[str, Any]:
    """A live migration in progress has links from 2.23 on: it can be looked at under its server."""
    if move["kind"] == "live-migration" and move["state"] in IN_PROGRESS and call.version.minor >= 23:
        shown["links"] = _links(move, call)
    return shown


IN_PROGRESS = {"running", "undoing", "waiting", "stuck"}


def _progress(what: str, part: str) -> Any:
    return lambda move, call: move["progress"].get(f"{what}_{part}_bytes", 0)


OF_SERVER: list[Field[Record]] = [
    *BASE,
    Field("server_uuid", column("server_id")),
    *(
        Field(f"{what}_{part}_bytes", _progress(what, part))
        for what in ("memory", "disk")
        for part in ("total", "processed", "remaining")
    ),
]
