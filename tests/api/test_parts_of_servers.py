"""Tags, addresses, interfaces, diagnostics and volumes of a server."""

from __future__ import annotations

from typing import Any


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
