"""M4: a process that is stopped (SIGSTOP) inside a transaction holds its move for ten seconds at most."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from berthold.ledger import moves
from berthold.ledger.store import Store, Tx
from ledger_world import add_hosts, add_move, add_server

PROMISED_S = 10.0
LEASE_S = 1.0

# A conductor that leases the move and stops itself while it holds the move's row.
WORKER = """
import os, signal, sys
from berthold.errors import Stale
from berthold.ledger import moves
from berthold.ledger.store import Store

store = Store(sys.argv[1])
(lease,) = store.write_now(moves.take, "stopped", float(sys.argv[2]))

def turn(tx):
    moves.hold(tx, lease)
    os.kill(os.getpid(), signal.SIGSTOP)
    moves.write(tx, lease, line=1)

try:
    store.write_now(turn)
except Stale:
    print("stale")
"""


def a_move(tx: Tx) -> str:
    add_hosts(tx, 1)
    add_server(tx, "a")
    return add_move(tx, "a")


def test_another_conductor_takes_the_move_and_the_stopped_one_can_write_nothing(postgresql_url: str) -> None:
    store = Store(postgresql_url)
    move = store.write_now(a_move)
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, postgresql_url, str(LEASE_S)], stdout=subprocess.PIPE, text=True
    )
    try:
        _, status = os.waitpid(worker.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

        until = time.monotonic() + PROMISED_S
        taken: list[moves.Lease] = []
        while not taken and time.monotonic() < until:
            taken = store.write_now(moves.take, "another", LEASE_S)
        assert [lease.move_id for lease in taken] == [move]

        worker.send_signal(signal.SIGCONT)
        told, _ = worker.communicate(timeout=60)
        assert told.strip() == "stale"
        row = store.read_now(moves.find, move)
        assert row is not None
        assert (row["line"], row["owner"]) == (0, "another")
    finally:
        worker.kill()
        worker.wait()
        store.close()
