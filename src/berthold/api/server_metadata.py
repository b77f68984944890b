"""A server's metadata: its owner's own words about it."""

from __future__ import annotations

from typing import Any

from berthold.api.call import Call
from berthold.api.schemas.servers import METADATA_MAX
from berthold.api.servers import unlocked
from berthold.errors import Malformed, NotAllowed, NotFound
from berthold.ledger import reading, servers
from berthold.ledger.store import Tx

ABSENT = "Metadata item was not found"


async def index(call: Call, server_id: str) -> dict[str, Any]:
    """All of it."""
    return {"metadata": (await call.store.read(reading.server_of, server_id, call.scope))["metadata"]}


async def show(call: Call, server_id: str, key: str) -> dict[str, Any]:
    """One item."""
    metadata = (await call.store.read(reading.server_of, server_id, call.scope))["metadata"]
    if key not in metadata:
        raise NotFound(ABSENT)
    return {"meta": {key: metadata[key]}}


async def add(call: Call, server_id: str) -> dict[str, Any]:
    """Add items, or replace those that are there."""
    return {"metadata": await call.store.write(_merge, call, server_id, call.body.metadata)}


async def replace(call: Call, server_id: str) -> dict[str, Any]:
    """These items, and no others."""
    return {"metadata": await call.store.write(_replace, call, server_id, call.body.metadata)}


async def put(call: Call, server_id: str, key: str) -> dict[str, Any]:
    """Add or replace one; the body names the same key as the path."""
    if key not in call.body.meta:
        raise Malformed("Request body and URI mismatch: the key in the path is not the one in the body.")
    await call.store.write(_merge, call, server_id, call.body.meta)
    return {"meta": call.body.meta}


async def delete(call: Call, server_id: str, key: str) -> None:
    """Take one away."""
    await call.store.write(_delete, call, server_id, key)


def _held(tx: Tx, call: Call, server_id: str) -> dict[str, str]:
    """The metadata, the server's row held: changes come one after the other."""
    unlocked(tx, call, server_id)
    metadata: dict[str, str] = servers.hold(tx, server_id)["metadata"]
    return metadata


def _merge(tx: Tx, call: Call, server_id: str, items: dict[str, str]) -> dict[str, str]:
    return _write(tx, server_id, _held(tx, call, server_id) | items)


def _replace(tx: Tx, call: Call, server_id: str, items: dict[str, str]) -> dict[str, str]:
    _held(tx, call, server_id)
    return _write(tx, server_id, items)


def _delete(tx: Tx, call: Call, server_id: str, key: str) -> None:
    metadata = dict(_held(tx, call, server_id))
    if key not in metadata:
        raise NotFound(ABSENT)
    del metadata[key]
    _write(tx, server_id, metadata)


def _write(tx: Tx, server_id: str, metadata: dict[str, str]) -> dict[str, str]:
    if len(metadata) > METADATA_MAX:
        raise NotAllowed(f"Maximum number of metadata items exceeds {METADATA_MAX}")
    servers.change(tx, server_id, metadata=metadata)
    return metadata
