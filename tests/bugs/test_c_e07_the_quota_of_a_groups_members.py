"""C-e07 and C-a17: one request, or several at once, for more members than a group may have.

The stories (Launchpad nova 1780373 and 1538169): members were counted once per request, before any was
made, and those that had no host yet did not count.

Right: 403 for the request that crosses the limit, and nothing of it is made; of racers as many as
fit get in. What makes it so: a group's members are a counter with its limit beside it, raised by
a guarded update in the transaction that makes the server (Q1).
"""

from __future__ import annotations

from typing import Any


def limited(cloud: Any, members: int) -> str:
    quota = {"quota_set": {"server_group_members": members}}
    assert cloud.put(f"/os-quota-sets/{'a' * 32}", quota).status == 200
    cloud.flavor("d", disk=1)
    return str(cloud.group("ann"))


def ask(cloud: Any, group: str, many: int) -> Any:
    wish = {"name": "x", "flavorRef": "d", "imageRef": cloud.image(), "networks": "none"}
    body = {"server": {**wish, "min_count": many, "max_count": many}, "os:scheduler_hints": {"group": group}}
    return cloud.post("/servers", body, "ann", "2.96")


def test_a_request_that_crosses_the_limit_makes_nothing(cloud: Any, fault: Any) -> None:
    group = limited(cloud, 5)
    assert ask(cloud, group, 3).status == 202
    before = cloud.world.picture()
    moves, actions = len(cloud.world.rows("move")), len(cloud.world.rows("action"))
    assert "too many servers in group" in fault(ask(cloud, group, 3), 403)
    assert cloud.world.picture() == before
    assert (len(cloud.world.rows("move")), len(cloud.world.rows("action"))) == (moves, actions)
    assert len(cloud.get(f"/os-server-groups/{group}", "ann").json["server_group"]["members"]) == 3
    cloud.world.settle()


def test_members_that_are_not_placed_count(cloud: Any, fault: Any) -> None:
    group = limited(cloud, 2)
    fault(ask(cloud, group, 3), 403)
    assert [ask(cloud, group, 1).status for _ in range(3)] == [202, 202, 403]
    cloud.world.settle()
