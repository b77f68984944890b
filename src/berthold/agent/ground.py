"""The simulated hardware under all simulated hosts.

Which guests there are, where and in which state, in a small SQLite database of its own: so
that guests outlive the agents, a restart and a `kill -9`, as real ones do; several
processes may share one. Like real hardware it keeps no promise of the ledger: it will run a
server on two hosts if told to, and remembers that it did.

For one thread at a time. A guest's state is `running`, `paused`, `suspended`, `stopped`,
`incoming` (prepared, not yet here) or `remains` (sent away; only its files are left).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from berthold.agent.driver import Impossible
from berthold.agent.journal import Journal
from berthold.agent.protocol import Guest
from berthold.clock import Clock, SystemClock

TABLES = (
    "CREATE TABLE IF NOT EXISTS agent (name TEXT PRIMARY KEY, key TEXT NOT NULL)",
    # `attempt` counts sendings begun and ended: only the latest may hand the guest over.
    """CREATE TABLE IF NOT EXISTS guest (
        host TEXT NOT NULL, server TEXT NOT NULL, state TEXT NOT NULL, disks INTEGER NOT NULL,
        attempt INTEGER NOT NULL DEFAULT 0, boots INTEGER NOT NULL DEFAULT 0, document BLOB NOT NULL,
        PRIMARY KEY (host, server),
        CHECK (state IN ('running', 'paused', 'suspended', 'stopped', 'incoming', 'remains')))""",
    # Written at the very instant, so that no judge can look too late.
    "CREATE TABLE IF NOT EXISTS doubled (server TEXT NOT NULL, host TEXT NOT NULL, other TEXT NOT NULL)",
    *(
        f"""CREATE TRIGGER IF NOT EXISTS doubled_by_{event.split()[0].lower()} AFTER {event} ON guest
            WHEN NEW.state IN ('running', 'paused') BEGIN
            INSERT INTO doubled SELECT server, NEW.host, host FROM guest
            WHERE server = NEW.server AND host <> NEW.host AND state IN ('running', 'paused'); END"""
        for event in ("INSERT", "UPDATE OF state")
    ),
)


@dataclass(frozen=True)
class Place:
    """A guest on a host. `disks`: whether its disks are there, or it has none of its own;
    `boots`: how often it was started there."""

    state: str
    disks: bool
    attempt: int
    boots: int
    guest: Guest


@dataclass(frozen=True)
class Doubled:
    """A server that was started on `host` while it ran on `other`."""

    server: str
    host: str
    other: str


class Ground:
    """All simulated machines, at `path` (":memory:" for one process that forgets)."""

    def __init__(self, path: str | Path = ":memory:", clock: Clock | None = None) -> None:
        self._path = str(path)
        self._clock = clock or SystemClock()
        self._db = sqlite3.connect(self._path, timeout=30.0, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        # The death of a process loses nothing that was written. Of the machine: it is a simulation.
        self._db.execute("PRAGMA synchronous = OFF")
        with self.together():
            for statement in TABLES:
                self._db.execute(statement)

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is changed within happens at one instant for everybody, or not at all."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def snapshot(self) -> bytes:
        """Everything there is, to go back to."""
        return self._db.serialize()

    def restore(self, snapshot: bytes) -> None:
        """Go back to a snapshot. In memory only: another process would not notice."""
        assert self._path == ":memory:", "only a ground in memory can go back"
        self._db.deserialize(snapshot)

    def changes(self) -> int:
        """Rises whenever this process changes anything. For judges that look often."""
        return self._db.total_changes

    def journal(self, host: str) -> Journal:
        """The journal of that host's agent."""
        return Journal(self._db, host)

    def key(self, host: str) -> str:
        """The key of that host's agent, drawn when it is first asked for."""
        self._db.execute("INSERT OR IGNORE INTO agent VALUES (?, ?)", (host, self._clock.new_id()))
        return str(self._db.execute("SELECT key FROM agent WHERE name = ?", (host,)).fetchone()[0])

    # -- Looking ------------------------------------------------------------------------

    def place(self, host: str, server: str) -> Place | None:
        """The guest as it is on that host, if anything of it is there."""
        row = self._db.execute(
            "SELECT state, disks, attempt, boots, document FROM guest WHERE host = ? AND server = ?",
            (host, server),
        ).fetchone()
        if row is None:
            return None
        return Place(row[0], bool(row[1]), row[2], row[3], msgspec.json.decode(row[4], type=Guest))

    def states(self, host: str) -> dict[str, str]:
        """The state of everything that is on a host, by server."""
        rows = self._db.execute("SELECT server, state FROM guest WHERE host = ? ORDER BY server", (host,))
        return dict(rows.fetchall())

    def runners(self, server: str) -> list[str]:
        """The hosts that run the server now; more than one is a disaster."""
        rows = self._db.execute(
            "SELECT host FROM guest WHERE server = ? AND state = 'running' ORDER BY host", (server,)
        )
        return [host for (host,) in rows.fetchall()]

    def double_running(self) -> list[Doubled]:
        """Every time that a server was started on a second host while it ran on a first, even
        if that is over. For judges: must be empty."""
        rows = self._db.execute("SELECT server, host, other FROM doubled ORDER BY rowid")
        return [Doubled(*row) for row in rows.fetchall()]

    # -- Changing -----------------------------------------------------------------------

    def put(self, host: str, guest: Guest, state: str, *, disks: bool) -> None:
        """From now on this guest is on that host in this state."""
        self._db.execute(
            "INSERT INTO guest (host, server, state, disks, document) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (host, server) DO UPDATE SET"
            " state = excluded.state, disks = excluded.disks, document = excluded.document",
            (host, guest.server, state, disks, msgspec.json.encode(guest)),
        )

    def boot(self, host: str, guest: Guest) -> None:
        """From now on this guest runs on that host, started from the beginning."""
        self.put(host, guest, "running", disks=True)
        self._db.execute(
            "UPDATE guest SET boots = boots + 1 WHERE host = ? AND server = ?", (host, guest.server)
        )

    def remove(self, host: str, server: str) -> None:
        """Nothing of the guest is on that host any more."""
        self._db.execute("DELETE FROM guest WHERE host = ? AND server = ?", (host, server))

    def power_off(self, host: str) -> None:
        """The machine fails: what ran is stopped, what was coming in is lost."""
        with self.together():
            self._db.execute("DELETE FROM guest WHERE host = ? AND state = 'incoming'", (host,))
            self._db.execute(
                "UPDATE guest SET state = 'stopped' WHERE host = ? AND state IN ('running', 'paused')",
                (host,),
            )

    def renew_attempt(self, host: str, server: str) -> int:
        """The number of a new attempt to send the guest. No older one can end well any more."""
        row = self._db.execute(
            "UPDATE guest SET attempt = attempt + 1 WHERE host = ? AND server = ? RETURNING attempt",
            (host, server),
        ).fetchall()
        return int(row[0][0]) if row else 0

    def hand_over(self, host: str, server: str, target: str, attempt: int) -> Guest:
        """The guest stops running on `host` and runs on `target`, at one instant.

        If it went there before, nothing changes. Raises `Impossible` if it does not run here, if the
        target was not prepared, or if the attempt was ended meanwhile.
        """
        with self.together():
            here, there = self.place(host, server), self.place(target, server)
            runs_here = here is not None and here.state == "running"
            if there is not None and there.state == "running" and not runs_here:
                return there.guest
            if here is None or not runs_here:
                raise Impossible(f"{server} does not run on {host}")
            if there is None or there.state != "incoming":
                raise Impossible(f"host {target} was not prepared for {server}")
            if here.attempt != attempt:
                raise Impossible(f"the sending of {server} was ended")
            self.put(host, here.guest, "remains", disks=True)
            self.put(target, there.guest, "running", disks=True)
            return there.guest

    def copy_disks(self, host: str, server: str, target: str) -> None:
        """Copy the stopped guest's disks to the prepared `target`, where it is stopped from now on; it
        stays here too."""
        with self.together():
            here, there = self.place(host, server), self.place(target, server)
            if here is None or here.state not in ("stopped", "paused", "running"):
                raise Impossible(f"{server} is not on {host}")
            if here.state != "stopped":
                raise Impossible(f"{server} runs on {host}: its disks cannot be copied")
            if there is None:
                raise Impossible(f"host {target} was not prepared for {server}")
            if there.state == "incoming":
                self.put(target, there.guest, "stopped", disks=True)
