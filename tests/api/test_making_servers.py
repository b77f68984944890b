"""POST /servers: what clients send, what it becomes, and what is refused before anything is stored."""

from __future__ import annotations

from typing import Any

import pytest

BDM = "block_device_mapping_v2"


def nothing_stored(cloud: Any) -> bool:
    return bool(cloud.get("/servers?all_tenants=1").json == {"servers": []})


def disk(volume: str, **more: Any) -> dict[str, Any]:
    return {"uuid": volume, "boot_index": 0, "source_type": "volume", "destination_type": "volume", **more}


def test_the_client_s_own_body_makes_a_member_of_its_group(cloud: Any) -> None:
    cloud.host()
    cloud.flavor()
    group, network = cloud.group(), cloud.network()
    volume = cloud.volume(cloud.image())
    body = {
        "server": {
            BDM: [disk(volume)],
            "flavorRef": "100",
            "min_count": 1,
            "networks": [{"uuid": network}],
            "name": "ins1",
            "max_count": 1,
            "imageRef": "",
        },
        "OS-SCH-HNT:scheduler_hints": {"group": group},
    }
    answer = cloud.post("/servers", body, "ann", "2.96")
    assert answer.status == 202
    made = answer.json["server"]
    assert set(made) == {"id", "links", "OS-DCF:diskConfig", "security_groups", "adminPass"}
    assert answer.headers["Location"] == f"http://cloud/v2.1/servers/{made['id']}"
    cloud.world.settle()
    shown = cloud.shown(made["id"], "ann")
    assert (shown["status"], shown["server_groups"]) == ("ACTIVE", [group])
    assert shown["os-extended-volumes:volumes_attached"][0]["id"] == volume
    members = cloud.get(f"/os-server-groups/{group}", "ann", "2.64").json["server_group"]["members"]
    assert members == [made["id"]]


@pytest.mark.parametrize("key", ["os:scheduler_hints", "OS-SCH-HNT:scheduler_hints"])
def test_hints_come_under_either_key(cloud: Any, fault: Any, key: str) -> None:
    cloud.flavor()
    group = cloud.group()
    volume = cloud.volume(cloud.image())
    body = {
        "server": {"name": "a", "flavorRef": "100", "networks": "none", BDM: [disk(volume)]},
        key: {"group": group},
    }
    answer = cloud.post("/servers", body, "ann", "2.96")
    assert cloud.shown(answer.json["server"]["id"])["server_groups"] == [group]
    body[key] = {"group": "nobody"}
    unknown = fault(cloud.post("/servers", body, "ann", "2.96"), 400)
    assert "Instance group nobody could not be found" in unknown


@pytest.mark.parametrize("who", ["bob", "admin"])
def test_a_group_of_another_project_is_unknown(cloud: Any, fault: Any, who: str) -> None:
    cloud.flavor(disk=1)
    group, image = cloud.group("ann"), cloud.image()
    body: dict[str, Any] = {
        "server": {"name": "a", "flavorRef": "100", "networks": "none", "imageRef": image},
        "os:scheduler_hints": {"group": "nobody"},
    }
    unknown = fault(cloud.post("/servers", body, who, "2.96"), 400)
    body["os:scheduler_hints"]["group"] = group
    assert fault(cloud.post("/servers", body, who, "2.96"), 400) == unknown.replace("nobody", group)
    for wrong in (7, ["a", "b"], {"id": "a"}):
        body["os:scheduler_hints"]["group"] = wrong
        fault(cloud.post("/servers", body, who, "2.96"), 400)
    assert nothing_stored(cloud)


def test_an_image_boots_from_the_host_s_own_disk(cloud: Any, fault: Any) -> None:
    cloud.host()
    cloud.flavor("101", disk=2)
    cloud.flavor("102", disk=0)
    image = cloud.image()
    local = [{"uuid": image, "boot_index": 0, "source_type": "image", "destination_type": "local"}]
    wish = {"name": "a", "flavorRef": "101", "imageRef": image, "networks": "none", BDM: local}
    made = cloud.post("/servers", {"server": wish}, "ann", "2.96").json["server"]["id"]
    cloud.world.settle()
    shown = cloud.shown(made)
    assert (shown["status"], shown["image"]["id"]) == ("ACTIVE", image)
    without = {"name": "a", "flavorRef": "http://cloud/flavors/101", "imageRef": image}
    assert cloud.post("/servers", {"server": without}, "ann", "2.1").status == 202
    zero = {"server": {**wish, "flavorRef": "102"}}
    assert "zero disk" in fault(cloud.post("/servers", zero, "ann", "2.96"), 403)


