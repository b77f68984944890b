"""What is under way, in the very words of the partial indexes: with a bound value, or in other words, SQLite
reads the whole table instead, which keeps everything that ever was."""

from __future__ import annotations

from sqlalchemy import text

IS_UNFINISHED = text("move.state IN ('running','undoing','waiting','stuck')")
IS_WORKED_ON = text("move.state IN ('running','undoing')")
IS_ON_TIME = text("server.condition IN ('soft-deleted','shelved')")
IS_OPEN = text("ask.state = 'open'")
