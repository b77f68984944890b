"""Fencing and removing hosts through their services; aborting live migrations."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs

from by_hand import step_until

PROGRESS = {
    f"{what}_{part}_bytes" for what in ("memory", "disk") for part in ("total", "processed", "remaining")
}


def test_a_service_is_forced_down_by_name_before_2_53_and_by_uuid_after(cloud: Any, fault: Any) -> None:
    host = cloud.host("node1")
    wish = {"host": "node1", "binary": "nova-compute", "forced_down": True}
    fault(cloud.put("/os-services/force-down", wish, version="2.10"), 405)
    down = cloud.put("/os-services/force-down", wish, version="2.11")
    assert down.json == {"service": wish}
    (shown,) = cloud.get("/os-services", version="2.52").json["services"]
    assert (shown["forced_down"], shown["state"]) == (True, "down")
    fault(cloud.put("/os-services/force-down", {**wish, "host": "node9"}, version="2.11"), 404)
    back = cloud.put(f"/os-services/{host}", {"forced_down": False}, version="2.53")
    assert back.json["service"]["forced_down"] is False
    fault(cloud.put("/os-services/force-down", wish, version="2.53"), 400)
    fault(cloud.put(f"/os-services/{host}", {"forced_down": True}, "mel", "2.53"), 403)


def test_the_log_says_who_took_a_host_out_of_use(cloud: Any) -> None:
    host = cloud.host("node1")
    why = {"status": "disabled", "disabled_reason": "new disk"}
    with capture_logs() as lines:
        cloud.put(f"/os-services/{host}", why, version="2.53")
        cloud.put(f"/os-services/{host}", {"forced_down": True}, "mel", "2.53")  # who may not
        cloud.put(f"/os-services/{host}", {"forced_down": True}, version="2.53")
        cloud.delete(f"/os-services/{host}", version="2.53")
    told = [line for line in lines if line["event"] == "host switched"]
    assert [(each["host"], each["status"], each["forced_down"], each["reason"]) for each in told] == [
        ("node1", "disabled", None, "new disk"),
        ("node1", None, True, None),
        ("node1", "forgotten", None, None),
    ]
    assert all(each["user"] and each["request"] for each in told)


def test_an_unused_host_is_forgotten_and_its_agent_may_introduce_it_again(cloud: Any, fault: Any) -> None:
    host = cloud.host("node1")
    cloud.host("node2")
    made = cloud.post("/os-aggregates", {"aggregate": {"name": "rack"}}).json["aggregate"]
    cloud.post(f"/os-aggregates/{made['id']}/action", {"add_host": {"host": "node1"}})
    fault(cloud.delete(f"/os-services/{host}", "mel", "2.53"), 403)
    assert cloud.delete(f"/os-services/{host}", version="2.53").status == 204
    fault(cloud.delete(f"/os-services/{host}", version="2.53"), 404)
    assert [each["host"] for each in cloud.get("/os-services").json["services"]] == ["node2"]
    assert cloud.get(f"/os-aggregates/{made['id']}").json["aggregate"]["hosts"] == []
    assert cloud.world.problems() == []
    cloud.world.restart_agent("node1")
    names = [each["host"] for each in cloud.get("/os-services").json["services"]]
    assert names == ["node1", "node2"]
    assert cloud.world.host_id("node1") != host
    number = cloud.get("/os-services").json["services"][0]["id"]
    fault(cloud.delete(f"/os-services/{number}", version="2.53"), 404)
    assert cloud.delete(f"/os-services/{number}", version="2.52").status == 204


def test_a_live_migration_is_aborted(cloud: Any, fault: Any) -> None:
    cloud.host("node1")
    server = cloud.server()
    cloud.host("node2")
    path = f"/servers/{server}/migrations"
    wish = {"host": None, "block_migration": "auto"}
    assert cloud.act(server, "os-migrateLive", wish).status == 202
    (move,) = cloud.world.unfinished()
    step_until(cloud.world, move, "prepare target")
    (shown,) = cloud.get(path, "mel", "2.80").json["migrations"]
    assert set(shown) >= PROGRESS | {"id", "uuid", "server_uuid", "user_id", "project_id", "status"}
    number = shown["id"]
    fault(cloud.delete(f"{path}/{number}", "mel", "2.23"), 405)
    fault(cloud.delete(f"{path}/{number}", "ann", "2.65"), 403)
    fault(cloud.delete(f"{path}/{number}", "bob", "2.65"), 403)
    fault(cloud.delete(f"{path}/{number + 1}", "mel", "2.65"), 404)
    fault(cloud.delete(f"{path}/x", "mel", "2.65"), 404)
    assert "Cannot abort" in fault(cloud.delete(f"{path}/{number}", "mel", "2.64"), 400)
    why = cloud.post(f"{path}/{number}/action", {"force_complete": None}, "mel", "2.22")
    assert "cannot be forced to complete" in fault(why, 400)
    fault(cloud.post(f"{path}/77/action", {"force_complete": None}, "mel", "2.22"), 404)
    fault(cloud.post(f"{path}/{number}/action", {"pause": None}, "mel", "2.22"), 400)
    assert cloud.delete(f"{path}/{number}", "mel", "2.65").status == 202
    cloud.world.settle()
    after = cloud.shown(server)
    assert (after["status"], after["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "node1")
    (told,) = cloud.get("/os-migrations", version="2.80").json["migrations"]
    assert told["status"] == "cancelled"
    fault(cloud.delete(f"{path}/{number}", "mel", "2.65"), 409)
