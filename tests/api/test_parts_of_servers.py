"""Tags, addresses, interfaces, diagnostics and volumes of a server."""

from __future__ import annotations

from typing import Any

from berthold.companions import ports, quotas


def test_tags_come_and_go(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server()
    path = f"/servers/{server}/tags"
    fault(cloud.get(path, "ann", "2.25"), 404)
    assert cloud.put(path, {"tags": ["a", "b", "a"]}, "ann", "2.26").json == {"tags": ["a", "b"]}
    new = cloud.put(f"{path}/c", None, "ann", "2.26")
    assert (new.status, new.json) == (201, None)
    assert new.headers["Location"].endswith(f"/servers/{server}/tags/c")
    assert cloud.put(f"{path}/c", None, "ann", "2.26").status == 204
    assert cloud.get(path, "rita", "2.26").json == {"tags": ["a", "b", "c"]}
    assert cloud.get(f"{path}/a", "rita", "2.26").status == 204
    fault(cloud.get(f"{path}/x", "rita", "2.26"), 404)
    assert cloud.shown(server)["tags"] == ["a", "b", "c"]
    (tagged,) = cloud.get("/servers?tags=a,b&not-tags=x", "ann", "2.26").json["servers"]
    assert tagged["id"] == server
    assert cloud.delete(f"{path}/a", "ann", "2.26").status == 204
    fault(cloud.delete(f"{path}/a", "ann", "2.26"), 404)
    for wrong in (["x" * 61], ["a,b"], ["a/b"], [""], [str(n) for n in range(51)], [5], "a"):
        fault(cloud.put(path, {"tags": wrong}, "ann", "2.26"), 400)
    fault(cloud.put(f"{path}/{'x' * 61}", None, "ann", "2.26"), 400)
    assert cloud.put(path, {"tags": [str(n) for n in range(50)]}, "ann", "2.26").status == 200
    assert "per-server limit 50" in fault(cloud.put(f"{path}/one-more", None, "ann", "2.26"), 400)
    fault(cloud.delete(path, "rita", "2.26"), 403)
    assert cloud.delete(path, "ann", "2.26").status == 204
    assert cloud.get(path, "ann", "2.26").json == {"tags": []}


def test_addresses_and_interfaces(cloud: Any, fault: Any) -> None:
    cloud.host()
    network = cloud.network()
    server = cloud.server(networks=[{"uuid": network}])
    addresses = cloud.get(f"/servers/{server}/ips", "rita").json["addresses"]
    (address,) = addresses["private"]
    assert set(address) == {"addr", "version"}
    assert cloud.get(f"/servers/{server}/ips/private", "rita").json == {"private": [address]}
    fault(cloud.get(f"/servers/{server}/ips/public", "rita"), 404)
    fields = {"fixed_ips", "mac_addr", "net_id", "port_id", "port_state"}
    (before,) = cloud.get(f"/servers/{server}/os-interface", "rita", "2.69").json["interfaceAttachments"]
    assert set(before) == fields
    (interface,) = cloud.get(f"/servers/{server}/os-interface", "rita", "2.70").json["interfaceAttachments"]
    assert set(interface) == fields | {"tag"}
    assert (interface["net_id"], interface["port_state"]) == (network, "ACTIVE")
    assert interface["fixed_ips"][0]["ip_address"] == address["addr"]
    assert set(interface["fixed_ips"][0]) == {"ip_address", "subnet_id"}
    one = cloud.get(f"/servers/{server}/os-interface/{interface['port_id']}", "rita", "2.70")
    assert one.json == {"interfaceAttachment": interface}
    fault(cloud.get(f"/servers/{server}/os-interface/nothing", "rita"), 404)


def port_of(cloud: Any, network: str, project: str = "a" * 32) -> str:
    """A port that no server has."""
    made: str = cloud.store.write_now(lambda tx: ports.make_port(tx, project, network))
    return made


def test_interfaces_are_attached_and_detached(cloud: Any, fault: Any) -> None:
    cloud.host()
    network = cloud.network()
    server = cloud.server(networks=[{"uuid": network, "tag": "first"}])
    path, port = f"/servers/{server}/os-interface", port_of(cloud, network)
    lent = cloud.post(path, {"interfaceAttachment": {"port_id": port, "tag": "lent"}}, "ann", "2.70")
    assert lent.status == 200
    shown = lent.json["interfaceAttachment"]
    assert (shown["port_id"], shown["net_id"], shown["port_state"]) == (port, network, "DOWN")
    assert (len(shown["fixed_ips"]), shown["tag"]) == (1, "lent")
    busy = fault(cloud.post(path, {"interfaceAttachment": {"net_id": network}}, "ann"), 409)
    assert "its attach-interface is under way" in busy
    cloud.world.settle()
    assert cloud.get(f"{path}/{port}", "ann", "2.70").json["interfaceAttachment"] == {
        **shown,
        "port_state": "ACTIVE",
    }
    wish = {"net_id": network, "fixed_ips": [{"ip_address": "10.0.0.77"}]}
    made = cloud.post(path, {"interfaceAttachment": wish}, "ann").json["interfaceAttachment"]
    assert (made["net_id"], made["port_state"], made["mac_addr"], made["fixed_ips"]) == (
        *(network, "DOWN", ""),
        [],
    )
    cloud.world.settle()
    listed = cloud.get(path, "ann", "2.70").json["interfaceAttachments"]
    assert [each["tag"] for each in listed] == ["first", "lent", None]
    assert (listed[2]["port_id"], listed[2]["fixed_ips"][0]["ip_address"]) == (made["port_id"], "10.0.0.77")
    assert listed[2]["mac_addr"]
    addresses = cloud.get(f"/servers/{server}/ips/private", "ann").json["private"]
    assert len(addresses) == 3
    for gone in (port, made["port_id"]):
        assert cloud.delete(f"{path}/{gone}", "ann").status == 202
        cloud.world.settle()
        fault(cloud.delete(f"{path}/{gone}", "ann"), 404)
    assert cloud.get(path, "ann", "2.70").json["interfaceAttachments"] == listed[:1]
    left = {row["id"] for row in cloud.world.rows("network_port")}
    assert left == {listed[0]["port_id"], port}, "what was made is gone, what was lent is not"
    (action, *_) = cloud.get(f"/servers/{server}/os-instance-actions", "ann").json["instanceActions"]
    assert action["action"] == "detach_interface"


def test_without_a_network_the_only_one_is_meant(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server()
    path = f"/servers/{server}/os-interface"
    any_of_them: dict[str, Any] = {"interfaceAttachment": {}}
    assert "has no network" in fault(cloud.post(path, any_of_them, "ann"), 400)
    network = cloud.network()
    made = cloud.post(path, any_of_them, "ann").json["interfaceAttachment"]
    assert made["net_id"] == network
    cloud.world.settle()
    cloud.network("another")
    assert "Multiple possible networks" in fault(cloud.post(path, any_of_them, "ann"), 409)


def test_what_no_interface_can_be_is_refused(cloud: Any, fault: Any) -> None:
    cloud.host()
    network = cloud.network()
    server, other = cloud.server(networks=[{"uuid": network}]), cloud.server("other")
    path = f"/servers/{server}/os-interface"
    (mine,) = cloud.get(path, "ann").json["interfaceAttachments"]
    theirs, unknown = port_of(cloud, network, "b" * 32), "0" * 8 + network[8:]
    address = [{"ip_address": "10.0.0.9"}]
    before = cloud.world.picture()
    for wish, status, says in (
        ({"net_id": network, "port_id": theirs}, 400, "and not both"),
        ({"fixed_ips": address}, 400, "name its network with net_id"),
        ({"port_id": theirs, "fixed_ips": address}, 400, "name its network with net_id"),
        ({"net_id": network, "fixed_ips": [{"ip_address": "10.0.0"}]}, 400, "Invalid fixed IP address"),
        ({"net_id": network, "fixed_ips": []}, 400, "fixed_ips"),
        ({"net_id": network, "fixed_ips": address * 2}, 400, "fixed_ips"),
        ({"net_id": network, "tag": "a,b"}, 400, "tag"),
        ({"net_id": unknown}, 404, unknown),
        ({"port_id": unknown}, 404, unknown),
        ({"port_id": theirs}, 404, theirs),
        ({"port_id": mine["port_id"]}, 409, f"in use by {server}"),
    ):
        for which in (server, other):
            answer = cloud.post(f"/servers/{which}/os-interface", {"interfaceAttachment": wish}, "ann")
            assert says in fault(answer, status), wish
    fault(cloud.post(path, {"interfaceAttachment": {"net_id": network, "tag": "t"}}, "ann", "2.48"), 400)
    fault(cloud.post(path, {"interfaceAttachment": {"net_id": network}}, "rita"), 403)
    fault(cloud.delete(f"{path}/{mine['port_id']}", "rita"), 403)
    cloud.act(server, "lock", who="ann")
    assert "is locked" in fault(cloud.post(path, {"interfaceAttachment": {"net_id": network}}, "ann"), 409)
    assert "is locked" in fault(cloud.delete(f"{path}/{mine['port_id']}", "ann"), 409)
    cloud.act(server, "unlock", who="ann")
    assert cloud.world.picture() == before


def test_a_port_too_many_leaves_the_server_as_it_was_and_says_why(cloud: Any) -> None:
    cloud.host()
    network = cloud.network()
    server = cloud.server(networks=[{"uuid": network}])
    cloud.store.write_now(quotas.set_limits, "a" * 32, {"port": 1})
    before = cloud.world.picture()
    path = f"/servers/{server}/os-interface"
    assert cloud.post(path, {"interfaceAttachment": {"net_id": network}}, "ann").status == 200
    cloud.world.settle()
    assert cloud.world.picture() == before
    (action, *_) = cloud.get(f"/servers/{server}/os-instance-actions", "ann").json["instanceActions"]
    assert (action["action"], action["message"]) == ("attach_interface", "Error")
    asked = f"/servers/{server}/os-instance-actions/{action['request_id']}"
    (event,) = cloud.get(asked, version="2.84").json["instanceAction"]["events"]
    assert (event["event"], event["result"]) == ("compute_attach_interface", "Error")
    assert "Quota exceeded for resources: ['port']" in event["details"]


def test_diagnostics_are_in_one_form_since_2_48(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server()
    path = f"/servers/{server}/diagnostics"
    fault(cloud.get(path, "ann"), 403)
    assert cloud.get(path, version="2.47").json == {"memory": 1024 * 1024}
    shown = cloud.get(path, version="2.48").json
    assert set(shown) == {
        "config_drive",
        "cpu_details",
        "disk_details",
        "driver",
        "hypervisor",
        "hypervisor_os",
        "memory_details",
        "nic_details",
        "num_cpus",
        "num_disks",
        "num_nics",
        "state",
        "uptime",
    }
    assert (shown["state"], shown["num_cpus"], shown["num_disks"]) == ("running", 1, 1)
    waiting = cloud.server("waiting", settle=False)
    fault(cloud.get(f"/servers/{waiting}/diagnostics"), 409)


ATTACHMENT = {"device", "serverId", "volumeId"}
FIELDS = {
    "2.1": ATTACHMENT | {"id"},
    "2.69": ATTACHMENT | {"id"},
    "2.70": ATTACHMENT | {"id", "tag"},
    "2.79": ATTACHMENT | {"id", "tag", "delete_on_termination"},
    "2.88": ATTACHMENT | {"id", "tag", "delete_on_termination"},
    "2.89": ATTACHMENT | {"tag", "delete_on_termination", "attachment_id", "bdm_uuid"},
}


def test_volumes_are_attached_shown_and_detached(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server()
    volume, path = cloud.volume(), f"/servers/{server}/os-volume_attachments"
    wish = {"volumeId": volume, "device": None, "tag": "db", "delete_on_termination": True}
    made = cloud.post(path, {"volumeAttachment": wish}, "ann", "2.89")
    assert made.status == 200
    assert set(made.json["volumeAttachment"]) == FIELDS["2.88"]
    assert made.json["volumeAttachment"]["device"] == "/dev/vdb"
    under_way = fault(cloud.post(path, {"volumeAttachment": wish}, "ann", "2.89"), 409)
    assert "Cannot 'attach_volume'" in under_way
    cloud.world.settle()
    for version, fields in FIELDS.items():
        listed = cloud.get(path, "rita", version).json["volumeAttachments"]
        assert [set(each) for each in listed] == [fields, fields]
        one = cloud.get(f"{path}/{volume}", "rita", version).json["volumeAttachment"]
        assert one == listed[1]
    assert (one["tag"], one["delete_on_termination"]) == ("db", True)
    assert [
        v["volumeId"] for v in cloud.get(f"{path}?limit=1&offset=1", "rita").json["volumeAttachments"]
    ] == [volume]
    fault(cloud.get(f"{path}/nothing", "rita"), 404)
    fault(cloud.post(path, {"volumeAttachment": wish}, "ann", "2.89"), 400)
    fault(cloud.delete(f"{path}/{volume}", "rita"), 403)
    assert cloud.delete(f"{path}/{volume}", "ann").status == 202
    cloud.world.settle()
    assert len(cloud.get(path, "ann").json["volumeAttachments"]) == 1
    fault(cloud.delete(f"{path}/{volume}", "ann"), 404)
    (root,) = cloud.get(path, "ann").json["volumeAttachments"]
    assert "root device" in fault(cloud.delete(f"{path}/{root['volumeId']}", "ann"), 400)


def test_a_volume_that_is_not_the_project_s_is_not_found(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server()
    theirs = cloud.volume(project="b" * 32)
    path = f"/servers/{server}/os-volume_attachments"
    unknown = "0" * 8 + theirs[8:]
    told = [
        fault(cloud.post(path, {"volumeAttachment": {"volumeId": which}}, "ann"), 404)
        for which in (theirs, unknown)
    ]
    assert told[0].replace(theirs, unknown) == told[1]
    fault(cloud.post(path, {"volumeAttachment": {"volumeId": theirs}}, "admin"), 404)
    mine = cloud.volume()
    assert cloud.post(path, {"volumeAttachment": {"volumeId": mine}}, "admin").status == 200
    for wrong in ({"volumeId": theirs, "tag": "x"}, {"volumeId": theirs, "delete_on_termination": True}, {}):
        fault(cloud.post(path, {"volumeAttachment": wrong}, "ann", "2.48"), 400)


def test_whether_a_volume_goes_with_its_server_may_be_changed_and_volumes_are_not_swapped(
    cloud: Any, fault: Any
) -> None:
    cloud.host()
    server = cloud.server()
    (root,) = cloud.get(f"/servers/{server}/os-volume_attachments", "ann").json["volumeAttachments"]
    path = f"/servers/{server}/os-volume_attachments/{root['volumeId']}"
    change = {"volumeId": root["volumeId"], "delete_on_termination": True}
    fault(cloud.put(path, {"volumeAttachment": change}, "ann", "2.84"), 400)
    assert cloud.put(path, {"volumeAttachment": change}, "ann", "2.85").status == 202
    assert cloud.get(path, "ann", "2.89").json["volumeAttachment"]["delete_on_termination"] is True
    fault(cloud.put(path, {"volumeAttachment": {**change, "device": "/dev/vdz"}}, "ann", "2.85"), 400)
    fault(cloud.put(path, {"volumeAttachment": {"volumeId": root["volumeId"]}}, "ann", "2.85"), 400)
    swap = {"volumeAttachment": {"volumeId": cloud.volume()}}
    assert "swap" in fault(cloud.put(path, swap, "ann", "2.1"), 403)
    fault(cloud.put(path, swap, "admin", "2.1"), 409)
