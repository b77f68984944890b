"""The query part of a URL: typed reading, with a 400 that says what was expected.

Which names a route knows is in its row. Before 2.75 (or the version that the row says)
unknown names are ignored, as they always were; from then on they are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from berthold.errors import Malformed

TRUE = {"1", "t", "true", "on", "y", "yes"}
FALSE = {"0", "f", "false", "off", "n", "no"}
LONGEST = 1000


@dataclass(frozen=True)
class Page:
    """Which part of a list: at most `limit` things after `marker` (an id)."""

    limit: int
    marker: str | None
    limited: bool  # whether the client set the limit


class Query:
    """Parameters in the order they came; where one comes twice the last counts, unless all are read."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self.pairs = list(pairs)
        for name, value in self.pairs:
            if "\0" in name or "\0" in value:
                raise Malformed("The query contains a NUL character, which no value may hold.")
            if len(value) > LONGEST:
                raise Malformed(f"The query parameter {name[:40]} is longer than {LONGEST} characters.")

    def refuse_others(self, known: frozenset[str]) -> None:
        """Raise `Malformed` if there is a parameter that is not `known`."""
        for name, _ in self.pairs:
            if name not in known:
                raise Malformed(
                    f"Additional properties are not allowed ('{name[:60]}' was unexpected) in the query;"
                    f" known here: {', '.join(sorted(known)) or 'none'}."
                )

    def all(self, name: str) -> list[str]:
        """Every value of a parameter."""
        return [value for key, value in self.pairs if key == name]

    def text(self, name: str) -> str | None:
        """The value of a parameter, or None."""
        values = self.all(name)
        return values[-1] if values else None

    def flag(self, name: str, *, default: bool | None = None, lax: bool = False) -> bool | None:
        """A boolean in any of the usual spellings; with `lax` another spelling is the default."""
        text = self.text(name)
        if text is None:
            return default
        if text.strip().lower() in TRUE or (text == "" and name == "all_tenants"):
            return True
        if text.strip().lower() in FALSE:
            return False
        if lax:
            return default
        raise Malformed(f"Unrecognized value '{text[:60]}' for {name}; expected true or false.")

    def number(self, name: str) -> int | None:
        """A number that is not negative."""
        text = self.text(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 16):
            raise Malformed(f"Invalid input for query parameter {name}: '{text[:60]}' is not a number >= 0.")
        return int(text)

    def moment(self, name: str) -> float | None:
        """A moment in ISO 8601, UTC unless it says otherwise; as seconds since 1970."""
        text = self.text(name)
        if text is None:
            return None
        try:
            when = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
        except ValueError:
            raise Malformed(
                f"Invalid input for query parameter {name}: '{text[:60]}' is not a 'date-time' in ISO 8601."
            ) from None
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()

    def period(self, *, before: bool = True) -> tuple[float | None, float | None]:
        """`changes-since` and, where the version knows it, `changes-before`. Raises `Malformed` for a
        period that ends before it begins."""
        since, until = self.moment("changes-since"), self.moment("changes-before") if before else None
        if since is not None and until is not None and since > until:
            raise Malformed("The value of changes-since must be less than or equal to changes-before.")
        return since, until

    def page(self, limit_max: int) -> Page:
        """Which part of the list is wanted."""
        limit = self.number("limit")
        return Page(
            limit_max if limit is None else min(limit, limit_max), self.text("marker"), limit is not None
        )

    def sorting(self, known: Iterable[str], default: str, way: str = "desc") -> list[tuple[str, bool]]:
        """Sort keys with whether each goes down; `default`, going `way`, if none is given."""
        keys, directions = self.all("sort_key"), self.all("sort_dir")
        if not keys:
            keys = [default]
        if len(directions) > len(keys) and self.all("sort_key"):
            raise Malformed("Sort direction size exceeds sort key size.")
        directions += [directions[-1] if directions else way] * (len(keys) - len(directions))
        for key in keys:
            if key not in known:
                raise Malformed(
                    f"Cannot sort by '{key[:60]}'; sort_key is one of {', '.join(sorted(known))}."
                )
        directions = directions[: len(keys)]
        for direction in directions:
            if direction not in ("asc", "desc"):
                raise Malformed(f"Unknown sort direction '{direction[:60]}', must be 'desc' or 'asc'.")
        return [(key, toward == "desc") for key, toward in zip(keys, directions, strict=True)]

    def following(self, marker: str) -> str:
        """This query, asking for what comes after `marker`."""
        kept = [(name, value) for name, value in self.pairs if name != "marker"]
        return urlencode([*kept, ("marker", marker)])
