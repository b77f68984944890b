"""Shelve, shelve offload and unshelve, as owners and operators ask for them."""

from __future__ import annotations

from typing import Any

import pytest

from berthold.lab.world import with_settings

STATE = ("status", "OS-EXT-STS:vm_state", "OS-EXT-STS:task_state", "OS-EXT-SRV-ATTR:host")


def state(cloud: Any, server: str) -> tuple[Any, ...]:
    shown = cloud.shown(server)
    return tuple(shown[name] for name in STATE)


@pytest.fixture
def keeping(cloud: Any) -> Any:
    """Two hosts; a shelved server keeps its host until somebody asks for that."""
    for name in ("node1", "node2"):
        cloud.host(name)
    cloud.app = cloud.over_http(settings=with_settings(shelved_offload_s=-1))
    return cloud


def on_its_host(cloud: Any) -> str:
    """A server whose disk is there, made from an image."""
    cloud.flavor("200", disk=1)
    server: str = cloud.server(flavorRef="200", imageRef=cloud.image(), block_device_mapping_v2=[])
    return server


@pytest.fixture
def shelved(cloud: Any) -> str:
    """A server without a host; `node1` and `node2` have room."""
    for name in ("node1", "node2"):
        cloud.host(name)
    server: str = cloud.server()
    assert cloud.act(server, "shelve", None, "ann").status == 202
    assert state(cloud, server)[0:3] == ("ACTIVE", "active", "shelving")
    cloud.world.settle()
    return server


def test_a_shelved_server_gives_its_host_back_and_finds_one_again(cloud: Any, shelved: str) -> None:
    assert state(cloud, shelved) == ("SHELVED_OFFLOADED", "shelved_offloaded", None, None)
    shown = cloud.shown(shelved)
    assert (shown["OS-EXT-SRV-ATTR:hypervisor_hostname"], shown["hostId"]) == (None, "")
    assert (shown["OS-EXT-STS:power_state"], shown["host_status"]) == (0, "")
    assert cloud.world.claims(shelved) == []
    assert cloud.act(shelved, "unshelve", None, "ann").status == 202
    assert state(cloud, shelved)[:3] == ("SHELVED_OFFLOADED", "shelved_offloaded", "unshelving")
    cloud.world.settle()
    assert state(cloud, shelved)[:3] == ("ACTIVE", "active", None)
    actions = cloud.get(f"/servers/{shelved}/os-instance-actions").json["instanceActions"]
    assert [action["action"] for action in actions] == ["unshelve", "shelve", "create"]


def test_lists_find_servers_on_the_shelf(cloud: Any, shelved: str) -> None:
    other = cloud.server("other")

    def found(query: str, version: str = "2.96") -> list[str]:
        servers = cloud.get(f"/servers?{query}", "ann", version).json["servers"]
        return [server["id"] for server in servers]

    assert found("status=SHELVED_OFFLOADED") == [shelved]
    assert found("status=shelved_offloaded", "2.1") == [shelved]
    assert found("vm_state=shelved_offloaded") == [shelved]
    assert found("status=SHELVED") == []
    assert found("status=ACTIVE") == [other]
    assert found("") == [other, shelved]


def test_an_operator_gives_the_host_back_where_that_is_not_done_at_once(keeping: Any, fault: Any) -> None:
    server = on_its_host(keeping)
    home = keeping.shown(server)["OS-EXT-SRV-ATTR:host"]
    assert "Cannot 'shelveOffload'" in fault(keeping.act(server, "shelveOffload"), 409)
    keeping.act(server, "shelve", {}, "ann")
    keeping.world.settle()
    assert state(keeping, server) == ("SHELVED", "shelved", None, home)
    assert "Cannot 'shelve'" in fault(keeping.act(server, "shelve"), 409)
    for who in ("ann", "mel"):
        assert "shelve_offload" in fault(keeping.act(server, "shelveOffload", None, who), 403)
    assert keeping.act(server, "shelveOffload").status == 202
    assert state(keeping, server)[:3] == ("SHELVED", "shelved", "shelving_offloading")
    keeping.world.settle()
    assert state(keeping, server) == ("SHELVED_OFFLOADED", "shelved_offloaded", None, None)


def test_a_server_that_kept_its_host_is_unshelved_there(keeping: Any, fault: Any) -> None:
    server = on_its_host(keeping)
    home = keeping.shown(server)["OS-EXT-SRV-ATTR:host"]
    keeping.act(server, "shelve")
    keeping.world.settle()
    for where in ({"availability_zone": "nova"}, {"host": "node1"}):
        assert "not offloaded" in fault(keeping.act(server, "unshelve", where), 409)
    assert keeping.act(server, "unshelve", None).status == 202
    keeping.world.settle()
    assert state(keeping, server) == ("ACTIVE", "active", None, home)


def test_a_server_on_volumes_gives_its_host_back_in_any_case(keeping: Any) -> None:
    server = keeping.server()
    assert keeping.act(server, "shelve", None, "ann").status == 202
    keeping.world.settle()
    assert state(keeping, server) == ("SHELVED_OFFLOADED", "shelved_offloaded", None, None)


@pytest.mark.parametrize("what", ["pause", "os-stop", "suspend"])
def test_it_may_be_shelved_whatever_it_was(cloud: Any, what: str) -> None:
    cloud.host()
    server = cloud.server()
    assert cloud.act(server, what, None, "ann").status == 202
    cloud.world.settle()
    assert cloud.act(server, "shelve", None, "ann").status == 202
    cloud.world.settle()
    assert state(cloud, server)[0] == "SHELVED_OFFLOADED"


