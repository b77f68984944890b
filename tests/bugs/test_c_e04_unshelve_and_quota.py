"""C-e04: what is shelved is not counted, so that unshelving exceeds the quota.

The story (Launchpad nova 2003991): usage is counted from what is placed on hosts. A server that is
offloaded is on none, so its owner may make others in its stead and then unshelve it.

Right: the quota is never exceeded. What makes it so: a server counts from when it is made to when
it is deleted (Q1), on the shelf too. So it is the other server that is refused, and an unshelve cannot be.
"""

from __future__ import annotations

from typing import Any

ANNS = "a" * 32


def test_the_other_server_is_refused_and_the_unshelve_is_not(cloud: Any, fault: Any) -> None:
    cloud.host(vcpus=8, memory_mb=8192)
    cloud.put(f"/os-quota-sets/{ANNS}", {"quota_set": {"cores": 2}})
    cloud.flavor("100", vcpus=2)
    one = cloud.server("m1")
    assert cloud.act(one, "shelve", None, "ann").status == 202
    cloud.world.settle()
    assert cloud.shown(one)["status"] == "SHELVED_OFFLOADED"
    cloud.flavor("d", vcpus=2, disk=1)
    wish = {"name": "m2", "flavorRef": "d", "imageRef": cloud.image(), "networks": "none"}
    assert "cores" in fault(cloud.post("/servers", {"server": wish}, "ann", "2.96"), 403)
    assert cloud.act(one, "unshelve", None, "ann").status == 202
    cloud.world.settle()
    assert cloud.shown(one)["status"] == "ACTIVE"
    (row,) = [each for each in cloud.world.rows("project") if each["id"] == ANNS]
    assert (row["instances"], row["cores"]) == (1, 2)


def test_two_unshelves_at_once_need_no_quota(cloud: Any) -> None:
    cloud.host(vcpus=8, memory_mb=8192)
    cloud.put(f"/os-quota-sets/{ANNS}", {"quota_set": {"cores": 2}})
    servers = [cloud.server(name) for name in ("m1", "m2")]
    for action in ("shelve", "unshelve"):
        for server in servers:
            assert cloud.act(server, action, None, "ann").status == 202
        cloud.world.settle()
    assert [cloud.shown(server)["status"] for server in servers] == ["ACTIVE", "ACTIVE"]
