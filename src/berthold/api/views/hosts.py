"""What is said of a host wherever it is shown: whether it is up, and its old numeric id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berthold.api.call import Call


def is_up(host: Mapping[str, Any], call: Call) -> bool:
    """Whether the host was heard lately and may act."""
    heard = host["heard_at"]
    return (
        host["status"] != "fenced"
        and heard is not None
        and call.store.clock.now() - heard <= call.settings.silent_after_s
    )


def state(host: Mapping[str, Any], call: Call) -> str:
    """`up` or `down`, as services and hypervisors say it."""
    return "up" if is_up(host, call) else "down"


def status_for_servers(host: Mapping[str, Any] | None, call: Call) -> str:
    """`host_status` of a server."""
    if host is None:
        return ""
    if not is_up(host, call):
        return "DOWN"
    return "MAINTENANCE" if host["disabled"] else "UP"


def number_of(host_id: str) -> int:
    """The integer by which versions before 2.53 know a host; it follows from the UUID."""
    return int(host_id.replace("-", "")[:7], 16) + 1