def test_a_volume_may_be_made_from_an_image(cloud: Any) -> None:
    cloud.host()
    cloud.flavor()
    device = {
        "uuid": cloud.image(),
        "boot_index": "0",
        "source_type": "image",
        "destination_type": "volume",
        "volume_size": "1",
        "delete_on_termination": "true",
    }
    wish = {"name": "a", "flavorRef": "100", "networks": "none", BDM: [device]}
    made = cloud.post("/servers", {"server": wish}, "ann", "2.96").json["server"]["id"]
    cloud.world.settle()
    shown = cloud.shown(made)
    assert (shown["status"], shown["image"]) == ("ACTIVE", "")
    assert shown["os-extended-volumes:volumes_attached"][0]["delete_on_termination"] is True


def test_several_servers_come_from_one_request_or_none(cloud: Any, fault: Any) -> None:
    cloud.flavor(disk=1)
    image = cloud.image()
    wish = {"name": "web", "flavorRef": "100", "imageRef": image, "min_count": "2", "max_count": "3"}
    answer = cloud.post("/servers", {"server": {**wish, "return_reservation_id": "True"}}, "ann")
    assert answer.json["reservation_id"].startswith("r-")
    listed = cloud.get(f"/servers/detail?reservation_id={answer.json['reservation_id']}", "ann")
    assert {s["name"] for s in listed.json["servers"]} == {"web-1", "web-2", "web-3"}
    fault(cloud.post("/servers", {"server": {**wish, "max_count": 1}}, "ann"), 400)
    fault(cloud.post("/servers", {"server": {**wish, "min_count": 0}}, "ann"), 400)
    volume = {"server": {**wish, "imageRef": "", BDM: [disk(cloud.volume(image))]}}
    assert "multiple instances" in fault(cloud.post("/servers", volume, "ann"), 400)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"flavorRef": "999"}, "Flavor 999 could not be found"),
        ({"imageRef": "nothing", BDM: []}, "nothing"),
        ({"imageRef": "", BDM: []}, "Invalid imageRef provided"),
        ({BDM: [disk("nothing")]}, "nothing"),
        ({BDM: [disk("nothing", boot_index=1)]}, "Boot sequence"),
        ({BDM: [disk("nothing", boot_index=-1)]}, "Boot sequence"),
        ({BDM: [disk("a"), disk("b")]}, "Boot sequence"),
        (
            {BDM: [{"source_type": "snapshot", "boot_index": 0, "uuid": "a"}]},
            "Block Device Mapping is Invalid",
        ),
        ({BDM: [{"source_type": "blank", "destination_type": "local"}]}, "Block Device Mapping is Invalid"),
        ({BDM: [{"source_type": "moon", "boot_index": 0}]}, "source_type"),
        ({BDM: "x"}, "Expected `array`"),
        ({"networks": [{"uuid": "nowhere"}]}, "nowhere"),
        ({"networks": [{}]}, "uuid or a port"),
        ({"networks": "some"}, "networks"),
        ({"networks": None}, "networks"),
        ({"availability_zone": "mars"}, "zone is not available"),
        ({"key_name": "nobody"}, "Invalid key_name provided"),
        ({"metadata": {"a": None}}, "metadata"),
        ({"metadata": {"a": "x" * 256}}, "metadata"),
        ({"name": ""}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"name": None}, "name"),
        ({"accessIPv4": "1.2.3"}, "IP address"),
        ({"security_groups": [{"name": "mine"}]}, "mine"),
        ({"tags": ["a,b"]}, "tags"),
        ({"trusted_image_certificates": ["a"]}, "trusted_image_certificates"),
        ({"personality": []}, "personality"),
        ({"user_data": 5}, "user_data"),
        ({"min_count": 10**20}, "min_count"),
    ],
)
def test_a_server_that_cannot_be_is_400_with_the_reason(
    cloud: Any, fault: Any, wrong: dict[str, Any], says: str
) -> None:
    cloud.flavor()
    wish = {"name": "a", "flavorRef": "100", "networks": "none", BDM: [disk(cloud.volume(cloud.image()))]}
    message = fault(cloud.post("/servers", {"server": wish | wrong}, "ann", "2.96"), 400)
    if wrong != {"networks": None}:
        assert says in message
    assert nothing_stored(cloud)


