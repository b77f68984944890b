"""A view is a table of fields: name, how to get it, which versions have it, who may see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from berthold.api.call import Call
from berthold.api.microversions import Versions
from berthold.api.query import Page

R = TypeVar("R")


class Field(Generic[R]):
    """One field. `value(record, call)`; shown in the versions `when` to whom `rule` allows."""

    def __init__(
        self, name: str, value: Callable[[R, Call], Any], when: str = "2.1", rule: str | None = None
    ) -> None:
        self.name = name
        self.value = value
        self.when = Versions(when)
        self.rule = rule


def visible(fields: Sequence[Field[R]], call: Call) -> list[Field[R]]:
    """The fields that this request shows; the same for every record of a list."""
    return [f for f in fields if call.version in f.when and (f.rule is None or call.may(f.rule))]


def render(fields: Sequence[Field[R]], record: R, call: Call) -> dict[str, Any]:
    """The record as JSON."""
    return {f.name: f.value(record, call) for f in visible(fields, call)}


def render_all(fields: Sequence[Field[R]], records: Iterable[R], call: Call) -> list[dict[str, Any]]:
    """Many records as JSON."""
    shown = visible(fields, call)
    return [{f.name: f.value(record, call) for f in shown} for record in records]


def column(name: str) -> Callable[[Any, Call], Any]:
    """A value that is shown as it stands in the record."""
    return lambda record, call: record[name]


def constant(value: Any) -> Callable[[Any, Call], Any]:
    """A value that every record has."""
    return lambda record, call: value


def iso(moment: float | None) -> str | None:
    """2026-11-30T10:20:30Z, as servers show moments."""
    return None if moment is None else datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def iso_long(moment: float | None) -> str | None:
    """2026-11-30T10:20:30.000000, as everything else shows them: UTC without saying so."""
    return None if moment is None else datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")


def next_link(call: Call, page: Page, ids: Sequence[Any]) -> list[dict[str, str]]:
    """The link to the next page, if this one is full."""
    if not ids or len(ids) < page.limit:
        return []
    return [{"rel": "next", "href": f"{call.base}{call.path}?{call.query.following(str(ids[-1]))}"}]
