"""Servers: fields by microversion and role, lists, filters, pages, changes, deletion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

BASE = {
    "accessIPv4",
    "accessIPv6",
    "addresses",
    "created",
    "flavor",
    "hostId",
    "id",
    "image",
    "key_name",
    "links",
    "metadata",
    "name",
    "config_drive",
    "OS-DCF:diskConfig",
    "OS-EXT-AZ:availability_zone",
    "OS-EXT-STS:power_state",
    "OS-EXT-STS:task_state",
    "OS-EXT-STS:vm_state",
    "os-extended-volumes:volumes_attached",
    "OS-SRV-USG:launched_at",
    "OS-SRV-USG:terminated_at",
    "progress",
    "security_groups",
    "status",
    "tenant_id",
    "updated",
    "user_id",
}
ADMINS = {f"OS-EXT-SRV-ATTR:{name}" for name in ("host", "hypervisor_hostname", "instance_name")}
ADMINS_2_3 = {
    f"OS-EXT-SRV-ATTR:{name}"
    for name in ("reservation_id", "launch_index", "kernel_id", "ramdisk_id", "root_device_name", "user_data")
}
HOSTNAME = {"OS-EXT-SRV-ATTR:hostname"}
SINCE = [
    ("2.9", {"locked"}),
    ("2.19", {"description"}),
    ("2.26", {"tags"}),
    ("2.63", {"trusted_image_certificates"}),
    ("2.73", {"locked_reason"}),
    ("2.96", {"pinned_availability_zone"}),
]
VERSIONS = [
    "2.1",
    "2.2",
    "2.3",
    "2.8",
    "2.9",
    "2.16",
    "2.19",
    "2.26",
    "2.46",
    "2.47",
    "2.63",
    "2.69",
    "2.71",
    "2.73",
    "2.75",
    "2.89",
    "2.90",
    "2.95",
    "2.96",
]


def number(version: str) -> int:
    return int(version.split(".")[1])


def expected(version: str, *, admin: bool, show: bool) -> set[str]:
    fields = set(BASE)
    for since, more in SINCE:
        if number(version) >= number(since):
            fields |= more
    if admin:
        fields |= ADMINS
        if number(version) >= 3:
            fields |= ADMINS_2_3 | HOSTNAME
        if number(version) >= 16:
            fields |= {"host_status"}
    if number(version) >= 90:
        fields |= HOSTNAME
    if show and number(version) >= 71:
        fields |= {"server_groups"}
    return fields


def test_a_server_has_the_fields_of_its_version_and_of_who_asks(cloud: Any) -> None:
    cloud.host()
    server = cloud.server()
    for version in VERSIONS:
        for who in ("ann", "admin"):
            shown = cloud.shown(server, who, version)
            assert set(shown) == expected(version, admin=who == "admin", show=True), (version, who)
            path = "/servers/detail?all_tenants=1" if who == "admin" else "/servers/detail"
            (listed,) = cloud.get(path, who, version).json["servers"]
            assert set(listed) == expected(version, admin=who == "admin", show=False), (version, who)
        (brief,) = cloud.get("/servers", "ann", version).json["servers"]
        assert set(brief) == {"id", "name", "links"}


def test_a_server_shows_its_flavor_as_a_link_and_from_2_47_on_as_it_was(cloud: Any) -> None:
    cloud.host()
    server = cloud.server()
    assert set(cloud.shown(server, version="2.46")["flavor"]) == {"id", "links"}
    assert cloud.shown(server, version="2.47")["flavor"] == {
        "vcpus": 1,
        "ram": 1024,
        "disk": 0,
        "ephemeral": 0,
        "swap": 0,
        "original_name": "flavor-100",
        "extra_specs": {},
    }


def test_a_new_server_goes_from_build_to_active(cloud: Any) -> None:
    cloud.host("node1")
    network = cloud.network()
    server = cloud.server(settle=False, networks=[{"uuid": network}])
    building = cloud.shown(server)
    assert (building["status"], building["OS-EXT-STS:vm_state"]) == ("BUILD", "building")
    assert (building["OS-EXT-SRV-ATTR:host"], building["hostId"]) == (None, "")
    cloud.world.settle()
    active = cloud.shown(server)
    assert (active["status"], active["OS-EXT-STS:power_state"]) == ("ACTIVE", 1)
    assert active["OS-EXT-SRV-ATTR:host"] == active["OS-EXT-SRV-ATTR:hypervisor_hostname"] == "node1"
    assert (active["host_status"], active["OS-EXT-AZ:availability_zone"]) == ("UP", "nova")
    assert len(active["hostId"]) == 56
    assert active["image"] == ""
    (address,) = active["addresses"]["private"]
    assert set(address) == {"addr", "version", "OS-EXT-IPS-MAC:mac_addr", "OS-EXT-IPS:type"}
    (volume,) = active["os-extended-volumes:volumes_attached"]
    assert set(volume) == {"id", "delete_on_termination"}
    assert set(cloud.shown(server, version="2.2")["os-extended-volumes:volumes_attached"][0]) == {"id"}


def test_a_create_without_a_host_that_fits_is_an_error_with_a_fault(cloud: Any) -> None:
    server = cloud.server()
    shown = cloud.shown(server, "ann")
    assert shown["status"] == "ERROR"
    assert "No valid host was found" in shown["fault"]["message"]
    assert {"code", "created", "message"} <= set(shown["fault"])
    assert "progress" not in shown


def test_another_project_s_server_looks_as_if_it_never_was(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server()
    asks: list[Callable[[str], Any]] = [
        lambda key: cloud.get(f"/servers/{key}", "bob"),
        lambda key: cloud.put(f"/servers/{key}", {"server": {"name": "mine"}}, "bob"),
        lambda key: cloud.delete(f"/servers/{key}", "bob"),
        lambda key: cloud.act(key, "confirmResize", None, "bob"),
        lambda key: cloud.get(f"/servers/{key}/metadata", "bob"),
        lambda key: cloud.get(f"/servers/{key}/os-instance-actions", "bob"),
        lambda key: cloud.get(f"/servers/{key}/os-instance-actions/req-1", "bob"),
    ]
    for ask in asks:
        assert fault(ask("nobody"), 404).replace("nobody", server) == fault(ask(server), 404)
    assert cloud.get("/servers", "bob").json == {"servers": []}
    fault(cloud.get(f"/servers?marker={server}", "bob"), 400)
    assert cloud.shown(server)["status"] == "ACTIVE"


def test_all_projects_are_for_admins(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server()
    assert cloud.get("/servers").json == {"servers": []}
    for query in ("all_tenants=True", "all_tenants", "project_id=" + cloud.shown(server)["tenant_id"]):
        assert [s["id"] for s in cloud.get(f"/servers?{query}").json["servers"]] == [server]
    assert "get_all_tenants" in fault(cloud.get("/servers?all_tenants=1", "ann"), 403)
    assert cloud.get("/servers?project_id=" + "a" * 32, "bob").json == {"servers": []}


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("web", ["web-1", "web-2", "Xweb"]),
        ("WEB-1", ["web-1"]),
        ("^web", ["web-1", "web-2"]),
        ("^web-1$", ["web-1"]),
        ("web-[12]$", ["web-1", "web-2"]),
        ("^.*-1", ["web-1"]),
        ("1|2", ["web-1", "web-2"]),
        ("%", []),
        ("_", []),
        ("", ["web-1", "web-2", "Xweb"]),
    ],
)
def test_a_name_filter_is_a_regular_expression(cloud: Any, pattern: str, found: list[str]) -> None:
    for name in ("web-1", "web-2", "Xweb"):
        cloud.server(name, settle=False)
    answer = cloud.get("/servers/detail", "ann", params={"name": pattern})
    assert {server["name"] for server in answer.json["servers"]} == set(found)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "[", "a*a*a*b", r"(a)\1", "(?=a)", "x" * 300, "*"])
def test_an_evil_or_broken_name_filter_is_400(cloud: Any, fault: Any, pattern: str) -> None:
    fault(cloud.get("/servers", "ann", params={"name": pattern}), 400)


def test_lists_are_filtered(cloud: Any, fault: Any) -> None:
    cloud.host("node1")
    one = cloud.server("one")
    two = cloud.server("two", settle=False)

    def ids(query: str, who: str = "admin") -> set[str]:
        everybody = "&all_tenants=1" if who == "admin" else ""
        answer = cloud.get(f"/servers/detail?{query}{everybody}", who, "2.74")
        assert answer.status == 200, answer.json
        return {server["id"] for server in answer.json["servers"]}

    assert ids("status=ACTIVE") == {one}
    assert ids("status=active&status=BUILD") == {one, two}
    assert ids("status=VERIFY_RESIZE") == set()
    assert ids("host=node1") == {one}
    assert ids("host=node9") == set()
    assert ids("host=node9", "ann") == {one, two}  # ignored: hosts are no business of members
    assert ids("flavor=100") == {one, two}
    assert ids("flavor=101") == set()
    assert ids("vm_state=building") == {two}
    assert ids("availability_zone=nova") == {one}
    assert ids("user_id=nobody") == set()
    assert ids("deleted=False") == {one, two}
    assert ids("changes-since=2001-01-01T00:00:00Z", "ann") == {one, two}
    assert ids("changes-since=2100-01-01T00:00:00Z", "ann") == set()
    assert ids("changes-before=2001-01-01T00:00:00Z", "ann") == set()
    assert ids("locked=true", "ann") == set()
    assert ids("tags=x", "ann") == set()
    assert ids("ip=10.0", "ann") == set()
    fault(cloud.get("/servers?status=NONSENSE", "ann", "2.38"), 400)
    assert cloud.get("/servers?status=NONSENSE", "ann", "2.37").json == {"servers": []}
    fault(cloud.get("/servers?changes-since=yesterday", "ann"), 400)
    fault(cloud.get("/servers?deleted=True&all_tenants=maybe", "ann"), 400)
    assert "administrators" in fault(cloud.get("/servers?status=DELETED", "ann"), 403)


def test_lists_come_in_pages_in_the_order_asked_for(cloud: Any, fault: Any) -> None:
    for name in ("b", "d", "a", "c"):
        cloud.server(name, settle=False)
    first = cloud.get("/servers?sort_key=display_name&sort_dir=asc&limit=3", "ann").json
    assert [server["name"] for server in first["servers"]] == ["a", "b", "c"]
    following = first["servers_links"][0]["href"].removeprefix("http://cloud/v2.1")
    assert [server["name"] for server in cloud.get(following, "ann").json["servers"]] == ["d"]
    everything, marker = [], ""
    while page := cloud.get(f"/servers?limit=1{marker}", "ann").json["servers"]:
        everything += [server["name"] for server in page]
        marker = f"&marker={page[-1]['id']}"
    assert sorted(everything) == ["a", "b", "c", "d"]
    filtered = cloud.get("/servers?name=[abc]&limit=2&sort_key=display_name&sort_dir=desc", "ann").json
    assert [server["name"] for server in filtered["servers"]] == ["c", "b"]
    for key in ("host", "launched_at", "instance_type_id", "availability_zone", "key_name", "locked"):
        answer = cloud.get(f"/servers?sort_key={key}&limit=2&all_tenants=1")
        rest = cloud.get(f"/servers?sort_key={key}&all_tenants=1&marker={answer.json['servers'][-1]['id']}")
        assert len({s["name"] for s in answer.json["servers"] + rest.json["servers"]}) == 4, key
    fault(cloud.get("/servers?sort_key=secrets", "ann"), 400)
    fault(cloud.get("/servers?marker=nobody", "ann"), 400)


def test_a_server_is_renamed_and_described(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server()
    change = {"server": {"name": "new", "description": "so"}}
    answer = cloud.put(f"/servers/{server}", change, "ann", "2.19")
    assert (answer.status, answer.json["server"]["name"], answer.json["server"]["description"]) == (
        200,
        "new",
        "so",
    )
    assert set(answer.json["server"]) == {
        "accessIPv4",
        "accessIPv6",
        "OS-DCF:diskConfig",
        "addresses",
        "created",
        "description",
        "flavor",
        "hostId",
        "id",
        "image",
        "links",
        "locked",
        "metadata",
        "name",
        "progress",
        "status",
        "tenant_id",
        "updated",
        "user_id",
    }
    whole = cloud.put(f"/servers/{server}", change, "ann", "2.75").json["server"]
    assert set(whole) == expected("2.75", admin=False, show=True)
    fault(cloud.put(f"/servers/{server}", change, "ann", "2.18"), 400)
    fault(cloud.put(f"/servers/{server}", {"server": {"status": "ERROR"}}, "ann", "2.96"), 400)
    fault(cloud.put(f"/servers/{server}", {"server": {"name": None}}, "ann", "2.96"), 400)
    fault(cloud.put(f"/servers/{server}", {"server": {"name": "x"}}, "rita"), 403)
    cleared = cloud.put(f"/servers/{server}", {"server": {"description": None}}, "ann", "2.19")
    assert cleared.json["server"]["description"] is None


def test_a_deleted_server_is_gone_for_its_owner_and_told_of_to_admins(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server()
    fault(cloud.delete(f"/servers/{server}", "rita"), 403)
    assert cloud.delete(f"/servers/{server}", "ann").status == 204
    assert cloud.delete(f"/servers/{server}", "ann").status == 204
    assert cloud.shown(server)["OS-EXT-STS:task_state"] == "deleting"
    cloud.world.settle()
    fault(cloud.get(f"/servers/{server}", "ann"), 404)
    fault(cloud.delete(f"/servers/{server}", "ann"), 404)
    assert cloud.get("/servers", "ann").json == {"servers": []}
    (gone,) = cloud.get("/servers/detail?deleted=True&all_tenants=1").json["servers"]
    assert (gone["id"], gone["status"]) == (server, "DELETED")
    assert gone["OS-SRV-USG:terminated_at"]
    (told,) = cloud.get("/servers/detail?changes-since=2001-01-01T00:00:00Z", "ann").json["servers"]
    assert told["id"] == server
    assert cloud.get("/servers/detail?deleted=True", "ann").json == {"servers": []}


def test_metadata_comes_and_goes(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server(metadata={"a": "1"})
    path = f"/servers/{server}/metadata"
    assert cloud.get(path, "rita").json == {"metadata": {"a": "1"}}
    assert cloud.post(path, {"metadata": {"b": "2"}}, "ann").json == {"metadata": {"a": "1", "b": "2"}}
    assert cloud.put(path, {"metadata": {"c": "3"}}, "ann").json == {"metadata": {"c": "3"}}
    assert cloud.put(f"{path}/c", {"meta": {"c": "4"}}, "ann").json == {"meta": {"c": "4"}}
    assert cloud.get(f"{path}/c", "ann").json == {"meta": {"c": "4"}}
    fault(cloud.put(f"{path}/c", {"meta": {"d": "4"}}, "ann"), 400)
    fault(cloud.post(path, {"metadata": {"x": 5}}, "ann"), 400)
    fault(cloud.post(path, {"metadata": {"x" * 256: "5"}}, "ann"), 400)
    fault(cloud.post(path, {"metadata": {str(n): "5" for n in range(128)}}, "ann"), 403)
    fault(cloud.post(path, {"metadata": {}}, "rita"), 403)
    assert cloud.delete(f"{path}/c", "ann").status == 204
    fault(cloud.delete(f"{path}/c", "ann"), 404)
    fault(cloud.get(f"{path}/c", "ann"), 404)