def test_a_volume_must_be_free_and_bootable(cloud: Any, fault: Any) -> None:
    cloud.host()
    cloud.flavor()
    image = cloud.image()
    empty, foreign, taken = cloud.volume(), cloud.volume(None, "b" * 32), cloud.volume(image)

    def refused(volume: str, status: int = 400) -> str:
        wish = {"name": "a", "flavorRef": "100", "networks": "none", BDM: [disk(volume)]}
        return str(fault(cloud.post("/servers", {"server": wish}, "ann", "2.96"), status))

    assert "is not bootable" in refused(empty)
    assert refused("nobody").replace("nobody", foreign) == refused(foreign)
    cloud.server(**{BDM: [disk(taken)]})
    assert "status must be 'available'. Currently in 'in-use'" in refused(taken)


def test_networks_are_named_or_found_or_none(cloud: Any, fault: Any) -> None:
    cloud.host()
    cloud.flavor(disk=1)
    wish: dict[str, Any] = {"name": "a", "flavorRef": "100", "imageRef": cloud.image()}

    def made(networks: Any, version: str = "2.96") -> dict[str, Any]:
        named = {} if networks is ... else {"networks": networks}
        answer = cloud.post("/servers", {"server": wish | named}, "ann", version)
        assert answer.status == 202, answer.json
        cloud.world.settle()
        addresses: dict[str, Any] = cloud.shown(answer.json["server"]["id"])["addresses"]
        return addresses

    assert made("auto") == {}
    private = cloud.network()
    assert set(made("auto")) == set(made(..., "2.36")) == {"private"}
    assert len(made([{"uuid": private}, {"uuid": private, "fixed_ip": "10.0.0.77"}])["private"]) == 2
    assert made("none") == {}
    assert "required" in fault(cloud.post("/servers", {"server": wish}, "ann", "2.37"), 400)
    fault(cloud.post("/servers", {"server": {**wish, "networks": "auto"}}, "ann", "2.36"), 400)
    cloud.network("public")
    fault(cloud.post("/servers", {"server": {**wish, "networks": "auto"}}, "ann", "2.37"), 409)


def test_a_host_may_be_named_by_admins_and_must_exist(cloud: Any, fault: Any) -> None:
    for name in ("node1", "node2", "node3"):
        cloud.host(name)
    cloud.flavor(disk=1)
    wish = {"name": "a", "flavorRef": "100", "imageRef": cloud.image(), "networks": "none"}
    for named in ({"host": "node2"}, {"availability_zone": "nova:node2"}):
        made = cloud.post("/servers", {"server": wish | named}, version="2.74").json["server"]["id"]
        cloud.world.settle()
        assert cloud.shown(made)["OS-EXT-SRV-ATTR:host"] == "node2"
        fault(cloud.post("/servers", {"server": wish | named}, "ann", "2.74"), 403)
    assert "node9" in fault(cloud.post("/servers", {"server": wish | {"host": "node9"}}, version="2.74"), 400)
    fault(cloud.post("/servers", {"server": wish | {"host": "node2"}}, version="2.73"), 400)
    made = cloud.post("/servers", {"server": wish | {"availability_zone": "nova"}}, "ann", "2.96")
    assert cloud.shown(made.json["server"]["id"])["pinned_availability_zone"] == "nova"


@pytest.mark.parametrize(
    ("field", "since"),
    [
        ({"description": "d"}, 19),
        ({"tags": ["a"]}, 52),
        ({"hostname": "custom"}, 90),
        ({"networks": [{"uuid": "x", "tag": "t"}]}, 32),
    ],
)
def test_fields_of_a_later_version_are_unknown_before(
    cloud: Any, fault: Any, field: dict[str, Any], since: int
) -> None:
    cloud.flavor(disk=1)
    wish = {"name": "a", "flavorRef": "100", "imageRef": cloud.image(), **field}
    message = fault(cloud.post("/servers", {"server": wish}, "ann", f"2.{since - 1}"), 400)
    assert "was unexpected" in message


def test_the_quota_counts_and_a_reader_makes_nothing(cloud: Any, fault: Any) -> None:
    cloud.flavor(disk=1, vcpus=3000)
    image = cloud.image()
    wish = {"name": "a", "flavorRef": "100", "imageRef": image, "networks": "none"}
    fault(cloud.post("/servers", {"server": wish}, "rita", "2.96"), 403)
    two = {"server": {**wish, "min_count": 2}}
    assert "Quota exceeded for cores" in fault(cloud.post("/servers", two, "ann", "2.96"), 403)
    assert nothing_stored(cloud)
    one_or_two = {"server": {**wish, "max_count": 2}}
    assert cloud.post("/servers", one_or_two, "ann", "2.96").status == 202
    assert len(cloud.get("/servers", "ann").json["servers"]) == 1
