"""C-e09 and C-e11: what failed is paid for ever; whose use a limit is compared with.

The stories (Launchpad nova 1670627, 1678326 and 1717000; 1893284 and 2131272): servers that were never
placed kept their share of the quota when they were deleted, or were stuck in BUILD; one user's
limit was compared with everybody's use.

Right: usage is what exists, after every failure. Limits are a project's: the refusal names the
project's limit and the project's use, whoever asks. (There are no limits of single users.) What
makes it so: charge and refund are in the transactions that make and bury a server (Q1).
"""

from __future__ import annotations

from typing import Any

ANNS = "a" * 32


def wish(cloud: Any, who: str = "ann", flavor: str = "d") -> Any:
    body = {"server": {"name": "x", "flavorRef": flavor, "imageRef": cloud.image(), "networks": "none"}}
    return cloud.post("/servers", body, who, "2.96")


def used(cloud: Any) -> int:
    return int(cloud.get("/limits", "ann").json["limits"]["absolute"]["totalInstancesUsed"])


def test_failures_give_back_what_they_took(cloud: Any, fault: Any) -> None:
    cloud.put(f"/os-quota-sets/{ANNS}", {"quota_set": {"instances": 2}})
    cloud.flavor("d", disk=1)
    failed = [wish(cloud).json["server"]["id"] for _ in range(2)]
    cloud.world.settle()
    for server in failed:
        assert cloud.shown(server)["status"] == "ERROR"
        assert cloud.delete(f"/servers/{server}", "ann").status == 204
    cloud.world.settle()
    assert used(cloud) == 0
    cloud.host()
    good = [wish(cloud).json["server"]["id"] for _ in range(2)]
    assert "Requested 1, but already used 2 of 2" in fault(wish(cloud), 403)
    cloud.world.settle()
    assert [cloud.shown(server)["status"] for server in good] == ["ACTIVE", "ACTIVE"]
    cloud.world.silent.add("node1")
    cloud.delete(f"/servers/{good[0]}", "ann")
    cloud.world.settle()
    assert used(cloud) == 2, "its host has not said that it is gone"
    cloud.world.silent.clear()
    cloud.world.restart_agent("node1")
    cloud.world.settle()
    assert used(cloud) == 1


def test_a_limit_is_the_projects_whoever_of_it_asks(cloud: Any, fault: Any) -> None:
    cloud.host()
    cloud.put(f"/os-quota-sets/{ANNS}", {"quota_set": {"ram": 4000}})
    cloud.flavor("small", ram=512, disk=1)
    cloud.flavor("large", ram=2048, disk=1)
    assert wish(cloud, "ann", "small").status == 202
    assert wish(cloud, "mel", "large").status == 202
    told = fault(wish(cloud, "ann", "large"), 403)
    assert told == "Quota exceeded for ram: Requested 2048, but already used 2560 of 4000 ram"
    cloud.world.settle()
