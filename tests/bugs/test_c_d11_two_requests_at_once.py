"""C-d11: a request that comes in a wrong state, or twice at once, is a 500.

The stories (Launchpad nova 1850694 and 1968618): two shelves of one server both pass the check of its
state and the second trips over what the first has done; a console is asked for while the server moves
or goes, and what was found a moment ago is not there.

Right: one 202 and one 409; a console is shown, or 409, and 404 once the server is gone. What makes it
so: what begins a move holds the server's row and looks at it there (M3), and a look at a guest asks the
home that the server has at that moment.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest


def twice(cloud: Any, server: str, action: str) -> list[int]:
    """Ask for the action in two requests at once; their statuses."""

    async def ask() -> list[int]:
        transport = httpx.ASGITransport(cloud.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://cloud") as client:
            path, headers = f"/v2.1/servers/{server}/action", {"X-Auth-Token": "ann"}
            both = (client.post(path, json={action: None}, headers=headers) for _ in range(2))
            return [answer.status_code for answer in await asyncio.gather(*both)]

    return sorted(asyncio.run(ask()))


@pytest.mark.parametrize("action", ["shelve", "suspend", "pause", "os-stop"])
def test_one_is_accepted_and_one_is_a_conflict(cloud: Any, action: str) -> None:
    cloud.host()
    server = cloud.server()
    assert twice(cloud, server, action) == [202, 409]
    cloud.world.settle()
    (move,) = [row for row in cloud.world.moves() if row["kind"] != "create"]
    assert move["state"] == "done"


def console(cloud: Any, server: str) -> Any:
    return cloud.act(server, "os-getConsoleOutput", {}, "ann")


def test_a_console_while_the_server_moves_and_when_it_is_gone(cloud: Any, fault: Any) -> None:
    cloud.host("node1")
    cloud.host("node2")
    server = cloud.server()
    cloud.act(server, "os-migrateLive", {"host": None, "block_migration": "auto"})
    (move,) = cloud.world.unfinished()
    for _ in range(40):
        if cloud.world.move(move)["state"] == "done":
            break
        assert asked(cloud, server) in (200, 409)
        cloud.world.step(move)
    cloud.world.settle()
    shelved = cloud.act(server, "shelve", None, "ann")
    assert shelved.status == 202
    cloud.world.settle()
    fault(console(cloud, server), 409)
    cloud.delete(f"/servers/{server}", "ann")
    cloud.world.settle()
    fault(console(cloud, server), 404)


def asked(cloud: Any, server: str) -> int:
    """The status of a console that is asked for while the agents do what they are asked."""

    async def ask() -> int:
        transport = httpx.ASGITransport(cloud.app)
        obeying = asyncio.create_task(cloud.obeying())
        try:
            async with httpx.AsyncClient(transport=transport, base_url="http://cloud") as client:
                path, headers = f"/v2.1/servers/{server}/action", {"X-Auth-Token": "ann"}
                answer = await client.post(path, json={"os-getConsoleOutput": {}}, headers=headers)
                return answer.status_code
        finally:
            obeying.cancel()

    return asyncio.run(ask())
