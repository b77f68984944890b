"""No change of an aggregate takes a host out of a zone that the owner of a server there asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def aggregate(cloud: Any, name: str, zone: str | None, *hosts: str) -> int:
    body = {"name": name} | ({"availability_zone": zone} if zone else {})
    number: int = cloud.post("/os-aggregates", {"aggregate": body}).json["aggregate"]["id"]
    for host in hosts:
        assert act(cloud, number, {"add_host": {"host": host}}).status == 200
    return number


def act(cloud: Any, number: int, body: dict[str, Any]) -> Any:
    return cloud.post(f"/os-aggregates/{number}/action", body)


CHANGES: list[Callable[[Any, int], Any]] = [
    lambda cloud, number: act(cloud, number, {"remove_host": {"host": "node1"}}),
    lambda cloud, number: act(cloud, number, {"set_metadata": {"metadata": {"availability_zone": None}}}),
    lambda cloud, number: act(cloud, number, {"set_metadata": {"metadata": {"availability_zone": "rome"}}}),
    lambda cloud, number: cloud.put(f"/os-aggregates/{number}", {"aggregate": {"availability_zone": "rome"}}),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_host_stays_in_the_zone_that_a_server_there_was_asked_for_in(
    cloud: Any, fault: Any, change: Callable[[Any, int], Any]
) -> None:
    cloud.host("node1")
    london = aggregate(cloud, "a", "london", "node1")
    server = cloud.server(availability_zone="london")
    before = cloud.get(f"/os-aggregates/{london}").json
    told = fault(change(cloud, london), 409)
    assert "node1" in told
    assert "london" in told
    assert cloud.get(f"/os-aggregates/{london}").json == before
    cloud.delete(f"/servers/{server}", "ann")
    cloud.world.settle()
    assert change(cloud, london).status == 200


@pytest.mark.parametrize("change", CHANGES)
def test_a_server_that_asked_for_no_zone_hinders_nobody(
    cloud: Any, change: Callable[[Any, int], Any]
) -> None:
    cloud.host("node1")
    london = aggregate(cloud, "a", "london", "node1")
    cloud.server()
    assert change(cloud, london).status == 200


def test_a_host_does_not_leave_its_own_zone_either(cloud: Any, fault: Any) -> None:
    cloud.host("node1")
    london, plain = aggregate(cloud, "a", "london"), aggregate(cloud, "b", None)
    cloud.server(availability_zone="nova")
    fault(act(cloud, london, {"add_host": {"host": "node1"}}), 409)
    assert act(cloud, plain, {"add_host": {"host": "node1"}}).status == 200
    assert act(cloud, plain, {"set_metadata": {"metadata": {"ssd": "true"}}}).status == 200
    assert act(cloud, plain, {"remove_host": {"host": "node1"}}).status == 200
