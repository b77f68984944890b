"""Parts b and d: the all-in-one at work, and how much memory it keeps.

It is `berthold up` itself, in a process of its own, as a user starts it: database in a file,
simulated hosts that take no time, heartbeats on. The client is another process and speaks
HTTP to it. A create is done when its server is ACTIVE and its move is over.

CPU, commits and memory are those of the all-in-one alone: the API, the conductor, both
sides of the agents' door, the hosts. It has worked for a moment before the clock starts, as
a cloud has that anybody uses: what is compiled once is compiled.
"""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import os
import re
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

import httpx
import uvloop
from sqlalchemy import Connection, Engine, event, func, select

from bench.figures import Figure
from berthold.cli import processes
from berthold.cli.home import Home
from berthold.ledger import audit, moves, schema
from berthold.ledger.store import Store, Tx

HOSTS = (100, 1_000)
CREATES, MIGRATIONS = 500, 200
AT_ONCE = 32  # requests, and so many before the clock starts
AIM_CREATES, AIM_CPU_MS = 100.0, 20.0
PATIENCE_S = 240.0
LOOK_S = 0.02
MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Cost:
    """What some work cost: per second, and of each."""

    per_second: float
    cpu_ms: float
    commits: float


@dataclass(frozen=True)
class Outcome:
    """What one process found. Memory in MiB: with all hosts registered, and after the work."""

    create: Cost | None
    migration: Cost | None
    memory: float
    memory_after: float


def measure(sizes: tuple[int, ...] = HOSTS, count: int = CREATES, moves: int = MIGRATIONS) -> list[Figure]:
    """Creates and live migrations, for each number of hosts."""
    figures = []
    for hosts in sizes:
        found = _found(hosts, count, moves)
        assert found.create is not None
        assert found.migration is not None
        figures.append(
            Figure(f"creates to ACTIVE, {hosts:,} hosts", found.create.per_second, "/s", at_least=AIM_CREATES)
        )
        figures.append(Figure("… CPU of each", found.create.cpu_ms, "ms", at_most=AIM_CPU_MS))
        figures.append(Figure("… commits of each", found.create.commits))
        figures.append(Figure(f"live migrations, {hosts:,} hosts", found.migration.per_second, "/s"))
        figures.append(Figure("… CPU of each", found.migration.cpu_ms, "ms", at_most=AIM_CPU_MS))
        figures.append(Figure("… commits of each", found.migration.commits))
        figures.append(Figure("resident memory afterwards", found.memory_after, "MiB"))
    return figures


def weigh(hosts: int = max(HOSTS)) -> list[Figure]:
    """Resident memory of the all-in-one, its hosts registered and heard every second."""
    return [Figure(f"resident memory, {hosts:,} hosts", _found(hosts, 0, 0).memory, "MiB")]


def _found(hosts: int, count: int, migrations: int) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="berthold-bench-") as name:
        return uvloop.run(_work(Path(name), hosts, count, migrations))


