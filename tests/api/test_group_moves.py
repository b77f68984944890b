"""Whole-group moves over the API: who may, what is answered, and that every no has its reason."""

from __future__ import annotations

from typing import Any

import pytest

from by_hand import step_until, under_way

MEMBERS = ("db-1", "db-2")


@pytest.fixture
def group(cloud: Any) -> str:
    """Ann's affinity group: two servers on node1; node2 has room for both, node3 for one."""
    cloud.host("node1")
    group = cloud.group("ann", "affinity")
    for name in MEMBERS:
        cloud.server(name, hints={"group": group})
    cloud.host("node2")
    cloud.host("node3", vcpus=1)
    return str(group)


def act(cloud: Any, group: str, body: dict[str, Any], who: str = "admin") -> Any:
    return cloud.post(f"/os-server-groups/{group}/action", body, who)


def look(cloud: Any, group: str, who: str = "admin") -> dict[str, Any]:
    answer = cloud.get(f"/os-server-groups/{group}/move", who)
    assert answer.status == 200, answer.json
    shown: dict[str, Any] = answer.json["group_move"]
    return shown


def hold(cloud: Any, group: str) -> None:
    """One member cannot go to node2."""
    cloud.world.faults_of["node2"].plan("refuse", verb="prepare", times=1)
    assert act(cloud, group, {"move": {"host": "node2"}}).status == 202
    cloud.world.settle()


def test_a_group_moves_to_the_only_host_with_room_for_all(cloud: Any, group: str) -> None:
    answer = act(cloud, group, {"move": None})
    assert answer.status == 202
    shown = answer.json["group_move"]
    assert (shown["status"], shown["source_host"], shown["target_host"]) == ("moving", "node1", "node2")
    assert shown["server_group_id"] == group
    assert sorted(member["name"] for member in shown["members"]) == list(MEMBERS)
    assert {member["status"] for member in shown["members"]} == {"moving"}
    assert {s["OS-EXT-STS:task_state"] for s in servers(cloud)} == {"migrating"}
    cloud.world.settle()
    shown = look(cloud, group)
    assert shown["status"] == "done"
    assert {(member["status"], member["host"]) for member in shown["members"]} == {("done", "node2")}
    assert {s["OS-EXT-SRV-ATTR:host"] for s in servers(cloud)} == {"node2"}


def servers(cloud: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cloud.get("/servers/detail?all_tenants=1").json["servers"]
    return found


@pytest.mark.parametrize(
    ("word", "status", "host"), [("resume", "done", "node2"), ("back", "returned", "node1")]
)
def test_what_is_held_says_why_and_goes_either_way(
    cloud: Any, group: str, fault: Any, word: str, status: str, host: str
) -> None:
    hold(cloud, group)
    shown = look(cloud, group)
    assert shown["status"] == "held"
    (held,) = [member for member in shown["members"] if member["status"] == "held"]
    assert held["reason"] == "a host could not make room for the server"
    assert held["reasons_by_host"] == {"node2": "a fault was planned"}
    (other,) = [member for member in shown["members"] if member["status"] == "arrived"]
    assert (held["host"], other["host"]) == ("node1", "node2")
    assert act(cloud, group, {word: None}).status == 202
    cloud.world.settle()
    assert look(cloud, group)["status"] == status
    assert {s["OS-EXT-SRV-ATTR:host"] for s in servers(cloud)} == {host}
    told = fault(act(cloud, group, {"back": None}), 409)
    assert ("it has been taken back" in told) is (word == "back")
    assert ("the last member has arrived" in told) is (word == "resume")


def test_no_host_for_all_says_why_host_by_host_to_operators_only(cloud: Any, group: str, fault: Any) -> None:
    cloud.put("/os-services/disable", {"host": "node2", "binary": "nova-compute"}, "admin", "2.1")
    told = fault(act(cloud, group, {"move": None}), 409)
    assert "No valid host was found" in told
    assert "node2: host state: the host was disabled by an operator" in told
    assert "node3: capacity: not enough VCPU for all: wanted 2, free 1 of 1" in told
    assert "node1: source host" in told
    public = fault(act(cloud, group, {"move": None}, "mel"), 409)
    assert "No valid host was found" in public
    assert "node" not in public.replace("No valid", "")
    assert servers(cloud)[0]["OS-EXT-STS:task_state"] is None


def test_who_may_do_what(cloud: Any, group: str, fault: Any) -> None:
    fault(act(cloud, group, {"move": None}, "ann"), 403)
    fault(act(cloud, group, {"move": {"host": "node2"}}, "mel"), 403)
    fault(act(cloud, group, {"move": None}, "rob"), 404)
    fault(cloud.get(f"/os-server-groups/{group}/move", "bob"), 404)
    assert act(cloud, group, {"move": {}}, "mel").status == 202
    shown = look(cloud, group, "ann")
    assert not shown.keys() & {"source_host", "target_host"}
    assert not shown["members"][0].keys() & {"host", "reasons_by_host"}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"move": None, "back": None},
        {"resume": {}},
        {"back": True},
        {"move": {"host": ""}},
        {"move": {"host": 7, "force": True}},
        {"away": None},
        {"move": {"host": "node9"}},
        {"move": {"host": "node1"}},
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(cloud: Any, group: str, fault: Any, body: dict[str, Any]) -> None:
    assert fault(act(cloud, group, body), 400)
    fault(cloud.get(f"/os-server-groups/{group}/move"), 404)


