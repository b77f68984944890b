"""C-e05 and C-e13: hints that multiply work, and hints that only the scheduler may give itself.

The stories (Launchpad nova 1017795, CVE-2012-3371, and 2151252): ten thousand ids in one hint cost a look-up
each; a hint with an internal name switched the usual filters off.

Right: 400 above a stated size, also for one id many times; internal names are refused. What
prevents it: `api/hints.py` bounds every hint before it is stored, and what moves decide by
never travels in hints.
"""

from __future__ import annotations

from typing import Any

import pytest


def with_hints(cloud: Any, hints: dict[str, Any]) -> Any:
    cloud.flavor("d", disk=1)
    wish = {"name": "x", "flavorRef": "d", "imageRef": cloud.image(), "networks": "none"}
    return cloud.post("/servers", {"server": wish, "os:scheduler_hints": hints}, "ann", "2.96")


@pytest.mark.parametrize(
    "hints",
    [
        {"different_host": ["a8c1c8d2-0000-4000-8000-000000000000"] * 10_000},
        {"same_host": [f"a8c1c8d2-0000-4000-8000-{n:012}" for n in range(101)]},
        {"different_host": ["x" * 256]},
        {"different_host": [7]},
        {"same_host": {"a": "b"}},
        {f"hint{n}": "x" for n in range(33)},
        {"query": "x" * 5000},
        {"_nova_check_type": ["rebuild"]},
        {"_anything": True},
    ],
    ids=str,
)
def test_they_are_refused_and_nothing_is_made(cloud: Any, fault: Any, hints: dict[str, Any]) -> None:
    assert "scheduler_hints" in fault(with_hints(cloud, hints), 400)
    assert cloud.world.rows("server") == []


def test_a_hundred_ids_are_allowed_and_a_server_with_hints_is_claimed_as_any_other(cloud: Any) -> None:
    cloud.host()
    ids = [f"a8c1c8d2-0000-4000-8000-{n:012}" for n in range(100)]
    made = with_hints(cloud, {"different_host": ids, "query": "[]", "note": "kept"})
    assert made.status == 202
    cloud.world.settle()
    server = made.json["server"]["id"]
    assert cloud.shown(server)["status"] == "ACTIVE"
    assert [claim.role for claim in cloud.world.claims(server)] == ["home"]
