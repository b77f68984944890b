"""What a row of the routes' table answers with, as data: for the OpenAPI document, and for tests that
hold every answer against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from berthold.api.microversions import NEWEST, OLDEST
from berthold.api.views.fields import Field

Json = dict[str, Any]
LINKS: Json = {"type": "array", "items": {"type": "object", "required": ["href", "rel"]}}


class Shown(Protocol):
    """What an answer is."""

    def schema(self) -> Json:
        """As a JSON schema that holds for every microversion and every caller."""
        ...


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
        shown = _of(self.fields, self.more)
        if self.within:
            shown = _object({self.within: shown}, [self.within])
        return {"type": "array", "items": shown} if self.many else shown


@dataclass(frozen=True)
class Bare:
    """The fields of a view, without a key around them."""

    fields: Sequence[Field[Any]]

    def schema(self) -> Json:
        return _of(self.fields)


@dataclass(frozen=True)
class Named:
    """An object with one key, which the request has named."""

    value: Json

    def schema(self) -> Json:
        return {
            "type": "object",
            "additionalProperties": self.value,
            "minProperties": 1,
            "maxProperties": 1,
        }


@dataclass(frozen=True)
class Either:
    """One of several, as the request wants it."""

    answers: tuple[Shown, ...]

    def schema(self) -> Json:
        return {"anyOf": [answer.schema() for answer in self.answers]}


def one(key: str, fields: Sequence[Field[Any]] | None = None, *more: str, links: str | None = None) -> Answer:
    """One thing under its key."""
    return Answer(key, fields, links=links, more=more)


def many(
    key: str, fields: Sequence[Field[Any]], *more: str, links: str | None = None, within: str | None = None
) -> Answer:
    """A list of things under their key."""
    return Answer(key, fields, True, links, more, within)


def either(*answers: Shown) -> Either:
    """One of several."""
    return Either(answers)


def _of(fields: Sequence[Field[Any]], more: Sequence[str] = ()) -> Json:
    """An object with the fields of a view: those are required that everybody sees in every version."""
    names = dict.fromkeys([*(field.name for field in fields), *more])
    always = {f.name for f in fields if f.rule is None and OLDEST in f.when and NEWEST in f.when}
    return _object({name: {} for name in names}, sorted(always))


def _object(properties: Json, required: list[str]) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
