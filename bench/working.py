"""Parts b and d: the all-in-one at work, and how much memory it keeps.

What `berthold up` runs, with its database in a file: API, conductor, the agents' door and
simulated hosts that take no time, heartbeats on, in one event loop of one process of its
own. Requests go through the whole compute API, without a socket. A create is done when its
server is ACTIVE and its move is over.

CPU and commits are those of the whole process while the work was done: the API, the
conductor, both sides of the agents' door, heartbeats, and the client.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import uvloop
from sqlalchemy import event, func, select

from bench.figures import Figure
from berthold import cloud, companions, database, logs
from berthold.agent.daemon import Daemon
from berthold.agent.ground import Ground
from berthold.agent.simulated import Simulated
from berthold.api.agents import AgentDoor
from berthold.companions import Companions
from berthold.ledger import audit, moves, schema
from berthold.ledger.store import Store, Tx
from berthold.moves.conductor import Conductor
from berthold.settings import Settings

HOSTS = (100, 1_000)
CREATES, MIGRATIONS = 300, 100
AT_ONCE = 32  # requests
AIM_CREATES, AIM_CPU_MS = 100.0, 20.0
PATIENCE_S = 240.0
LOOK_S = 0.02
PASSWORD = "secret"
ROOT = Path(__file__).parents[1]
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
        found = _in_a_process(hosts, count, moves)
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
    return [Figure(f"resident memory, {hosts:,} hosts", _in_a_process(hosts, 0, 0).memory, "MiB")]


def _in_a_process(hosts: int, count: int, migrations: int) -> Outcome:
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(hosts), str(count), str(migrations)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    found = json.loads(done.stdout)
    costs = {name: Cost(**found[name]) if found[name] else None for name in ("create", "migration")}
    return Outcome(**{**found, **costs})


class Client:
    """An administrator of the cloud, and a meter on the process."""

    def __init__(self, store: Store, http: httpx.AsyncClient) -> None:
        self.store = store
        self.http = http
        self.commits = 0
        event.listen(store.writer, "commit", self._committed)

    def _committed(self, _: Any) -> None:
        self.commits += 1

    async def call(self, path: str, body: Any = None) -> Any:
        answer = await self.http.request("GET" if body is None else "POST", path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    async def log_in(self) -> None:
        user = {"name": "admin", "domain": {"id": "default"}, "password": PASSWORD}
        scope = {"project": {"name": "admin", "domain": {"id": "default"}}}
        identity = {"methods": ["password"], "password": {"user": user}}
        answer = await self.http.post(
            "/identity/v3/auth/tokens", json={"auth": {"identity": identity, "scope": scope}}
        )
        assert answer.is_success, answer.text
        self.http.headers["X-Auth-Token"] = answer.headers["X-Subject-Token"]
        self.http.headers["OpenStack-API-Version"] = "compute 2.96"

    async def cost(self, works: Iterable[Callable[[], Awaitable[Any]]]) -> Cost:
        """Ask for all of it, `AT_ONCE` requests at a time, and wait until no move is under way."""
        waiting = iter(works)
        count = 0

        async def ask() -> None:
            nonlocal count
            for work in waiting:
                count += 1
                await work()

        begun, cpu, commits = time.perf_counter(), time.process_time(), self.commits
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(ask())
        async with asyncio.timeout(PATIENCE_S):
            await _until(lambda: self.store.read(_at_rest))
        took, cpu = time.perf_counter() - begun, time.process_time() - cpu
        return Cost(count / took, 1000 * cpu / count, (self.commits - commits) / count)


async def _until(look: Callable[[], Awaitable[bool]]) -> None:
    while True:
        if await look():
            return
        await asyncio.sleep(LOOK_S)


def _at_rest(tx: Tx) -> bool:
    working = select(schema.move.c.number).where(schema.move.c.state.in_(moves.WORKED_ON))
    return tx.execute(working.limit(1)).first() is None


async def work(directory: Path, hosts: int, count: int, migrations: int) -> Outcome:
    """Build a cloud in an empty directory, create servers, and migrate some of them."""
    async with _all_in_one(directory, hosts) as client:
        await client.log_in()
        flavor = {"name": "small", "id": "small", "vcpus": 1, "ram": 512, "disk": 1}
        await client.call("/compute/v2.1/flavors", {"flavor": flavor})
        network = (await client.call("/network/v2.0/networks"))["networks"][0]["id"]
        image = (await client.call("/image/v2/images"))["images"][0]["id"]
        memory = _resident()

        def create(number: int) -> Callable[[], Awaitable[Any]]:
            server = {"name": f"web-{number}", "flavorRef": "small", "imageRef": image}
            body = {"server": {**server, "networks": [{"uuid": network}]}}
            return lambda: client.call("/compute/v2.1/servers", body)

        def migrate(server_id: str) -> Callable[[], Awaitable[Any]]:
            body = {"os-migrateLive": {"host": None, "block_migration": "auto"}}
            return lambda: client.call(f"/compute/v2.1/servers/{server_id}/action", body)

        made = await client.cost(create(n) for n in range(count)) if count else None
        servers = await client.store.read(_active)
        assert len(servers) == count, f"{len(servers)} of {count} servers are active"
        moved = await client.cost(map(migrate, servers[:migrations])) if migrations else None
        assert await client.store.read(_migrated) == migrations
        assert not (broken := await client.store.read(audit.audit)), broken[:3]
        return Outcome(made, moved, memory, _resident())


def _active(tx: Tx) -> list[str]:
    return list(tx.execute(select(schema.server.c.id).where(schema.server.c.condition == "active")).scalars())


def _migrated(tx: Tx) -> int:
    move = schema.move.c
    done = select(func.count()).where(move.kind == "live-migration", move.state == "done")
    return tx.execute(done).scalar_one()


@asynccontextmanager
async def _all_in_one(directory: Path, hosts: int) -> AsyncIterator[Client]:
    """The parts of `berthold up`; all have ended when this is left."""
    settings, url = Settings(), f"sqlite:///{directory / 'berthold.db'}"
    database.upgrade(url)
    store, ground = Store(url), Ground(directory / "ground.db")
    four: Companions = companions.build(store, directory, b"k" * companions.TOKEN_KEY_BYTES)
    await companions.bootstrap(four, PASSWORD)
    door = AgentDoor(store)
    names = [f"node{n}" for n in range(hosts)]
    daemons = [
        Daemon(door, Simulated(ground, name, vcpus=64, memory_mb=65_536, disk_gb=1_000), ground.journal(name))
        for name in names
    ]
    conductor = Conductor(store, four.neighbours, settings, "bench")
    parts: list[cloud.Part] = [conductor, *map(cloud.agent, daemons), cloud.door(door)]
    app = cloud.application(four, settings, door, "token")
    cloud.keep_what_is_made()
    running = [asyncio.create_task(part.run()) for part in parts]

    async def all_here() -> bool:
        return all(daemon.welcome for daemon in daemons)

    try:
        async with asyncio.timeout(PATIENCE_S):
            await _until(all_here)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://cloud", timeout=PATIENCE_S
        ) as http:
            yield Client(store, http)
    finally:
        for part in parts:
            part.stop()
        await asyncio.gather(*running, return_exceptions=True)
        ground.close()
        store.close()


def _resident() -> float:
    """MiB of memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MEBIBYTE


def main() -> None:
    """One process: what it found, as JSON."""
    hosts, count, migrations = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="berthold-bench-") as name:
        directory = Path(name)
        with (directory / "console").open("w") as console:
            logs.start(None, console)
            found = uvloop.run(work(directory, hosts, count, migrations))
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main()
