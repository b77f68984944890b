"""What an agent has begun and what came of it, so that it does each ask once.

Written before a verb is carried out and again when it is done; an answer stays until the
control plane has heard it, over a restart and a `kill -9`. An agent that is handed the
same ask again repeats its answer from here.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec

from berthold.agent.protocol import Answer, Ask

# How many asks back a heard answer is still known. Asks come again within seconds, so this
# is generous; it only keeps the file from growing for ever.
KEPT = 10_000

TABLES = (
    """CREATE TABLE IF NOT EXISTS journal (
        agent TEXT NOT NULL, ask TEXT NOT NULL, server TEXT NOT NULL, seq INTEGER NOT NULL,
        answer BLOB, heard INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (agent, ask))""",
    "CREATE INDEX IF NOT EXISTS journal_of_server ON journal (agent, server, seq)",
    "CREATE INDEX IF NOT EXISTS journal_by_seq ON journal (agent, seq)",
    "CREATE TABLE IF NOT EXISTS journal_host (agent TEXT PRIMARY KEY, host TEXT NOT NULL)",
)


class Journal:
    """The journal of one agent, in a SQLite database that others may share.

    The connection is in autocommit mode; each method is one statement and durable when it
    returns, as far as the connection's settings make it so.
    """

    def __init__(self, db: sqlite3.Connection, agent: str) -> None:
        self._db = db
        self._agent = agent
        for statement in TABLES:
            db.execute(statement)

    @classmethod
    def open(cls, path: Path, agent: str) -> Journal:
        """A journal in a file of its own that survives a loss of power."""
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        return cls(db, agent)

    def close(self) -> None:
        self._db.close()

    def speak_for(self, host: str) -> None:
        """The agent speaks for the host of this id from now on. Another id is another control
        plane (or a host made anew), whose numbers begin at one: what was noted is void."""
        known = self._one("SELECT host FROM journal_host WHERE agent = ?", self._agent)
        if known != host:
            self._db.execute("DELETE FROM journal WHERE agent = ?", (self._agent,))
            self._db.execute("INSERT OR REPLACE INTO journal_host VALUES (?, ?)", (self._agent, host))

    def answer_to(self, ask: str) -> Answer | None:
        """What was answered to the ask, heard or not."""
        answer = self._one("SELECT answer FROM journal WHERE agent = ? AND ask = ?", self._agent, ask)
        return msgspec.json.decode(answer, type=Answer) if answer is not None else None

    def has_begun(self, ask: str) -> bool:
        """Whether the ask was ever begun; it may have been done."""
        return self._one("SELECT 1 FROM journal WHERE agent = ? AND ask = ?", self._agent, ask) is not None

    def latest(self, server: str) -> int:
        """The number of the latest ask begun for the server; 0 if there was none."""
        seq = self._one("SELECT max(seq) FROM journal WHERE agent = ? AND server = ?", self._agent, server)
        return int(seq or 0)

    def begin(self, ask: Ask) -> None:
        """The ask is about to be carried out (again, if the agent died on the way)."""
        self._db.execute(
            "INSERT OR IGNORE INTO journal (agent, ask, server, seq) VALUES (?, ?, ?, ?)",
            (self._agent, ask.id, ask.server, ask.seq),
        )

    def finish(self, answer: Answer) -> None:
        """This is what came of it."""
        self._db.execute(
            "UPDATE journal SET answer = ? WHERE agent = ? AND ask = ?",
            (msgspec.json.encode(answer), self._agent, answer.ask),
        )

    def unheard(self) -> list[Answer]:
        """Answers that the control plane may not have heard, in the order of the asks."""
        rows = self._db.execute(
            "SELECT answer FROM journal WHERE agent = ? AND answer IS NOT NULL AND NOT heard ORDER BY seq",
            (self._agent,),
        )
        return [msgspec.json.decode(answer, type=Answer) for (answer,) in rows.fetchall()]

    def heard(self, ask: str) -> None:
        """The control plane has recorded the answer."""
        self._db.execute("UPDATE journal SET heard = 1 WHERE agent = ? AND ask = ?", (self._agent, ask))
        self._db.execute(
            "DELETE FROM journal WHERE agent = :agent AND heard"
            " AND seq < (SELECT max(seq) FROM journal WHERE agent = :agent) - :kept",
            {"agent": self._agent, "kept": KEPT},
        )

    def _one(self, statement: str, *values: str) -> Any:
        row = self._db.execute(statement, values).fetchone()
        return row[0] if row else None
