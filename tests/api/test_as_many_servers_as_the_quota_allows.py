"""A request for `min_count` to `max_count` servers makes as many as the quota has room for, and what is
refused is told as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from compute import ANNS_PROJECT


def made(cloud: Any, least: int, most: int, **hints: Any) -> Any:
    cloud.flavor("2", disk=1, vcpus=2, ram=512)
    wish = {"name": "a", "flavorRef": "2", "imageRef": cloud.image(), "networks": "none"}
    body = {"server": {**wish, "min_count": least, "max_count": most}, "os:scheduler_hints": hints}
    return cloud.post("/servers", body, "ann", "2.96")


def limit(cloud: Any, **quota: int) -> None:
    assert cloud.put(f"/os-quota-sets/{ANNS_PROJECT}", {"quota_set": quota}).status == 200


def names(cloud: Any) -> list[str]:
    return sorted(server["name"] for server in cloud.get("/servers", "ann").json["servers"])


@pytest.mark.parametrize(("quota", "room"), [({"instances": 3}, 3), ({"cores": 5}, 2), ({"ram": 2048}, 4)])
def test_as_many_are_made_as_the_tightest_quota_has_room_for(
    cloud: Any, quota: dict[str, int], room: int
) -> None:
    limit(cloud, **quota)
    assert made(cloud, 1, 5).status == 202
    assert names(cloud) == [f"a-{n + 1}" for n in range(room)]


def test_as_many_join_a_group_as_it_may_have(cloud: Any) -> None:
    limit(cloud, server_group_members=3)
    group = cloud.group()
    cloud.server("first", hints={"group": group}, settle=False)
    assert made(cloud, 1, 5, group=group).status == 202
    assert names(cloud) == ["a-1", "a-2", "first"]


def test_fewer_than_the_least_are_none(cloud: Any, fault: Any) -> None:
    limit(cloud, instances=3, cores=7)
    told = fault(made(cloud, 4, 6), 403)
    assert told == (
        "Quota exceeded for instances, cores: Requested 4, 8, but already used 0, 0 of 3, 7 instances, cores"
    )
    assert names(cloud) == []


def test_a_group_that_is_full_says_so(cloud: Any, fault: Any) -> None:
    limit(cloud, server_group_members=2)
    assert "too many servers in group: 2 are allowed" in fault(made(cloud, 3, 4, group=cloud.group()), 403)
    assert names(cloud) == []
