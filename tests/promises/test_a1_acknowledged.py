"""A1: what was acknowledged survives; what was not leaves no trace. The history has it in order."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from sqlalchemy import select

from berthold.ledger import claims, schema
from berthold.ledger.store import Store, Tx
from ledger_world import add_hosts, add_server, claim, events, fence_and_leave, violations

WRITER = """
    import sys
    sys.path.insert(0, sys.argv[2])
    from ledger_world import add_server, claim
    from berthold.ledger.store import Store, Tx

    def create(tx: Tx, name: str) -> str:
        return claim(tx, add_server(tx, name), "h0")

    store = Store(sys.argv[1])
    for number in range(10_000):
        print(store.write_now(create, f"s{number}"), flush=True)
"""
ENOUGH = 20


def test_every_claim_that_was_acknowledged_outlives_the_process(store: Store) -> None:
    store.write_now(lambda tx: add_hosts(tx, 1, VCPU=20_000, MEMORY_MB=20_000_000))
    command = [sys.executable, "-c", textwrap.dedent(WRITER), store.url, str(Path(__file__).parents[1])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        acknowledged = [writer.stdout.readline().strip() for _ in range(ENOUGH)]
        writer.send_signal(signal.SIGKILL)
        acknowledged += [line.strip() for line in writer.stdout if line.endswith("\n")]
    standing = set(store.read_now(lambda tx: tx.execute(select(schema.claim.c.id)).scalars().all()))
    assert "" not in acknowledged
    assert set(acknowledged) <= standing
    # One more at most: committed, and killed before it could say so.
    assert len(standing) <= len(acknowledged) + 1
    assert violations(store) == []


def life(tx: Tx) -> None:
    add_hosts(tx, 2)
    add_server(tx, "s")
    source = claim(tx, "s", "h0")
    target = claim(tx, "s", "h1", "target")
    claims.switch_home(tx, "s")
    fence_and_leave(tx, source, "h0")
    claims.release(tx, source)
    claims.release(tx, target)


def test_the_history_tells_a_servers_life_in_order(store: Store) -> None:
    store.write_now(life)
    assert store.read_now(events, "s") == [
        ("claimed", "h0"),
        ("claimed", "h1"),
        ("home", "h1"),
        ("left", "h0"),
        ("freed", "h0"),
        ("freed", "h1"),
    ]


def test_the_history_tells_what_a_host_offers_and_what_a_claim_holds(store: Store) -> None:
    store.write_now(life)
    h = schema.history.c
    rows = store.read_now(
        lambda tx: tx.execute(
            select(h.event, h.amounts).where(h.host_id == "h0", h.event.in_(["offered", "claimed"]))
        ).all()
    )
    assert dict(map(tuple, rows)) == {
        "offered": {"VCPU": 64, "MEMORY_MB": 65536},
        "claimed": {"VCPU": 1, "MEMORY_MB": 512},
    }
