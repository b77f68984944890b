"""`Berthold-Wait: 120`: how a request says that its move may wait for a place, and what is seen of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from berthold.lab.world import with_settings
from by_hand import step_until, under_way


@pytest.fixture
def full(cloud: Any) -> str:
    """One host, on which a server is being deleted that fills it; the host's name."""
    cloud.host("node1", vcpus=1)
    old = cloud.server("old")
    cloud.delete(f"/servers/{old}", "ann")
    step_until(cloud.world, under_way(cloud.world, old), "let volumes go")
    return "node1"


def created(cloud: Any, wait: str | None, **hints: str) -> Any:
    if not [row for row in cloud.world.rows("flavor") if row["id"] == "101"]:
        cloud.flavor("101", disk=1)
    wish = {"name": "new", "flavorRef": "101", "imageRef": cloud.image(), "networks": "none"}
    headers = {} if wait is None else {"Berthold-Wait": wait}
    body = {"server": wish, "OS-SCH-HNT:scheduler_hints": hints}
    return cloud.send("POST", "/v2.1/servers", "ann", "2.96", body, headers=headers)


def waiting(cloud: Any) -> list[str]:
    return sorted({row["move_id"] for row in cloud.world.rows("queue")})


def test_a_create_waits_as_long_as_its_request_says(cloud: Any, full: str) -> None:
    server = created(cloud, "120").json["server"]["id"]
    move = under_way(cloud.world, server)
    cloud.world.step(move)
    assert waiting(cloud) == [move]
    shown = cloud.shown(server)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("BUILD", "scheduling")
    cloud.world.settle()
    assert cloud.shown(server)["status"] == "ACTIVE"


def test_its_action_says_for_what_it_waits_and_names_no_host(cloud: Any, full: str) -> None:
    server = created(cloud, "120").json["server"]["id"]
    cloud.world.step(under_way(cloud.world, server))
    (action,) = cloud.get(f"/servers/{server}/os-instance-actions", "ann").json["instanceActions"]
    path = f"/servers/{server}/os-instance-actions/{action['request_id']}"
    event = cloud.get(path, "admin", "2.96").json["instanceAction"]["events"][0]
    assert (event["event"], event["result"]) == ("berthold_wait_for_place", None)
    assert event["details"] == "Waits for a place until others on the move have ended. 1 host: capacity"
    cloud.world.settle()
    events = cloud.get(path, "ann", "2.96").json["instanceAction"]["events"]
    assert ("berthold_wait_for_place", "Success") in [(each["event"], each["result"]) for each in events]


@pytest.mark.parametrize("wait", [None, "0"])
def test_a_create_that_does_not_say_so_fails_at_once(cloud: Any, full: str, wait: str | None) -> None:
    server = created(cloud, wait).json["server"]["id"]
    cloud.world.step(under_way(cloud.world, server))
    assert waiting(cloud) == []
    cloud.world.settle()
    assert cloud.shown(server)["status"] == "ERROR"


def test_a_cloud_may_let_everybody_wait(cloud: Any, full: str) -> None:
    cloud.app = cloud.over_http(settings=with_settings(wait_s=60.0))
    server = created(cloud, None).json["server"]["id"]
    cloud.world.step(under_way(cloud.world, server))
    assert waiting(cloud) == [under_way(cloud.world, server)]


def test_a_move_that_looks_for_no_place_has_nothing_to_wait_for(cloud: Any) -> None:
    cloud.host("node1")
    server = cloud.server()
    stop = {"os-stop": None}
    answer = cloud.send(
        "POST", f"/v2.1/servers/{server}/action", "ann", "2.96", stop, headers={"Berthold-Wait": "9"}
    )
    assert answer.status == 202
    assert cloud.world.move(under_way(cloud.world, server))["wish"] == {}


def test_a_new_member_waits_until_its_group_has_arrived(cloud: Any, fault: Callable[[Any, int], str]) -> None:
    cloud.host("node1")
    group = cloud.group("ann", "affinity")
    cloud.server("db-1", hints={"group": group})
    cloud.host("node2")
    assert cloud.post(f"/os-server-groups/{group}/action", {"move": None}, "admin").status == 202
    assert "or let the server wait" in fault(created(cloud, None, group=group), 409)
    server = created(cloud, "120", group=group).json["server"]["id"]
    cloud.world.step(under_way(cloud.world, server))
    assert waiting(cloud) == [under_way(cloud.world, server)]
    cloud.world.settle()
    shown = cloud.get(f"/servers/{server}").json["server"]
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "node2")


@pytest.mark.parametrize("wait", ["", "soon", "-1", "1.5", "3601", "9" * 40, "١٢"])
def test_a_wait_that_cannot_be_meant_is_refused(
    cloud: Any, fault: Callable[[Any, int], str], full: str, wait: str
) -> None:
    answer = created(cloud, wait.encode() if not wait.isascii() else wait)  # type: ignore[arg-type]
    assert fault(answer, 400).startswith("Berthold-Wait: expected whole seconds from 0 to 3600, not '")
    assert [row["name"] for row in cloud.world.rows("server")] == ["old"]
