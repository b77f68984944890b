"""Hypervisors, services, aggregates and zones: the hosts as operators see them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from berthold.agent.daemon import Daemon
from berthold.agent.simulated import Simulated
from berthold.lab.turns import now as by_hand
from berthold.ledger import hosts

HYPERVISOR = {"id", "hypervisor_hostname", "state", "status"}
FULL = HYPERVISOR | {"host_ip", "hypervisor_type", "hypervisor_version", "service"}
SUMS = {
    "current_workload",
    "disk_available_least",
    "free_disk_gb",
    "free_ram_mb",
    "local_gb",
    "local_gb_used",
    "memory_mb",
    "memory_mb_used",
    "running_vms",
    "vcpus",
    "vcpus_used",
}


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        ("2.1", FULL | SUMS | {"cpu_info"}),
        ("2.28", FULL | SUMS | {"cpu_info"}),
        ("2.53", FULL | SUMS | {"cpu_info"}),
        ("2.87", FULL | SUMS | {"cpu_info"}),
        ("2.88", FULL | {"uptime"}),
        ("2.96", FULL | {"uptime"}),
    ],
)
def test_a_hypervisor_has_the_fields_of_its_version(cloud: Any, version: str, fields: set[str]) -> None:
    cloud.host("node1")
    (listed,) = cloud.get("/os-hypervisors/detail", version=version).json["hypervisors"]
    assert set(listed) == fields
    assert cloud.get(f"/os-hypervisors/{listed['id']}", version=version).json == {"hypervisor": listed}
    (brief,) = cloud.get("/os-hypervisors", version=version).json["hypervisors"]
    assert set(brief) == HYPERVISOR
    assert isinstance(listed["id"], str) == (int(version.split(".")[1]) >= 53)
    if "cpu_info" in fields:
        assert isinstance(listed["cpu_info"], str) == (version == "2.1")


def test_a_hypervisor_counts_what_lives_there(cloud: Any) -> None:
    cloud.host("node1", vcpus=8, memory_mb=16384)
    cloud.server("one")
    (shown,) = cloud.get("/os-hypervisors/detail", version="2.53").json["hypervisors"]
    assert (shown["vcpus"], shown["vcpus_used"], shown["running_vms"]) == (8, 1, 1)
    assert shown["free_ram_mb"] == shown["memory_mb"] - shown["memory_mb_used"]
    (with_servers,) = cloud.get("/os-hypervisors?with_servers=1", version="2.53").json["hypervisors"]
    assert [server["name"] for server in with_servers["servers"]] == ["one"]
    statistics = cloud.get("/os-hypervisors/statistics").json["hypervisor_statistics"]
    assert set(statistics) == SUMS | {"count"}
    assert statistics["vcpus_used"] == 1


@pytest.mark.parametrize(
    ("ago", "up"),
    [
        (59, "0 min"),
        (60, "1 min"),
        (3600, "1:00"),
        (86400 + 61, "1 day, 1 min"),
        (9 * 86400 + 7500, "9 days, 2:05"),
    ],
)
def test_since_when_a_host_runs_is_as_of_when_it_was_heard(
    cloud: Any, fault: Any, ago: float, up: str
) -> None:
    world, heard = cloud.world, cloud.clock.now()
    driver = Simulated(world.ground, "node1", booted_at=heard - ago)
    world.agents["node1"] = Daemon(world.door, driver, world.ground.journal("node1"))
    by_hand(world.agents["node1"].join())
    cloud.store.write_now(hosts.heard, [world.host_id("node1")])
    cloud.clock.advance(1000)
    (shown,) = cloud.get("/os-hypervisors/detail", version="2.88").json["hypervisors"]
    at = datetime.fromtimestamp(heard, UTC).strftime("%H:%M:%S")
    assert shown["uptime"] == f"{at} up {up},  0 users,  load average: 0.00, 0.00, 0.00"
    path = f"/os-hypervisors/{shown['id']}/uptime"
    assert cloud.get(path, version="2.53").json["hypervisor"]["uptime"] == shown["uptime"]
    cloud.host("node2")  # one that does not tell
    other = cloud.world.host_id("node2")
    assert cloud.get(f"/os-hypervisors/{other}", version="2.88").json["hypervisor"]["uptime"] is None
    assert "uptime" in fault(cloud.get(f"/os-hypervisors/{other}/uptime", version="2.53"), 400)


def test_a_silent_host_is_down_and_a_disabled_one_says_so(cloud: Any) -> None:
    host = cloud.host("node1")
    (up,) = cloud.get("/os-hypervisors").json["hypervisors"]
    assert (up["state"], up["status"]) == ("up", "enabled")
    cloud.clock.advance(60)
    body = {"status": "disabled", "disabled_reason": "broken fan"}
    answer = cloud.put(f"/os-services/{host}", body, version="2.53")
    service = answer.json["service"]
    assert (service["status"], service["disabled_reason"], service["state"]) == (
        "disabled",
        "broken fan",
        "down",
    )
    (down,) = cloud.get("/os-hypervisors").json["hypervisors"]
    assert (down["state"], down["status"]) == ("down", "disabled")


def test_hypervisors_are_found_and_paged(cloud: Any, fault: Any) -> None:
    for name in ("node1", "node2", "other"):
        cloud.host(name)
    found = cloud.get("/os-hypervisors?hypervisor_hostname_pattern=node", version="2.53").json
    assert [h["hypervisor_hostname"] for h in found["hypervisors"]] == ["node1", "node2"]
    fault(cloud.get("/os-hypervisors?hypervisor_hostname_pattern=moon", version="2.53"), 404)
    assert len(cloud.get("/os-hypervisors/node/search").json["hypervisors"]) == 2
    assert len(cloud.get("/os-hypervisors/node1/servers").json["hypervisors"]) == 1
    page = cloud.get("/os-hypervisors?limit=2", version="2.53").json
    following = page["hypervisors_links"][0]["href"].removeprefix("http://cloud/v2.1")
    rest = cloud.get(following, version="2.53").json["hypervisors"]
    assert [h["hypervisor_hostname"] for h in rest] == ["other"]
    fault(cloud.get("/os-hypervisors?marker=nobody", version="2.53"), 400)
    fault(cloud.get("/os-hypervisors/node1", version="2.53"), 404)
    fault(cloud.get("/os-hypervisors/1"), 404)


@pytest.mark.parametrize(
    "path",
    [
        "/os-hypervisors",
        "/os-hypervisors/detail",
        "/os-services",
        "/os-aggregates",
        "/os-availability-zone/detail",
    ],
)
def test_hosts_are_the_operators_business(cloud: Any, fault: Any, path: str) -> None:
    for who in ("ann", "mel", "rita"):
        assert "Policy doesn't allow" in fault(cloud.get(path, who), 403)


SERVICE = {"binary", "disabled_reason", "host", "id", "state", "status", "updated_at", "zone"}


@pytest.mark.parametrize(
    ("version", "fields"),
    [("2.1", SERVICE), ("2.11", SERVICE | {"forced_down"}), ("2.53", SERVICE | {"forced_down"})],
)
def test_a_service_has_the_fields_of_its_version(cloud: Any, version: str, fields: set[str]) -> None:
    host = cloud.host("node1")
    (service,) = cloud.get("/os-services", version=version).json["services"]
    assert set(service) == fields
    assert (service["binary"], service["zone"], service["state"]) == ("nova-compute", "nova", "up")
    assert (service["id"] == host) == (version == "2.53")
    assert cloud.get("/os-services?host=node9", version=version).json == {"services": []}
    assert cloud.get("/os-services?binary=nova-conductor", version=version).json == {"services": []}


def test_services_are_switched_by_name_before_2_53_and_by_uuid_after(cloud: Any, fault: Any) -> None:
    host = cloud.host("node1")
    named = {"host": "node1", "binary": "nova-compute"}
    shown = cloud.put("/os-services/disable-log-reason", {**named, "disabled_reason": "x"}).json["service"]
    assert shown == {**named, "status": "disabled", "disabled_reason": "x"}
    assert cloud.get("/os-services").json["services"][0]["status"] == "disabled"
    assert cloud.put("/os-services/enable", named).json["service"]["status"] == "enabled"
    assert cloud.put("/os-services/disable", named).json["service"] == {**named, "status": "disabled"}
    fault(cloud.put("/os-services/disable", {**named, "host": "node9"}), 404)
    fault(cloud.put("/os-services/disable-log-reason", named), 400)
    fault(cloud.put("/os-services/enable", named, version="2.53"), 400)
    enabled = cloud.put(f"/os-services/{host}", {"status": "enabled"}, version="2.53").json["service"]
    assert set(enabled) == SERVICE | {"forced_down"}
    assert (enabled["status"], enabled["disabled_reason"]) == ("enabled", None)
    for wrong in ({}, {"status": "x"}, {"status": "enabled", "disabled_reason": "x"}):
        fault(cloud.put(f"/os-services/{host}", wrong, version="2.53"), 400)
    fault(cloud.put("/os-services/nobody", {"status": "enabled"}, version="2.53"), 404)
    fault(cloud.put(f"/os-services/{host}", {"status": "enabled"}, "ann", "2.53"), 403)


NEW_AGGREGATE = {"availability_zone", "created_at", "deleted", "deleted_at", "id", "name", "updated_at"}


@pytest.mark.parametrize(("version", "more"), [("2.1", set()), ("2.41", {"uuid"}), ("2.81", {"uuid"})])
def test_an_aggregate_has_the_fields_of_its_version(cloud: Any, version: str, more: set[str]) -> None:
    body = {"aggregate": {"name": "a", "availability_zone": "london"}}
    made = cloud.post("/os-aggregates", body, version=version).json["aggregate"]
    assert set(made) == NEW_AGGREGATE | more
    shown = cloud.get(f"/os-aggregates/{made['id']}", version=version).json["aggregate"]
    assert set(shown) == NEW_AGGREGATE | more | {"hosts", "metadata"}
    assert shown["metadata"] == {"availability_zone": "london"}
    assert cloud.get("/os-aggregates", version=version).json == {"aggregates": [shown]}


def test_an_aggregate_gathers_hosts_and_makes_a_zone(cloud: Any, fault: Any) -> None:
    cloud.host("node1")
    cloud.host("node2")
    made = cloud.post("/os-aggregates", {"aggregate": {"name": "a"}}).json["aggregate"]["id"]
    path = f"/os-aggregates/{made}/action"
    assert cloud.post(path, {"add_host": {"host": "node1"}}).json["aggregate"]["hosts"] == ["node1"]
    fault(cloud.post(path, {"add_host": {"host": "node1"}}), 409)
    fault(cloud.post(path, {"add_host": {"host": "node9"}}), 404)
    metadata = {"metadata": {"ssd": "true", "availability_zone": "london"}}
    shown = cloud.post(path, {"set_metadata": metadata}).json["aggregate"]
    assert (shown["metadata"]["ssd"], shown["availability_zone"]) == ("true", "london")
    zones = cloud.get("/os-availability-zone", "ann").json["availabilityZoneInfo"]
    assert [zone["zoneName"] for zone in zones] == ["london", "nova"]
    assert zones[0] == {"zoneName": "london", "zoneState": {"available": True}, "hosts": None}
    detail = cloud.get("/os-availability-zone/detail").json["availabilityZoneInfo"][0]
    assert set(detail["hosts"]["node1"]["nova-compute"]) == {"available", "active", "updated_at"}
    other = cloud.post("/os-aggregates", {"aggregate": {"name": "b", "availability_zone": "paris"}})
    other_path = f"/os-aggregates/{other.json['aggregate']['id']}/action"
    assert "already in availability zone london" in fault(
        cloud.post(other_path, {"add_host": {"host": "node1"}}), 409
    )
    assert cloud.post(path, {"set_metadata": {"metadata": {"ssd": None}}}).json["aggregate"]["metadata"] == {
        "availability_zone": "london"
    }
    fault(cloud.delete(f"/os-aggregates/{made}"), 409)
    assert cloud.post(path, {"remove_host": {"host": "node1"}}).json["aggregate"]["hosts"] == []
    fault(cloud.post(path, {"remove_host": {"host": "node1"}}), 404)
    assert cloud.put(f"/os-aggregates/{made}", {"aggregate": {"name": "c"}}).json["aggregate"]["name"] == "c"
    fault(cloud.put(f"/os-aggregates/{made}", {"aggregate": {"name": "b"}}), 409)
    fault(cloud.put(f"/os-aggregates/{made}", {"aggregate": {}}), 400)
    assert cloud.delete(f"/os-aggregates/{made}").status == 200
    fault(cloud.get(f"/os-aggregates/{made}"), 404)


@pytest.mark.parametrize("body", [{}, {"add_host": {}}, {"dance": {}}, {"add_host": {"host": 7}}])
def test_a_wrong_aggregate_action_is_400(cloud: Any, fault: Any, body: Any) -> None:
    made = cloud.post("/os-aggregates", {"aggregate": {"name": "a"}}).json["aggregate"]["id"]
    fault(cloud.post(f"/os-aggregates/{made}/action", body), 400)
    fault(cloud.post("/os-aggregates", {"aggregate": {"name": "a"}}), 409)
    fault(cloud.post("/os-aggregates", {"aggregate": {"name": "b", "availability_zone": "a:b"}}), 400)
