"""Scheduler hints: what the owner of a new server wishes of its place.

`group`, `same_host` and `different_host` are acted on; others are kept with the server and
say nothing here. How many and how long they may be is bounded, so that no hint multiplies
work. Names that begin with `_` are a scheduler's own and refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from berthold.errors import Malformed

SERVERS = ("same_host", "different_host")
SERVERS_MAX = 100
HINTS_MAX = 32
ID_MAX = 255
ID = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.IGNORECASE)
OTHERS_MAX = 4096  # bytes of JSON of what is merely kept


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The hints, servers always as a list of ids. Raises `Malformed`."""
    if len(given) > HINTS_MAX:
        raise Malformed(f"scheduler_hints: {HINTS_MAX} hints at most.")
    hints: dict[str, Any] = {}
    for name, value in given.items():
        if name.startswith("_") or len(name) > ID_MAX:
            raise Malformed(f"scheduler_hints: '{name[:60]}' is not a hint that a request may give.")
        hints[name] = _servers(name, value) if name in SERVERS else value
    others = {name: value for name, value in hints.items() if name not in SERVERS}
    if len(msgspec.json.encode(others)) > OTHERS_MAX:
        raise Malformed(f"scheduler_hints are larger than {OTHERS_MAX} bytes.")
    return hints


def group_of(hints: Mapping[str, Any]) -> str | None:
    """The group that the hints name. It is an id, or a list of one."""
    hint = hints.get("group")
    if isinstance(hint, list) and len(hint) == 1:
        hint = hint[0]
    if hint is not None and not isinstance(hint, str):
        raise Malformed("scheduler_hints.group must be the id of one server group.")
    return hint


def _servers(name: str, value: Any) -> list[str]:
    """Ids of servers, each once."""
    ids = value if isinstance(value, list) else [value]
    if len(ids) > SERVERS_MAX:
        raise Malformed(f"scheduler_hints.{name} names {len(ids)} servers; {SERVERS_MAX} at most.")
    if not all(isinstance(each, str) and ID.fullmatch(each) for each in ids):
        raise Malformed(f"scheduler_hints.{name}: expected the id of a server (a UUID), or a list of such.")
    return list(dict.fromkeys(ids))