class Cloud:
    """The all-in-one: its process, its database, an administrator of it, and a meter."""

    def __init__(self, pid: int, commits: Synchronized[int], store: Store, http: httpx.AsyncClient) -> None:
        self.store = store
        self._pid = pid
        self._commits = commits
        self._http = http

    async def call(self, path: str, body: Any = None) -> Any:
        answer = await self._http.request("GET" if body is None else "POST", path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    async def log_in(self, password: str) -> None:
        user = {"name": "admin", "domain": {"id": "default"}, "password": password}
        scope = {"project": {"name": "admin", "domain": {"id": "default"}}}
        identity = {"methods": ["password"], "password": {"user": user}}
        answer = await self._http.post(
            "/identity/v3/auth/tokens", json={"auth": {"identity": identity, "scope": scope}}
        )
        assert answer.is_success, answer.text
        self._http.headers["X-Auth-Token"] = answer.headers["X-Subject-Token"]
        self._http.headers["OpenStack-API-Version"] = "compute 2.96"

    async def cost(self, works: Iterable[Callable[[], Awaitable[Any]]]) -> Cost:
        """Ask for all of it, `AT_ONCE` requests at a time, and wait until no move is under way."""
        waiting = iter(works)
        count = 0

        async def ask() -> None:
            nonlocal count
            for work in waiting:
                count += 1
                await work()

        begun, cpu, commits = time.perf_counter(), self._cpu_s(), self._commits.value
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(ask())
        await until(lambda: self.store.read(_at_rest))
        took, cpu = time.perf_counter() - begun, self._cpu_s() - cpu
        return Cost(count / took, 1000 * cpu / count, (self._commits.value - commits) / count)

    def _cpu_s(self) -> float:
        """Seconds of CPU, its own and the kernel's for it, that the process has had."""
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """MiB that the process has now."""
        pages = int(Path(f"/proc/{self._pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / MEBIBYTE


async def until(look: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if await look():
                return
            await asyncio.sleep(LOOK_S)


async def _work(directory: Path, hosts: int, count: int, migrations: int) -> Outcome:
    """Start a cloud in an empty directory, create servers, and migrate some of them."""
    async with _all_in_one(directory, hosts) as cloud:
        memory = cloud.memory()
        if not count:
            return Outcome(None, None, memory, memory)
        flavor = {"name": "small", "id": "small", "vcpus": 1, "ram": 512, "disk": 1}
        await cloud.call("/compute/v2.1/flavors", {"flavor": flavor})
        network = (await cloud.call("/network/v2.0/networks"))["networks"][0]["id"]
        image = (await cloud.call("/image/v2/images"))["images"][0]["id"]

        def create(number: int) -> Callable[[], Awaitable[Any]]:
            server = {"name": f"web-{number}", "flavorRef": "small", "imageRef": image}
            body = {"server": {**server, "networks": [{"uuid": network}]}}
            return lambda: cloud.call("/compute/v2.1/servers", body)

        def migrate(server_id: str) -> Callable[[], Awaitable[Any]]:
            body = {"os-migrateLive": {"host": None, "block_migration": "auto"}}
            return lambda: cloud.call(f"/compute/v2.1/servers/{server_id}/action", body)

        await cloud.cost(map(create, range(AT_ONCE)))
        await cloud.cost(map(migrate, await cloud.store.read(_active)))
        made = await cloud.cost(map(create, range(AT_ONCE, AT_ONCE + count)))
        servers = await cloud.store.read(_active)
        assert len(servers) == AT_ONCE + count, f"{len(servers)} servers are active"
        moved = await cloud.cost(map(migrate, servers[AT_ONCE : AT_ONCE + migrations]))
        assert await cloud.store.read(_migrated) == AT_ONCE + migrations
        assert not (broken := await cloud.store.read(audit.audit)), broken[:3]
        return Outcome(made, moved, memory, cloud.memory())


def _at_rest(tx: Tx) -> bool:
    working = select(schema.move.c.number).where(schema.move.c.state.in_(moves.WORKED_ON))
    return tx.execute(working.limit(1)).first() is None


def _active(tx: Tx) -> list[str]:
    """In the order in which they were asked for."""
    server = schema.server.c
    found = select(server.id).where(server.condition == "active").order_by(server.created_at, server.id)
    return list(tx.execute(found).scalars())


def _migrated(tx: Tx) -> int:
    move = schema.move.c
    done = select(func.count()).where(move.kind == "live-migration", move.state == "done")
    return tx.execute(done).scalar_one()


def _heard(tx: Tx) -> int:
    return tx.execute(select(func.count()).where(schema.host.c.epoch > 0)).scalar_one()


@asynccontextmanager
async def _all_in_one(directory: Path, hosts: int) -> AsyncIterator[Cloud]:
    """`berthold up`, all its hosts registered; it has ended when this is left."""
    context = multiprocessing.get_context("spawn")
    commits: Synchronized[int] = context.Value(ctypes.c_long, 0)
    process = context.Process(target=_up, args=(directory, hosts, commits))
    process.start()
    home = Home(directory)

    async def listens() -> bool:
        assert process.is_alive(), (directory / "console").read_text()
        return home.clouds_yaml.exists()

    try:
        await until(listens)
        found = re.search(r"http://[\d.:]+", home.clouds_yaml.read_text())
        assert found
        store = Store(home.database_url)
        async with httpx.AsyncClient(base_url=found[0], timeout=PATIENCE_S) as http:
            cloud = Cloud(process.pid or 0, commits, store, http)

            async def all_here() -> bool:
                return await store.read(_heard) == hosts

            await until(all_here)
            await cloud.log_in(home.password())
            yield cloud
        store.close()
    finally:
        process.terminate()
        process.join()


def _up(directory: Path, hosts: int, commits: Synchronized[int]) -> None:
    """The process: `berthold up`, its commits counted."""
    console = os.open(directory / "console", os.O_WRONLY | os.O_CREAT)
    os.dup2(console, 1)
    os.dup2(console, 2)

    @event.listens_for(Engine, "commit")
    def committed(connection: Connection) -> None:
        changes = connection.connection.driver_connection.total_changes  # type: ignore[union-attr]
        commits.value += changes > connection.info.get("changes", 0)
        connection.info["changes"] = changes

    processes.up(hosts, directory, port=0, pace="none", vcpus=64, memory_mb=65_536, disk_gb=1_000)
