"""Migrations: every move of a server from one host to another, past and present."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from berthold.api.call import Call
from berthold.api.microversions import Version, Versions
from berthold.api.servers import by, unlocked
from berthold.api.views import migrations as views
from berthold.api.views.fields import next_link, render, render_all
from berthold.errors import Malformed, NotFound
from berthold.ledger import reading
from berthold.ledger.store import Tx
from berthold.moves import abort
from berthold.moves.status import migration_status
from berthold.records import flavors, progress

ALL_PROJECTS = "os_compute_api:os-migrations:index:all_projects"
QUERY = frozenset(
    {
        "hidden",
        "host",
        "instance_uuid",
        "source_compute",
        "status",
        "migration_type",
        "limit",
        "marker",
        "changes-since",
        "changes-before",
        "user_id",
        "project_id",
    }
)
# Query parameter -> the versions that know it.
KNOWN = {
    "limit": Versions("2.59"),
    "marker": Versions("2.59"),
    "changes-since": Versions("2.59"),
    "changes-before": Versions("2.66"),
    "user_id": Versions("2.80"),
    "project_id": Versions("2.80"),
}
# Whoever is not shown hosts does not find them out by asking for each.
BY_HOST = ("host", "source_compute")
EQUAL = {
    "instance_uuid": "server_id",
    "migration_type": "kind",
    "user_id": "user_id",
    "project_id": "project_id",
}


async def index(call: Call) -> dict[str, Any]:
    """Migrations, newest first; a manager sees those of its project's servers."""
    _check_known(call)
    page = call.query.page(call.settings.page_max)
    rows = await call.store.read(_read, _wanted(call), page.limit, page.marker)
    shown = [
        views.with_links(row, each, call)
        for row, each in zip(rows, render_all(views.FIELDS, rows, call), strict=True)
    ]
    document: dict[str, Any] = {"migrations": shown}
    if page.limited and (links := next_link(call, page, [row["id"] for row in rows])):
        document["migrations_links"] = links
    return document


def _check_known(call: Call) -> None:
    """From 2.59 on a parameter that the version does not know is refused; before, ignored."""
    if call.version < Version(2, 59):
        call.query.pairs[:] = [pair for pair in call.query.pairs if pair[0] not in KNOWN]
    for name, versions in KNOWN.items():
        if call.query.text(name) is not None and call.version not in versions:
            raise Malformed(f"Additional properties are not allowed ('{name}' was unexpected).")


def _wanted(call: Call) -> reading.MigrationsWanted:
    query = call.query
    for name in BY_HOST:
        if query.text(name) is not None:
            call.must(views.HOST_RULE)
    since, before = query.period()
    return reading.MigrationsWanted(
        server_project_id=None if call.may(ALL_PROJECTS) else call.actor.project_id,
        equal={EQUAL[name]: value for name in EQUAL if (value := query.text(name)) is not None},
        host=query.text("host"),
        source=query.text("source_compute"),
        changed_since=since,
        changed_before=before,
        judge=_judge(query.text("status"), hidden=bool(query.flag("hidden", lax=True))),
    )


def _judge(status: str | None, *, hidden: bool) -> Callable[[reading.Row], bool] | None:
    """What is not a column. No migration of ours is hidden."""
    if hidden:
        return lambda row: False
    return (lambda row: migration_status(row) == status) if status is not None else None


def _read(
    tx: Tx, wanted: reading.MigrationsWanted, limit: int, marker: str | None = None
) -> list[reading.Row]:
    """Migrations with the numbers of the flavors before and after; None for one that is deleted."""
    rows = reading.migrations(tx, wanted, limit=limit, marker=marker)
    pairs = [_flavors(row) for row in rows]
    numbers = flavors.numbers(tx, {each for pair in pairs for each in pair})
    for row, (old, new) in zip(rows, pairs, strict=True):
        row["old_flavor"], row["new_flavor"] = numbers.get(old), numbers.get(new)
    return rows


def _flavors(move: reading.Row) -> tuple[str, str]:
    """The ids of the flavor that a move came from and of the one that it goes to."""
    now = move["flavor"]["id"]
    old = (move["facts"].get("old_flavor") or move["flavor"])["id"]
    return old, (move["wish"].get("flavor") or {"id": old if move["kind"] != "resize" else now})["id"]


# -- Under a server: live migrations in progress ------------------------------------------


async def of_server(call: Call, server_id: str) -> dict[str, Any]:
    """The server's live migrations in progress, one at most (M3)."""
    return {
        "migrations": render_all(
            views.OF_SERVER, await call.store.read(_in_progress, server_id, call.scope), call
        )
    }


async def one_of_server(call: Call, server_id: str, migration_id: str) -> dict[str, Any]:
    """One of them, by its number."""
    for row in await call.store.read(_in_progress, server_id, call.scope):
        if str(row["number"]) == migration_id:
            return {"migration": render(views.OF_SERVER, row, call)}
    raise NotFound(f"In-progress live migration {migration_id} is not found for server {server_id}.")


async def abort_one(call: Call, server_id: str, migration_id: str) -> None:
    """Let one of them be undone (since 2.24); before 2.65 only while memory is being sent."""
    which = abort.ABORTABLE if call.version >= Version(2, 65) else frozenset({"running"})
    await call.store.write(_abort, call, server_id, migration_id, which)


def _abort(tx: Tx, call: Call, server_id: str, migration_id: str, which: frozenset[str]) -> None:
    unlocked(tx, call, server_id)
    abort.abort(tx, server_id, _number(server_id, migration_id), by(call), only=which)


def _number(server_id: str, migration_id: str) -> int:
    if not (migration_id.isascii() and migration_id.isdigit() and len(migration_id) < 16):
        raise NotFound(f"Migration {migration_id} not found for instance {server_id}")
    return int(migration_id)


async def force_complete(call: Call, server_id: str, migration_id: str) -> None:
    """No host of this cloud can pause a guest or run it half sent, so this always says why not."""
    await call.store.read(unlocked, call, server_id)
    await one_of_server(call, server_id, migration_id)
    raise Malformed(
        f"Migration {migration_id} of server {server_id} cannot be forced to complete: the hosts of this"
        " cloud send memory until it is all there. Wait for it, or abort it."
    )


def _in_progress(tx: Tx, server_id: str, project_id: str | None) -> list[reading.Row]:
    reading.server_of(tx, server_id, project_id)
    wanted = reading.MigrationsWanted(
        equal={"server_id": server_id, "kind": "live-migration"}, unfinished=True
    )
    rows = reading.migrations(tx, wanted, limit=10)
    told = progress.of(tx, [row["id"] for row in rows])
    for row in rows:
        row["progress"] = told.get(row["id"], {})
    return rows
