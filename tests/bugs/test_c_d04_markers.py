"""C-d04 and C-d13: a page's marker that was never placed, or that is deleted before the next page.

The stories (Launchpad nova 1689692, 1647464, 1481812 and 1398086): servers that had no host yet
were kept apart, so as markers they were unknown; a marker that was deleted meanwhile was a 400,
or the list began anew.

Right: whatever was on a page is a marker for the next one; what never was is a 400. What makes it
so: a server is one row for good, in one table, whatever becomes of it.
"""

from __future__ import annotations

from typing import Any


def names(cloud: Any, query: str) -> list[str]:
    answer = cloud.get(f"/servers?sort_key=display_name&sort_dir=asc&{query}", "ann")
    assert answer.status == 200, answer.json
    return [server["name"] for server in answer.json["servers"]]


def test_a_server_that_was_never_placed_is_a_marker(cloud: Any) -> None:
    lost = cloud.server("a")
    assert cloud.shown(lost)["status"] == "ERROR"
    assert names(cloud, f"marker={lost}") == []
    cloud.host()
    for name in ("b", "c"):
        cloud.server(name)
    assert names(cloud, "limit=1") == ["a"]
    assert names(cloud, f"limit=3&marker={lost}") == ["b", "c"]


def test_a_marker_may_be_deleted_between_pages(cloud: Any, fault: Any) -> None:
    cloud.host(vcpus=16, memory_mb=65536)
    ids = {name: cloud.server(name) for name in "abcde"}
    assert names(cloud, "limit=2") == ["a", "b"]
    cloud.delete(f"/servers/{ids['b']}", "ann")
    cloud.world.settle()
    assert names(cloud, f"limit=2&marker={ids['b']}") == ["c", "d"]
    assert names(cloud, f"limit=2&marker={ids['d']}") == ["e"]
    fault(cloud.get("/servers?marker=00000000-0000-4000-8000-000000000000", "ann"), 400)
