"""What an agent says over HTTP, and what each reply means to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import httpx
import pytest

from berthold.agent.http import HttpDoor, Rejected
from berthold.agent.protocol import Ask, Asks, Beat, Fenced, Take

ASK = {"id": "a-1", "seq": 1, "epoch": 1, "move": "m-1", "server": "s-1", "verb": "discard"}


def door(reply: Callable[[httpx.Request], httpx.Response]) -> HttpDoor:
    return HttpDoor("http://control:8774/", "secret", transport=httpx.MockTransport(reply))


async def take(knock: HttpDoor) -> Asks:
    async with knock:
        return await knock.take(Take("h-1", 1, wait=3.0, busy=["a-0"]))


def test_a_request_carries_token_and_json_and_waits_as_long_as_it_asks_to() -> None:
    seen: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"asks": [ASK]})

    assert asyncio.run(take(door(reply))) == Asks([Ask("a-1", 1, 1, "m-1", "s-1", "discard")])
    assert str(seen[0].url) == "http://control:8774/agents/v1/take"
    assert seen[0].method == "POST"
    assert seen[0].headers["X-Agent-Token"] == "secret"
    assert json.loads(seen[0].content) == {"host": "h-1", "epoch": 1, "wait": 3.0, "busy": ["a-0"]}
    assert seen[0].extensions["timeout"]["read"] == 13.0


@pytest.mark.parametrize(
    ("status", "means"),
    [
        (409, Fenced),
        (401, Rejected),
        (400, Rejected),
        (404, Rejected),
        (429, ConnectionError),
        (500, ConnectionError),
        (503, ConnectionError),
    ],
)
def test_each_status_is_fenced_rejected_or_to_be_tried_again(status: int, means: type[Exception]) -> None:
    with pytest.raises(means, match="so it is"):
        asyncio.run(take(door(lambda _: httpx.Response(status, text="so it is"))))


def test_a_refusal_is_told_in_its_words_not_in_json() -> None:
    with pytest.raises(Rejected, match=r"^take: HTTP 401: no such token$"):
        asyncio.run(take(door(lambda _: httpx.Response(401, json={"message": "no such token"}))))


@pytest.mark.parametrize("body", ["<html>", '{"asks": [{"id": 1}]}'])
def test_a_reply_in_another_language_is_rejected(body: str) -> None:
    with pytest.raises(Rejected, match="not an answer that agents understand"):
        asyncio.run(take(door(lambda _: httpx.Response(200, text=body))))


def test_a_control_plane_that_is_not_there_is_to_be_tried_again() -> None:
    async def beat() -> Beat:
        # Port 1 of loopback: nobody listens.
        async with HttpDoor("http://127.0.0.1:1", "secret") as knock:
            return await knock.heartbeat(Beat("h-1", 1))

    with pytest.raises(ConnectionError, match="heartbeat"):
        asyncio.run(beat())
