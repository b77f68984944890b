"""Topics between processes: LISTEN and NOTIFY on a connection of its own.

What is told on this process's bus is gathered and sent by one thread in one NOTIFY, after the
commits that told it and never inside their transactions. What other processes send wakes the
waiters of this one and goes no further, so nothing goes round. A lost connection is made
again; a wake-up lost meanwhile costs a second, since whoever waits also polls.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sqlalchemy import make_url

from berthold.ledger.bus import Bus

if TYPE_CHECKING:
    import psycopg

log = logging.getLogger("berthold.notify")

CHANNEL = "berthold"
# Topics told within this time go together.
GATHER_S = 0.005
RECONNECT_S = 0.5
# PostgreSQL takes less than 8000 bytes at once.
PAYLOAD_MAX = 7900


class Notifier:
    """Carries what is told on `bus` to the other processes on the database, and theirs to it."""

    def __init__(self, url: str, bus: Bus) -> None:
        self._conninfo = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        self._bus = bus
        self._lock = threading.Lock()
        self._told: dict[str, None] = {}
        self._stopping = threading.Event()
        self._here, self._there = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)
        # Set while the other processes are heard.
        self.listening = threading.Event()

    def start(self) -> None:
        """Begin; returns at once, whether the database answers or not. Once for each notifier."""
        self._there.setblocking(False)
        self._bus.carry(self._gather)
        self._thread.start()

    def stop(self) -> None:
        """Send what is gathered if that can be done, and end."""
        self._stopping.set()
        self._wake()
        self._thread.join()
        self._here.close()
        self._there.close()

    def _gather(self, topics: list[str]) -> None:
        if self._stopping.is_set():
            return
        with self._lock:
            wakes = not self._told
            self._told.update(dict.fromkeys(topics))
        if wakes:
            self._wake()

    def _wake(self) -> None:
        try:
            self._there.send(b".")
        except OSError:
            return  # it is awake already, or ended

    def _run(self) -> None:
        import psycopg  # not by those who have SQLite

        while not self._stopping.is_set():
            try:
                with psycopg.connect(self._conninfo, autocommit=True, connect_timeout=5) as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    self.listening.set()
                    self._serve(connection)
            except psycopg.Error as error:
                log.warning("other processes are not heard, a second is lost at times: %s", error)
            self.listening.clear()
            self._stopping.wait(RECONNECT_S)

    def _serve(self, connection: psycopg.Connection) -> None:
        self._send(connection)
        while not self._stopping.is_set():
            self._hear(connection)
            readable, _, _ = select.select([connection.fileno(), self._here.fileno()], [], [])
            if self._here.fileno() in readable:
                self._here.recv(4096)
                self._stopping.wait(GATHER_S)
                self._send(connection)

    def _send(self, connection: psycopg.Connection) -> None:
        """Send what was gathered; if that fails it is still there for the next connection."""
        with self._lock:
            topics = list(self._told)
        for payload in payloads(topics):
            connection.execute("SELECT pg_notify(%s, %s)", [CHANNEL, payload])
        with self._lock:
            for topic in topics:
                self._told.pop(topic, None)
            more = bool(self._told)
        if more:
            self._wake()

    def _hear(self, connection: psycopg.Connection) -> None:
        mine = connection.info.backend_pid
        for heard in connection.notifies(timeout=0):
            if heard.pid != mine:
                self._bus.wake(heard.payload.split())


def payloads(topics: Iterable[str]) -> Iterator[str]:
    """The topics in as few messages as PostgreSQL takes."""
    message = ""
    for topic in topics:
        if message and len(message) + 1 + len(topic) > PAYLOAD_MAX:
            yield message
            message = ""
        message = f"{message} {topic}" if message else topic
    if message:
        yield message