def test_what_cannot_be_done_now_says_why(cloud: Any, group: str, fault: Any) -> None:
    for word in ("resume", "back"):
        assert "never moved" in fault(act(cloud, group, {word: None}), 404)
    (one, _) = servers(cloud)
    cloud.act(one["id"], "pause")
    cloud.world.settle()
    told = fault(act(cloud, group, {"move": None}), 409)
    assert f"{one['name']} ({one['id']}) is paused" in told
    assert "may wait" not in told
    assert "its policy is anti-affinity" in fault(act(cloud, cloud.group("ann"), {"move": None}), 409)
    fault(act(cloud, "no-such-group", {"move": None}), 404)


def test_a_group_on_its_way_cannot_begin_another_move_and_is_told_so_once(
    cloud: Any, group: str, fault: Any
) -> None:
    hold(cloud, group)
    whole = look(cloud, group)["id"]
    told = fault(act(cloud, group, {"move": None}), 409)
    assert told.endswith(f"cannot move now: the group is on its way already (group move {whole}).")
    assert act(cloud, group, {"back": None}).status == 202
    told = fault(act(cloud, group, {"move": None}), 409)
    assert told.endswith(f"cannot move now: the group is on its way back (group move {whole}).")


def test_a_group_that_moves_takes_nobody_in_and_is_shown_as_ever(cloud: Any, group: str, fault: Any) -> None:
    before = cloud.get(f"/os-server-groups/{group}", "ann", "2.96").json
    hold(cloud, group)
    assert cloud.get(f"/os-server-groups/{group}", "ann", "2.96").json == before
    disk = {"uuid": cloud.volume(cloud.image()), "boot_index": 0}
    disk |= {"source_type": "volume", "destination_type": "volume"}
    wish = {"name": "db-3", "flavorRef": "100", "networks": "none", "block_device_mapping_v2": [disk]}
    body = {"server": wish, "OS-SCH-HNT:scheduler_hints": {"group": group}}
    assert "is moving" in fault(cloud.post("/servers", body, "ann", "2.96"), 409)
    one = servers(cloud)[0]["id"]
    assert "berthold group move" in fault(cloud.act(one, "os-stop"), 409)


def wait(cloud: Any, group: str, seconds: str) -> Any:
    body, headers = {"move": {"host": "node2"}}, {"Berthold-Wait": seconds}
    path = f"/v2.1/os-server-groups/{group}/action"
    return cloud.send("POST", path, "admin", "2.96", body, headers=headers)


def test_a_group_waits_for_room_if_its_request_says_so(cloud: Any, group: str, fault: Any) -> None:
    big = cloud.flavor("104", vcpus=3)
    old = cloud.server("old", flavorRef=big)
    cloud.delete(f"/servers/{old}", "admin")
    step_until(cloud.world, under_way(cloud.world, old), "let volumes go")
    told = fault(wait(cloud, group, "0"), 409)
    assert "No valid host was found" in told
    assert "a group move may wait for it" in told
    fault(wait(cloud, group, "soon"), 400)
    answer = wait(cloud, group, "120")
    assert answer.status == 202
    shown = answer.json["group_move"]
    assert (shown["status"], shown["source_host"], shown["target_host"]) == ("waiting", "node1", None)
    assert [member["status"] for member in shown["members"]] == ["waiting"]
    assert "waits for a host already" in fault(act(cloud, group, {"move": None}), 409)
    cloud.world.settle()
    shown = look(cloud, group)
    assert (shown["status"], shown["target_host"], shown["reason"]) == ("done", "node2", None)
    assert {s["OS-EXT-SRV-ATTR:host"] for s in servers(cloud)} == {"node2"}


def test_a_group_that_waited_in_vain_says_why(cloud: Any, group: str) -> None:
    one = servers(cloud)[0]["id"]
    assert cloud.act(one, "reboot", {"type": "SOFT"}).status == 202
    assert wait(cloud, group, "60").json["group_move"]["status"] == "waiting"
    assert act(cloud, group, {"back": None}).status == 202
    cloud.world.settle()
    shown = look(cloud, group)
    assert (shown["status"], shown["reason"]) == ("refused", "it was aborted")
    assert {s["OS-EXT-SRV-ATTR:host"] for s in servers(cloud)} == {"node1"}
