"""A whole cloud on a real database, with real conductors and agents in one event loop: for what
must also hold when everything happens at once.

    async with cloud(store, tmp_path, node1=64) as it:
        await it.write(begin.create_servers, it.by(), [...])
        await it.rest()
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import select

from berthold import companions
from berthold.agent.daemon import Daemon
from berthold.agent.ground import Ground
from berthold.agent.simulated import Simulated
from berthold.api.agents import AgentDoor
from berthold.database import metadata
from berthold.ledger import audit, moves, quotas, schema
from berthold.ledger.store import Store, Tx
from berthold.moves import begin
from berthold.moves.conductor import Conductor
from berthold.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")

PROJECT, USER = "project", "user"
PATIENCE_S = 60.0


class Cloud:
    """What a test sees of it."""

    def __init__(self, store: Store, ground: Ground, agents: dict[str, Daemon]) -> None:
        self.store = store
        self.ground = ground
        self.agents = agents

    def by(self) -> begin.By:
        return begin.By(USER, PROJECT, f"req-{self.store.clock.new_id()}")

    async def write(self, f: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As an API request does it."""
        return await self.store.write(f, *args, **kwargs)

    async def rows(self, table: str) -> list[dict[str, Any]]:
        def read(tx: Tx) -> list[dict[str, Any]]:
            return [dict(row) for row in tx.execute(select(metadata.tables[table])).mappings()]

        return await self.store.read(read)

    async def rest(self) -> None:
        """Until no move is worked on any more."""

        async def all_over() -> bool:
            return not await self.store.read(_worked_on)

        await _until(all_over)

    async def homes(self) -> dict[str, str]:
        """Server name → host name, of all that have a home."""
        hosts = {row["id"]: row["name"] for row in await self.rows("host")}
        servers = {row["id"]: row["name"] for row in await self.rows("server")}
        claims = await self.rows("claim")
        return {servers[c["server_id"]]: hosts[c["host_id"]] for c in claims if c["role"] == "home"}

    async def problems(self) -> list[str]:
        """Every promise that is broken right now."""
        found = [f"{broken.promise}: {broken.says}" for broken in await self.store.read(audit.audit)]
        return found + [f"M1: {row} ran twice" for row in self.ground.double_running()]


def _worked_on(tx: Tx) -> bool:
    return (
        tx.execute(select(schema.move.c.id).where(schema.move.c.state.in_(moves.WORKED_ON))).first()
        is not None
    )


async def _until(look: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if await look():
                return
            await asyncio.sleep(0.02)


@asynccontextmanager
async def cloud(
    store: Store, directory: Path, *, conductors: int = 2, settings: Settings | None = None, **vcpus: int
) -> AsyncIterator[Cloud]:
    """A cloud with hosts of these sizes; everything it started has ended when this is left."""
    settings = settings or Settings()
    ground = Ground(directory / "ground.db")
    door = AgentDoor(store)
    neighbours = companions.embedded(store, directory, b"k" * companions.TOKEN_KEY_BYTES)
    await store.write(quotas.ensure_project, PROJECT, settings)
    agents = {
        name: Daemon(
            door, Simulated(ground, name, vcpus=number, memory_mb=number * 1024), ground.journal(name)
        )
        for name, number in vcpus.items()
    }
    works = [Conductor(store, neighbours, settings, f"conductor{n}") for n in range(conductors)]
    tasks = [asyncio.create_task(work.run()) for work in works]
    others = [asyncio.create_task(door.run())]
    others += [asyncio.create_task(agent.run()) for agent in agents.values()]
    try:

        async def all_here() -> bool:
            return all(agent.welcome for agent in agents.values())

        await _until(all_here)
        yield Cloud(store, ground, agents)
    finally:
        for work in works:
            work.stop()
        for task in others:
            task.cancel()
        await asyncio.gather(*tasks, *others, return_exceptions=True)
        ground.close()
