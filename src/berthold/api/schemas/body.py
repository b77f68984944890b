"""From the bytes of a request to the shape that a handler wants, or a 400 that helps.

`Body(shape, when)` is a shape in its newest form and, for fields that not every version
has, the versions that do: `{"server.description": "2.19"}`. `*` stands for each item of a
list. Numbers and booleans may come as text, as OpenStack clients send them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from berthold.api.microversions import Version, Versions
from berthold.errors import Malformed

DEEPEST = 32
INTEGER_MAX = 2**31 - 1

Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^\S([\s\S]*\S)?\Z")]
Id = Annotated[str, Meta(min_length=1, max_length=255)]
Description = Annotated[str, Meta(max_length=255)]
Count = Annotated[int, Meta(ge=0, le=INTEGER_MAX)]
Positive = Annotated[int, Meta(ge=1, le=INTEGER_MAX)]
Key = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9_:. -]+\Z")]
Value = Annotated[str, Meta(max_length=255)]


class Shape(Struct, forbid_unknown_fields=True, kw_only=True):
    """What all bodies share: an unknown field is refused."""


class Body:
    """A shape, and which versions have which of its fields and need which."""

    def __init__(
        self, shape: Any, when: dict[str, str] | None = None, needs: dict[str, str] | None = None
    ) -> None:
        self.shape = shape
        self.when = {tuple(path.split(".")): Versions(text) for path, text in (when or {}).items()}
        self.needs = {tuple(path.split(".")): Versions(text) for path, text in (needs or {}).items()}

    def decode(self, raw: bytes, version: Version) -> Any:
        """The body in its shape. Raises `Malformed` with the path and what was expected."""
        return self.convert(document_of(raw), version)

    def convert(self, document: Any, version: Version) -> Any:
        """`decode`, of what is no longer bytes."""
        for path, versions in self.when.items():
            if version not in versions and any(True for _ in _found(document, path)):
                raise Malformed(
                    f"Additional properties are not allowed ('{path[-1]}' was unexpected)"
                    f" at '{'.'.join(path)}' in version {version}."
                )
        try:
            shaped = msgspec.convert(document, self.shape, strict=False)
        except msgspec.ValidationError as error:
            raise Malformed(f"Invalid input: {error}") from None
        for path, versions in self.needs.items():
            if version in versions and not any(True for _ in _found(document, path)):
                raise Malformed(f"'{path[-1]}' is a required property of '{'.'.join(path[:-1])}'.")
        return shaped


def document_of(raw: bytes) -> dict[str, Any]:
    """The JSON object in `raw`, with nothing in it that the database could not store."""
    try:
        document = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise Malformed(f"Malformed request body: {error}.") from None
    if not isinstance(document, dict):
        raise Malformed("Malformed request body: expected a JSON object.")
    _examine(document, DEEPEST)
    return document


def _examine(value: Any, deeper: int) -> None:
    """Refuse nesting without end, and NUL characters: PostgreSQL stores none."""
    if deeper < 0:
        raise Malformed(f"Malformed request body: nested deeper than {DEEPEST} levels.")
    if isinstance(value, str):
        if "\0" in value:
            raise Malformed("The body contains a NUL character (\\u0000), which no value may hold.")
    elif isinstance(value, dict):
        for key, inner in value.items():
            _examine(key, deeper)
            _examine(inner, deeper - 1)
    elif isinstance(value, list):
        for inner in value:
            _examine(inner, deeper - 1)


def _found(value: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """Everything that stands at `path` in a document of whatever shape."""
    if not path:
        yield value
    elif path[0] == "*" and isinstance(value, list):
        for item in value:
            yield from _found(item, path[1:])
    elif isinstance(value, dict) and path[0] in value:
        yield from _found(value[path[0]], path[1:])
