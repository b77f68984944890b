"""Part a: claims per second, over what the same PostgreSQL does for its own `pgbench`.

A claim here is the transaction that a move's `Place` line ends in: a member of an
anti-affinity group takes a seat and three resource classes of a host, the move goes on to
its next line, which asks the host's agent; event and history are written. It is called as
the runner calls it: in each of four processes eight moves await theirs on one event loop,
and those that wait share a transaction (decisions/0011).

`pgbench -N` is the yardstick for claims that are spread over all hosts (one update, one
select, one insert); for claims that all want one host, an update of one single row.
"""

from __future__ import annotations

import asyncio
import gc
import math
import multiprocessing
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.synchronize import Barrier

from sqlalchemy import make_url, text

from bench import stock
from bench.figures import Figure
from bench.stock import Job
from berthold.lab import engines
from berthold.ledger import audit
from berthold.ledger.store import Store
from berthold.moves import turns, twin

SERVER = {
    "fsync": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
}
AIM_SPREAD, AIM_ONE_HOST = 0.35, 0.4
LONG_S = 120.0


@dataclass(frozen=True)
class Size:
    """How much is done. `stock`: how many claims are made ready for each second."""

    seconds: float = 3.0
    processes: int = 4
    moves: int = 8  # under way at once, in each process
    hosts: int = 1_000
    stock: int = 3_000
    scale: int = 10

    @property
    def clients(self) -> int:
        return self.processes * self.moves


def measure(size: Size | None = None) -> list[Figure]:
    """The ratios, with what they are ratios of."""
    size = size or Size()
    server = engines.PostgreSQL(**SERVER)
    try:
        bench_url = server.create_bare()
        pgbench = partial(_pgbench, server, bench_url, size)
        pgbench("-i", "-q", "-s", str(size.scale))
        plain = pgbench("-N")
        spread, together = _claims(server, size, hosts=size.hosts)
        plain = (plain + pgbench("-N")) / 2
        steps, _ = _claims(server, size, hosts=size.hosts, by_steps=True)
        one_row = pgbench("-n", script="UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1;")
        one_host, one_together = _claims(server, size, hosts=1)
        settings = (f"{name} {server.ask(f'SHOW {name}')}" for name in ("fsync", "synchronous_commit"))
        return [
            Figure("PostgreSQL", server.version),
            Figure(", ".join(settings), f"{size.clients} clients"),
            Figure("pgbench -N", plain, "/s"),
            Figure(f"claims on {size.hosts:,} hosts", spread, "/s"),
            Figure("… over pgbench -N", spread / plain, at_least=AIM_SPREAD),
            Figure("… of one transaction", together),
            Figure("… taken step by step", steps, "/s"),
            Figure("… over pgbench -N", steps / plain),
            Figure("pgbench, one row", one_row, "/s"),
            Figure("claims on one host", one_host, "/s"),
            Figure("… over pgbench, one row", one_host / one_row, at_least=AIM_ONE_HOST),
            Figure("… of one transaction", one_together),
        ]
    finally:
        server.stop()


def _pgbench(server: engines.PostgreSQL, url: str, size: Size, *options: str, script: str = "") -> float:
    """Run pgbench; its transactions per second (0 when it only fills its tables)."""
    where = make_url(url)
    address = {"-h": where.query.get("host") or where.host, "-U": where.username, "-p": where.port}
    command = [server.program("pgbench"), *options]
    command += [str(part) for pair in address.items() if pair[1] for part in pair]
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        if "-i" not in options:
            command += ["-M", "prepared", "-c", str(size.clients), "-j", "2"]
            command += ["-T", str(max(1, round(size.seconds)))]
        if script:
            file.write(script)
            file.flush()
            command += ["-f", file.name]
        done = subprocess.run(
            [*command, str(where.database)],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PGPASSWORD": where.password or ""},
        )
    found = re.search(r"tps = ([\d.]+)", done.stdout)
    return float(found[1]) if found else 0.0


def _claims(
    server: engines.PostgreSQL, size: Size, hosts: int, by_steps: bool = False
) -> tuple[float, float]:
    """Claims per second by `size.clients` clients, and how many of them one transaction took. Afterwards
    every promise must hold."""
    url = server.lend()
    try:
        store = Store(url)
        jobs = stock.prepare(store, hosts=hosts, claims=max(size.clients, int(size.stock * size.seconds)))
        # As a database is that has been used for a minute.
        store.write_now(lambda tx: tx.execute(text("ANALYZE")))
        server.ask("CHECKPOINT")
        found = _race(url, jobs, size, by_steps)
        broken = store.read_now(audit.audit)
        assert not broken, broken[:3]
        store.close()
        return found
    finally:
        server.back(url)


def _race(url: str, jobs: Sequence[Job], size: Size, by_steps: bool) -> tuple[float, float]:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(size.processes)
    with context.Pool(size.processes, initializer=_meet_at, initargs=(barrier,)) as pool:
        work = partial(_client, url, size, by_steps)
        found = pool.map(work, [jobs[n :: size.processes] for n in range(size.processes)], chunksize=1)
    done = sum(each.done for each in found)
    transactions = done if by_steps else sum(each.transactions for each in found)
    return sum(each.done / each.seconds for each in found), done / transactions


@dataclass(frozen=True)
class Done:
    """What one process did."""

    done: int
    seconds: float
    transactions: int


MEETING: list[Barrier] = []


def _meet_at(barrier: Barrier) -> None:
    MEETING.append(barrier)


def _client(url: str, size: Size, by_steps: bool, jobs: Sequence[Job]) -> Done:
    """One process, once all processes are ready."""
    gc.freeze()  # what is made ready is the bench's own: no conductor holds thousands of moves
    return asyncio.run(_run(Store(url), size, by_steps, jobs))


async def _run(store: Store, size: Size, by_steps: bool, jobs: Sequence[Job]) -> Done:
    shares = [jobs[n :: size.moves] for n in range(size.moves)]
    # Connections are opened and statements prepared before the clock starts.
    await asyncio.gather(*(_take(store, share[:1], by_steps) for share in shares))
    MEETING[0].wait(LONG_S)
    transactions, begun = store.calls.transactions, time.perf_counter()
    until = begun + size.seconds
    done = await asyncio.gather(*(_take(store, share[1:], by_steps, until) for share in shares))
    took = time.perf_counter() - begun
    store.close()
    return Done(sum(done), took, store.calls.transactions - transactions)


async def _take(store: Store, jobs: Sequence[Job], by_steps: bool, until: float = math.inf) -> int:
    """Take these claims one after another, as long as there is time; how many were taken."""
    for number, job in enumerate(jobs):
        if time.perf_counter() > until:
            return number
        if by_steps:
            await store.write(turns.place_line, job.lease, job.want)
        else:
            plain = twin.claiming(store, job.lease, job.want, job.seen, job.host_name)
            assert plain
            assert await store.call(plain.statement, plain.values, twin.SHARING), "a claim was declined"
            store.bus.tell(plain.topics)
    return len(jobs)
