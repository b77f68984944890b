"""What a row of the routes' table answers with, as data: for the OpenAPI document, and for tests that
hold every answer against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from berthold.api.microversions import NEWEST, OLDEST
from berthold.api.views.fields import Field

Json = dict[str, Any]
LINKS: Json = {"type": "array", "items": {"type": "object", "required": ["href", "rel"]}}


@dataclass(frozen=True)
class Answer:
    """An object with one key, and perhaps links to the next page. Under the key is an object with the
    fields of a view, or a list of such, or with `fields=None` whatever it is. `more` are fields
    that are there in some states only; `within` the key that wraps each item of a list."""

    key: str
    fields: Sequence[Field[Any]] | None = None
    many: bool = False
    links: str | None = None
    more: tuple[str, ...] = ()
    within: str | None = None

    def schema(self) -> Json:
        """As a JSON schema that holds for every microversion and every caller."""
        properties = {self.key: self._inside()}
        if self.links:
            properties[self.links] = LINKS
        return _object(properties, [self.key])

    def _inside(self) -> Json:
        if self.fields is None:
            return {}
        names = dict.fromkeys([*(field.name for field in self.fields), *self.more])
        always = {f.name for f in self.fields if f.rule is None and OLDEST in f.when and NEWEST in f.when}
        shown = _object({name: {} for name in names}, sorted(always))
        if self.within:
            shown = _object({self.within: shown}, [self.within])
        return {"type": "array", "items": shown} if self.many else shown


def one(key: str, fields: Sequence[Field[Any]] | None = None, *more: str) -> Answer:
    """One thing under its key."""
    return Answer(key, fields, more=more)


def many(
    key: str, fields: Sequence[Field[Any]], *more: str, links: str | None = None, within: str | None = None
) -> Answer:
    """A list of things under their key."""
    return Answer(key, fields, True, links, more, within)


def _object(properties: Json, required: list[str]) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
