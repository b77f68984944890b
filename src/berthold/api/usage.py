"""Usage: how long each server of a project has had what its flavor gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from berthold.api.call import Call
from berthold.api.microversions import Version
from berthold.api.query import Page
from berthold.api.views.fields import Field, column, iso_long, next_link, render
from berthold.errors import Malformed
from berthold.ledger import reading
from berthold.moves.status import AT_REST

Record = Mapping[str, Any]
EVERYBODY = "os_compute_api:os-simple-tenant-usage:list"
QUERY = frozenset({"start", "end", "detailed", "limit", "marker"})
SHOW_QUERY = frozenset({"start", "end", "limit", "marker"})
PAGED = Version(2, 40)
HOUR_S = 3600.0


class Span:
    """A server in the period that is asked for: how many hours of it, and of what."""

    def __init__(self, server: reading.Row, start: float, end: float, now: float) -> None:
        self.server, self.flavor = server, server["flavor"]
        last = server["deleted_at"] or now
        self.hours = max(min(end, last) - max(start, server["launched_at"]), 0.0) / HOUR_S
        self.uptime = int(last - server["launched_at"])
        self.disk = self.flavor.get("disk", 0) + self.flavor.get("ephemeral", 0)


def _sum(of: Callable[[Span], float]) -> Callable[[Record, Call], float]:
    return lambda usage, call: sum(map(of, usage["spans"]))


PROJECT: list[Field[Record]] = [
    Field("tenant_id", column("project_id")),
    Field("start", lambda usage, call: iso_long(usage["start"])),
    Field("stop", lambda usage, call: iso_long(usage["end"])),
    Field("total_hours", _sum(lambda span: span.hours)),
    Field("total_vcpus_usage", _sum(lambda span: span.hours * span.flavor["vcpus"])),
    Field("total_memory_mb_usage", _sum(lambda span: span.hours * span.flavor["ram"])),
    Field("total_local_gb_usage", _sum(lambda span: span.hours * span.disk)),
]
SERVER: list[Field[Span]] = [
    Field("instance_id", lambda span, call: span.server["id"]),
    Field("name", lambda span, call: span.server["name"]),
    Field("tenant_id", lambda span, call: span.server["project_id"]),
    Field("flavor", lambda span, call: span.flavor["name"]),
    Field("hours", lambda span, call: span.hours),
    Field("uptime", lambda span, call: span.uptime),
    Field("vcpus", lambda span, call: span.flavor["vcpus"]),
    Field("memory_mb", lambda span, call: span.flavor["ram"]),
    Field("local_gb", lambda span, call: span.disk),
    Field("started_at", lambda span, call: iso_long(span.server["launched_at"])),
    Field("ended_at", lambda span, call: iso_long(span.server["deleted_at"])),
    Field(
        "state",
        lambda span, call: (
            "terminated" if span.server["deleted_at"] else AT_REST[span.server["condition"]][1]
        ),
    ),
]
IN_DETAIL = [
    *PROJECT,
    Field[Record]("server_usages", lambda usage, call: [render(SERVER, s, call) for s in usage["spans"]]),
]


async def index(call: Call) -> dict[str, Any]:
    """Every project's usage, for operators."""
    start, end, page = _asked(call)
    spans = await _spans(call, None, start, end, page)
    in_detail = call.query.text("detailed") == "1"
    projects = dict.fromkeys(span.server["project_id"] for span in spans)
    usages = [
        _sums(call, project, [s for s in spans if s.server["project_id"] == project], start, end, in_detail)
        for project in projects
    ]
    document: dict[str, Any] = {"tenant_usages": usages}
    if page and page.limited and (links := next_link(call, page, [span.server["id"] for span in spans])):
        document["tenant_usages_links"] = links
    return document


async def show(call: Call, project_id: str) -> dict[str, Any]:
    """One project's usage: zeros for one that used nothing, where Nova answers with an empty object, at which
    the client of today breaks off."""
    if project_id != call.actor.project_id:
        call.must(EVERYBODY)
    start, end, page = _asked(call)
    spans = await _spans(call, project_id, start, end, page)
    document: dict[str, Any] = {"tenant_usage": _sums(call, project_id, spans, start, end, True)}
    if page and page.limited and (links := next_link(call, page, [span.server["id"] for span in spans])):
        document["tenant_usage_links"] = links
    return document


def _asked(call: Call) -> tuple[float, float, Page | None]:
    """The period, and since 2.40 which page of its servers."""
    now = call.store.clock.now()
    start, end = call.query.moment("start"), call.query.moment("end")
    start, end = now if start is None else start, now if end is None else end
    if start > end:
        raise Malformed("Invalid start time. The start time cannot occur after the end time.")
    return start, end, call.query.page(call.settings.page_max) if call.version >= PAGED else None


async def _spans(
    call: Call, project_id: str | None, start: float, end: float, page: Page | None
) -> list[Span]:
    rows = await call.store.read(
        reading.servers_between,
        start,
        end,
        project_id=project_id,
        limit=page.limit if page else None,
        marker=page.marker if page else None,
    )
    return [Span(row, start, end, call.store.clock.now()) for row in rows]


def _sums(
    call: Call, project_id: str, spans: Sequence[Span], start: float, end: float, in_detail: bool
) -> dict[str, Any]:
    usage = {"project_id": project_id, "spans": spans, "start": start, "end": end}
    return render(IN_DETAIL if in_detail else PROJECT, usage, call)
