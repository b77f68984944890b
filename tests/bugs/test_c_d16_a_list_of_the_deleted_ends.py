"""C-d16: the list of deleted servers gives the marker again, for ever.

The story (Launchpad nova 1849409): with `deleted=true` the page after a marker begins with the marker
itself, so that a client that follows the pages never comes to an end.

Right: each server once, then an empty page. What makes it so: deleted servers are rows of the same table,
and a page is what comes after the marker in a total order.
"""

from __future__ import annotations

from typing import Any


def pages(cloud: Any, query: str) -> list[list[str]]:
    """What each page shows, followed by its link to the next, to the end."""
    found: list[list[str]] = []
    path = f"/servers?deleted=true&{query}"
    while path and len(found) < 9:
        answer = cloud.get(path)
        assert answer.status == 200, answer.json
        found.append([server["name"] for server in answer.json["servers"]])
        links = answer.json.get("servers_links", [])
        path = links[0]["href"].partition("/v2.1")[2] if links else ""
    return found


def test_the_pages_of_deleted_servers_end(cloud: Any) -> None:
    cloud.host(vcpus=16, memory_mb=65536)
    ids = [cloud.server(name) for name in ("a", "b", "c")]
    for server in ids:
        assert cloud.delete(f"/servers/{server}", "ann").status == 204
    cloud.world.settle()
    order = "all_tenants=1&sort_key=display_name&sort_dir=asc"
    assert pages(cloud, f"{order}&marker={ids[0]}") == [["b", "c"]]
    assert pages(cloud, f"{order}&marker={ids[2]}") == [[]]
    assert [name for page in pages(cloud, f"{order}&limit=1") for name in page] == ["a", "b", "c"]