@pytest.mark.parametrize(
    ("version", "where"),
    [
        ("2.1", None),
        ("2.76", {}),
        ("2.77", None),
        ("2.77", {"availability_zone": "east"}),
        ("2.90", {"availability_zone": "east"}),
        ("2.91", None),
        ("2.91", {"availability_zone": "east"}),
        ("2.91", {"availability_zone": None}),
        ("2.91", {"host": "node2"}),
        ("2.91", {"host": "node2", "availability_zone": "east"}),
        ("2.96", {"host": "node2", "availability_zone": None}),
    ],
)
def test_each_version_says_where_in_its_form(cloud: Any, shelved: str, version: str, where: Any) -> None:
    rack = cloud.post("/os-aggregates", {"aggregate": {"name": "rack", "availability_zone": "east"}})
    number = rack.json["aggregate"]["id"]
    cloud.post(f"/os-aggregates/{number}/action", {"add_host": {"host": "node2"}})
    assert cloud.act(shelved, "unshelve", where, version=version).status == 202
    cloud.world.settle()
    shown = cloud.shown(shelved)
    assert shown["status"] == "ACTIVE"
    where = where or {}
    if "host" in where or where.get("availability_zone"):
        assert shown["OS-EXT-SRV-ATTR:host"] == "node2"
        assert shown["OS-EXT-AZ:availability_zone"] == "east"
    assert shown["pinned_availability_zone"] == where.get("availability_zone")


@pytest.mark.parametrize(
    ("version", "where", "status"),
    [
        ("2.1", {"availability_zone": "nova"}, 400),
        ("2.76", {"availability_zone": "nova"}, 400),
        ("2.77", {}, 400),
        ("2.77", {"availability_zone": None}, 400),
        ("2.77", {"availability_zone": "nowhere"}, 400),
        ("2.77", {"availability_zone": 7}, 400),
        ("2.90", {"host": "node1"}, 400),
        ("2.91", {}, 400),
        ("2.91", {"host": None}, 400),
        ("2.91", {"host": "node9"}, 400),
        ("2.91", {"availability_zone": "nowhere"}, 400),
        ("2.91", {"colour": "red"}, 400),
        ("2.91", [], 400),
        ("2.91", {"host": "node1", "availability_zone": "east"}, 409),
    ],
)
def test_what_is_of_no_version_is_refused_and_nothing_is_begun(
    cloud: Any, fault: Any, shelved: str, version: str, where: Any, status: int
) -> None:
    rack = cloud.post("/os-aggregates", {"aggregate": {"name": "rack", "availability_zone": "east"}})
    number = rack.json["aggregate"]["id"]
    cloud.post(f"/os-aggregates/{number}/action", {"add_host": {"host": "node2"}})
    fault(cloud.act(shelved, "unshelve", where, version=version), status)
    assert state(cloud, shelved)[2] is None
    assert cloud.world.unfinished() == []


def test_a_server_bound_to_a_zone_is_not_unshelved_outside_it(cloud: Any, fault: Any) -> None:
    cloud.host("node1")
    server = cloud.server(availability_zone="nova")
    cloud.host("node2")
    rack = cloud.post("/os-aggregates", {"aggregate": {"name": "rack", "availability_zone": "east"}})
    cloud.post(f"/os-aggregates/{rack.json['aggregate']['id']}/action", {"add_host": {"host": "node2"}})
    cloud.act(server, "shelve")
    cloud.world.settle()
    assert "not in the availability zone" in fault(cloud.act(server, "unshelve", {"host": "node2"}), 409)
    assert cloud.act(server, "unshelve", {"host": "node2", "availability_zone": None}).status == 202
    cloud.world.settle()
    shown = cloud.shown(server)
    assert (shown["OS-EXT-SRV-ATTR:host"], shown["pinned_availability_zone"]) == ("node2", None)


def test_only_an_admin_names_a_host(cloud: Any, fault: Any, shelved: str) -> None:
    for who in ("ann", "mel"):
        assert "unshelve_to_host" in fault(cloud.act(shelved, "unshelve", {"host": "node1"}, who), 403)
    fault(cloud.act(shelved, "unshelve", None, "rita"), 403)
    fault(cloud.act(shelved, "shelve", None, "rita"), 403)
    fault(cloud.act(shelved, "unshelve", None, "bob"), 404)
    cloud.act(shelved, "lock")
    fault(cloud.act(shelved, "unshelve", None, "ann"), 409)
    assert cloud.act(shelved, "unshelve", {"host": "node1"}).status == 202


def test_a_server_that_is_not_shelved_is_409(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server()
    assert "Cannot 'unshelve'" in fault(cloud.act(server, "unshelve", None, "ann"), 409)
    cloud.act(server, "shelve")
    assert "Cannot 'shelve'" in fault(cloud.act(server, "shelve", None, "ann"), 409)
    cloud.world.settle()
    for action in ("os-start", "os-stop", "pause", "shelve"):
        fault(cloud.act(server, action, None, "ann"), 409)


def test_with_no_room_it_stays_on_the_shelf_and_says_why(cloud: Any) -> None:
    cloud.host(vcpus=1)
    server = cloud.server()
    cloud.act(server, "shelve")
    cloud.world.settle()
    cloud.server("other")
    request = cloud.act(server, "unshelve", None, "ann").headers["x-openstack-request-id"]
    cloud.world.settle()
    assert state(cloud, server) == ("SHELVED_OFFLOADED", "shelved_offloaded", None, None)
    path = f"/servers/{server}/os-instance-actions/{request}"
    action = cloud.get(path).json["instanceAction"]
    assert action["message"] == "Error"
    assert action["events"][0]["event"] == "schedule_instances"
