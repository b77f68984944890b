"""C-b30: removing a compute service whose host still matters.

The stories (Launchpad nova 1852610 and 1763183): a service was deleted under its servers, or while one was
waiting in VERIFY_RESIZE; confirm, revert and delete then failed for ever.

Right: 409 for the home, the source and the destination, and nothing is removed; 204 once nothing is
there. What makes it so: a host is removed under its lock, which every claim takes first, and only
without a claim (M1).
"""

from __future__ import annotations

from typing import Any


def test_409_while_anything_is_claimed_there(cloud: Any, fault: Any) -> None:
    ids = {"node1": cloud.host("node1")}
    one = cloud.server("one")
    ids["node2"] = cloud.host("node2")
    two = cloud.server("two", availability_zone="nova:node2", who="admin")
    ids["node3"] = cloud.host("node3")
    assert cloud.act(two, "migrate", {"host": "node3"}).status == 202
    cloud.world.settle()
    assert cloud.shown(two)["status"] == "VERIFY_RESIZE"

    def delete(name: str) -> Any:
        return cloud.delete(f"/os-services/{ids[name]}", version="2.53")

    before = cloud.world.picture()
    for name in ids:
        fault(delete(name), 409)
    assert cloud.world.picture() == before
    assert cloud.act(two, "confirmResize").status == 204
    cloud.world.settle()
    assert delete("node2").status == 204
    del cloud.world.agents["node2"]  # as long as it runs it would introduce its host again
    fault(delete("node3"), 409)
    for server in (one, two):
        cloud.delete(f"/servers/{server}")
    cloud.world.settle()
    assert [delete(name).status for name in ("node1", "node3")] == [204, 204]
    assert cloud.get("/os-hypervisors").json == {"hypervisors": []}
