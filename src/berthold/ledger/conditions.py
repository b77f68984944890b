"""What is under way, in the very words of the partial indexes: with a bound value, or in other words, SQLite
reads the whole table instead, which keeps everything that ever was."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import TextClause, text

from berthold.ledger import schema

WORKED_ON = ("running", "undoing")


def _among(column: str, words: Iterable[str]) -> TextClause:
    named = ",".join(f"'{word}'" for word in words)
    return text(f"{column} IN ({named})")


IS_UNFINISHED = _among("move.state", schema.UNFINISHED)
IS_WORKED_ON = _among("move.state", WORKED_ON)
IS_ON_TIME = _among("server.condition", ("soft-deleted", "shelved"))
IS_OPEN = text("ask.state = 'open'")
