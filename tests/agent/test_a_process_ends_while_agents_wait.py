"""An API process ends while agents wait for something to do: they are answered, not cut off."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest
from starlette.applications import Starlette

from berthold import cloud
from berthold.agent.http import HttpDoor
from berthold.agent.protocol import Ask, Asks, Take
from berthold.api import agents
from berthold.lab.world import World


def test_whoever_waits_is_answered_when_the_process_ends(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(hosts=1)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    web = cloud.Web(Starlette(routes=agents.routes(world.door, "t")), listener, world.door.close)

    async def waits() -> Asks:
        welcome = world.agents["node1"].welcome
        assert welcome is not None
        waiting, shown = asyncio.Event(), world.door._news_for

        async def nothing_to_do(take: Take) -> list[Ask]:
            waiting.set()
            return await shown(take)

        monkeypatch.setattr(world.door, "_news_for", nothing_to_do)
        serving = asyncio.create_task(web.run())
        async with HttpDoor(f"http://127.0.0.1:{port}", "t") as door:
            taking = asyncio.create_task(door.take(Take(welcome.host, welcome.epoch, wait=30.0)))
            await waiting.wait()
            web.stop()
            async with asyncio.timeout(20):
                asks = await taking
                await serving
        return asks

    try:
        with caplog.at_level(logging.WARNING):
            assert asyncio.run(waits()) == Asks([])
        assert caplog.records == []
    finally:
        listener.close()
        world.close()
