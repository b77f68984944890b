"""C-a20: one request for four servers of a group that allows two on a host.

The story (terraform-provider-openstack 1143): a request for several is judged against the members that
stood before it, so the preferred host gets three or four.

Right: two and two; the fifth is an error that names the rule; a move to a host that has two is
refused. What makes it so: a group has as many numbered seats on a host as its rule says (G1).
"""

from __future__ import annotations

from collections import Counter
from typing import Any


def test_two_and_two_and_no_fifth(cloud: Any) -> None:
    cloud.host("node1", vcpus=64, memory_mb=65536)
    cloud.host("node2", vcpus=8, memory_mb=16384)
    wish = {"name": "g", "policy": "anti-affinity", "rules": {"max_server_per_host": 2}}
    group = cloud.post("/os-server-groups", {"server_group": wish}, "ann", "2.64").json["server_group"]["id"]
    cloud.flavor("d", disk=1)
    body = {"name": "x", "flavorRef": "d", "imageRef": cloud.image(), "networks": "none"}
    hints = {"group": group}
    four = {"server": {**body, "min_count": 4, "max_count": 4}, "os:scheduler_hints": hints}
    assert cloud.post("/servers", four, "ann", "2.96").status == 202
    cloud.world.settle()
    listed = cloud.get("/servers/detail?all_tenants=1").json["servers"]
    assert Counter(server["OS-EXT-SRV-ATTR:host"] for server in listed) == {"node1": 2, "node2": 2}

    one_more = {"server": body, "os:scheduler_hints": hints}
    fifth = cloud.post("/servers", one_more, "ann", "2.96").json["server"]["id"]
    cloud.world.settle()
    shown = cloud.shown(fifth, "ann")
    assert shown["status"] == "ERROR"
    assert "group rule" in shown["fault"]["message"]

    cloud.act(listed[0]["id"], "os-migrateLive", {"host": None, "block_migration": "auto"})
    cloud.world.settle()
    (told,) = cloud.get("/os-migrations").json["migrations"]
    assert told["status"] == "error"
    after = cloud.shown(listed[0]["id"])
    assert (after["status"], after["OS-EXT-SRV-ATTR:host"]) == (
        "ACTIVE",
        listed[0]["OS-EXT-SRV-ATTR:host"],
    )
