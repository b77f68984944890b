"""Lists as clients ask for them: by what is shown of each thing, in an order, in pages (`http.page`).

A filter that is known and does not fit leaves a thing out, an order that cannot be is a bad request:
whoever deletes what a list shows must be able to rely on it.
"""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable, Iterable
from typing import Any

from berthold.companions.http import Asked, Document
from berthold.errors import Malformed

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
    "eq": operator.eq,
    "neq": operator.ne,
}
MOMENTS = ("created_at", "updated_at")


def fitting(documents: Iterable[Document], wanted: dict[str, str]) -> list[Document]:
    """The documents that show every wanted value, or `in:` which it is one of, or a moment on the wanted
    side (`gt:`, `lte:`, …). Raises `Malformed` for what is no moment."""
    judges = [_judge(name, text) for name, text in wanted.items()]
    return [each for each in documents if all(judge(each) for judge in judges)]


def _judge(name: str, text: str) -> Callable[[Document], bool]:
    if name in MOMENTS:
        way, _, when = text.partition(":") if text.partition(":")[0] in OPERATORS else ("eq", "", text)
        asked = _moment(when)
        return lambda shown: OPERATORS[way](_moment(shown[name]), asked)
    if text.startswith("in:"):
        several = {part.strip('"') for part in text.removeprefix("in:").split(",")}
        return lambda shown: str(shown.get(name)) in several
    return lambda shown: _is(shown.get(name), text)


def _is(value: Any, text: str) -> bool:
    return str(value) == text or (isinstance(value, bool) and str(value).lower() == text.lower())


def _moment(text: str) -> datetime.datetime:
    """A moment in ISO 8601, UTC unless it says otherwise."""
    try:
        when = datetime.datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
    except ValueError:
        raise Malformed(f"{text!r} is no moment in ISO 8601") from None
    return when if when.tzinfo else when.replace(tzinfo=datetime.UTC)


def in_order(asked: Asked, documents: list[Document], keys: Iterable[str], way: str) -> list[Document]:
    """Sorted as `sort=key:direction,…` or `sort_key` and `sort_dir` say, `way` without a direction; as they
    came without a key. Raises `Malformed` for other keys and directions."""
    known = set(keys)
    for key, direction in reversed(_sorting(asked)):
        if key not in known or direction not in ("", "asc", "desc"):
            raise Malformed(f"cannot sort by {key}:{direction or way}; keys are {', '.join(sorted(known))}")
        down = (direction or way) == "desc"
        documents = sorted(documents, key=lambda each: _rank(each.get(key)), reverse=down)
    return documents


def _sorting(asked: Asked) -> list[tuple[str, str]]:
    params = asked.request.query_params
    if text := params.get("sort"):
        return [(key, way) for key, _, way in (part.partition(":") for part in text.split(",")) if key]
    keys, ways = params.getlist("sort_key"), params.getlist("sort_dir")
    ways += ways[-1:] * (len(keys) - len(ways)) if ways else [""] * len(keys)
    return [(key, way) for key, way in zip(keys, ways, strict=False) if key]


def _rank(value: Any) -> tuple[bool, bool, Any]:
    """Numbers as such, all else as text; what is unknown before both."""
    if isinstance(value, int):
        return (value is not None, False, value)
    return (value is not None, True, str(value))
