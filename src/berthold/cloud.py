"""A process of a cloud, put together from parts: the API, a conductor, agents.

A part runs until it is told to stop. `run` starts all, waits for SIGTERM or SIGINT (or for
a part that fails, which fails the process), and stops them in their order. Which parts
there are is a matter of the command: `berthold up` has all of them in one process, the
others have one each.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import structlog
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from berthold.agent.daemon import Daemon
from berthold.agent.http import Rejected
from berthold.api import agents, metrics
from berthold.api.agents import AgentDoor
from berthold.api.app import Services, compute_app, mounted
from berthold.api.policy import Policy
from berthold.companions import Companions
from berthold.companions.app import companions_app
from berthold.settings import Settings

log = structlog.get_logger("berthold.cloud")

# How long a part may take to stop. All together stay within a few seconds.
STOP_S = 6.0
REQUESTS_END_S = 1
LOOK_S = 0.05
# New things, less those that went, before the collector looks at them; Python's own number is 700.
GARBAGE_LEAST = 10_000
# Which word of /proc/self/stat, behind the name, says on which core it runs (proc(5): field 39).
PROCESSOR = 36


class Part(Protocol):
    """Something that works until it is told to stop."""

    async def run(self) -> None: ...
    def stop(self) -> None: ...


@dataclass
class Web:
    """The HTTP API on a socket that listens already. `closing` answers requests that wait for news."""

    app: ASGIApp
    listener: socket.socket
    closing: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self._server = _Server(
            uvicorn.Config(
                self.app,
                access_log=False,
                log_config=None,
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=REQUESTS_END_S,
                timeout_keep_alive=30,
            ),
            self.closing,
        )

    async def run(self) -> None:
        await self._server.serve([self.listener])

    def stop(self) -> None:
        self._server.should_exit = True


class _Server(uvicorn.Server):
    """Signals are the process's, not the web server's. `closing` runs when no further request is taken."""

    def __init__(self, config: uvicorn.Config, closing: Callable[[], None]) -> None:
        super().__init__(config)
        self._closing = closing

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().call_soon(self._closing)
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class Looped:
    """A part that has no end of its own: to stop it is to cancel it."""

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        self.label = str(getattr(work, "__qualname__", "work"))
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    async def run(self) -> None:
        self._task = asyncio.create_task(self._work)
        try:
            await self._task
        except asyncio.CancelledError:
            if not self._stopping:
                raise

    def stop(self) -> None:
        self._stopping = True
        if self._task is None:
            self._work.close()
        else:
            self._task.cancel()


class After:
    """A part that begins when `ready` says so, or in the end without it."""

    def __init__(self, ready: Callable[[], bool], part: Part, patience_s: float = 30.0) -> None:
        self._ready = ready
        self._part = part
        self._patience_s = patience_s
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        for _ in range(int(self._patience_s / LOOK_S)):
            if self._ready() or self._stopping.is_set():
                break
            await asyncio.sleep(LOOK_S)
        if not self._stopping.is_set():
            keep_what_is_made()
            await self._part.run()

    def stop(self) -> None:
        self._stopping.set()
        self._part.stop()


def application(four: Companions, settings: Settings, door: AgentDoor, agents_token: str) -> Starlette:
    """Everything that a cloud speaks over HTTP, at one address."""
    policy = Policy(Path(settings.policy_file) if settings.policy_file else None)
    compute = compute_app(Services(four.store, four.neighbours, settings, policy))
    return Starlette(
        routes=[
            Route("/", _welcome),
            *mounted("/compute", compute),
            *agents.routes(door, agents_token),
            *metrics.routes(four.store),
            *companions_app(four),
        ]
    )


async def _welcome(_: Any) -> JSONResponse:
    return JSONResponse({name: f"/{name}" for name in ("identity", "compute", "image", "volume", "network")})


def agent(daemon: Daemon) -> Part:
    """One host's agent."""
    return Looped(daemon.run())


def door(agents_door: AgentDoor) -> Part:
    """The part of the agents' door that gathers heartbeats."""
    return Looped(agents_door.run())


def keep_what_is_made() -> None:
    """What a process has made when it begins to work stays: the collector need not look at it again and
    again, nor so often at what comes and goes, which holds few circles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_LEAST, *gc.get_threshold()[1:])


def stay_on_one_core() -> None:
    """This process and the threads that it starts from now on use the CPU core that it runs on. They take
    turns anyhow, and between cores they hand the interpreter's lock to each other through the kernel
    (decisions/0018). Where the system has no such word nothing changes."""
    if sys.platform == "linux":
        allowed = os.sched_getaffinity(0)
        here = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[PROCESSOR])
        os.sched_setaffinity(0, {here if here in allowed else min(allowed)})


async def run(parts: Sequence[Part], started: Coroutine[Any, Any, None] | None = None) -> bool:
    """Run all parts until the process is told to end; whether every part ended well.

    `started` runs once all have begun. Parts are stopped one after another, first to last.
    """
    keep_what_is_made()
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    tasks = [
        asyncio.create_task(part.run(), name=getattr(part, "label", type(part).__name__)) for part in parts
    ]
    word = asyncio.create_task(told.wait())
    side = [] if started is None else [asyncio.create_task(started)]
    try:
        await _first_end([word, *tasks], side)
    finally:
        for each in (word, *side):
            each.cancel()
    well = told.is_set()
    log.info("stopping", because="told to" if well else "a part ended")
    for part, task in zip(parts, tasks, strict=True):
        well = await _stop(part, task) and well
    log.info("stopped")
    return well


async def _first_end(tasks: Sequence[asyncio.Task[Any]], side: Sequence[asyncio.Task[Any]]) -> None:
    """Until one of `tasks` ends, or one of `side` fails."""
    watched = {*tasks, *side}
    while True:
        ended, watched = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            if task in tasks:
                return
            task.result()


async def _stop(part: Part, task: asyncio.Task[None]) -> bool:
    """Stop a part, with force if it takes too long; whether it ended well."""
    part.stop()
    _, late = await asyncio.wait([task], timeout=STOP_S)
    if late:
        log.warning("a part does not stop, so it is ended", part=task.get_name())
        task.cancel()
        await asyncio.wait([task], timeout=1)
        return False
    if task.cancelled():
        return True
    error = task.exception()
    if isinstance(error, Rejected):
        log.error("this agent is not wanted", reason=str(error))
        return False
    if error:
        log.error("a part failed", part=task.get_name(), exc_info=error)
        return False
    return True
