"""A server's tags: short words of its owner's, for filters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from berthold.api.call import Call, Reply
from berthold.api.schemas.servers import TAGS_MAX
from berthold.api.servers import unlocked
from berthold.errors import Malformed, NotFound
from berthold.ledger import reading, servers
from berthold.ledger.store import Tx


async def index(call: Call, server_id: str) -> dict[str, Any]:
    """All tags."""
    return {"tags": _tags(await call.store.read(reading.server_of, server_id, call.scope))}


async def replace(call: Call, server_id: str) -> dict[str, Any]:
    """These tags, and no others."""
    wanted = list(dict.fromkeys(call.body.tags))
    return {"tags": (await call.store.write(_change, call, server_id, lambda tags: wanted))[1]}


async def clear(call: Call, server_id: str) -> None:
    """No tags any more."""
    await call.store.write(_change, call, server_id, lambda tags: [])


async def show(call: Call, server_id: str, tag: str) -> None:
    """Whether it has the tag: 204, or 404."""
    if tag not in _tags(await call.store.read(reading.server_of, server_id, call.scope)):
        raise NotFound(f"Server {server_id} has no tag '{tag}'.")


async def add(call: Call, server_id: str, tag: str) -> Reply:
    """One more; 204 if it has it already."""
    if not 1 <= len(tag) <= 60 or "," in tag or "/" in tag:
        raise Malformed(f"Tag '{tag[:60]}' is invalid: 1 to 60 characters, none of them a comma or a slash.")
    before, _ = await call.store.write(_change, call, server_id, lambda tags: [*tags, tag])
    if tag in before:
        return Reply(204)
    call.headers["Location"] = call.url("servers", server_id, "tags", tag)
    return Reply(201)


async def remove(call: Call, server_id: str, tag: str) -> None:
    """One less."""
    before, _ = await call.store.write(
        _change, call, server_id, lambda tags: [each for each in tags if each != tag]
    )
    if tag not in before:
        raise NotFound(f"Server {server_id} has no tag '{tag}'.")


def _tags(server: Any) -> list[str]:
    tags: list[str] = server["details"].get("tags", [])
    return tags


def _change(
    tx: Tx, call: Call, server_id: str, change: Callable[[list[str]], list[str]]
) -> tuple[list[str], list[str]]:
    """The tags before and after; the server's row is held, so changes come one after the other."""
    unlocked(tx, call, server_id)
    server = servers.hold(tx, server_id)
    before = _tags(server)
    after = list(dict.fromkeys(change(before)))
    if len(after) > TAGS_MAX:
        raise Malformed(f"The number of tags exceeded the per-server limit {TAGS_MAX}")
    if after != before:
        servers.change(tx, server_id, details={**server["details"], "tags": after})
    return before, after
