"""Rebuild, rescue and images of servers, as owners ask for them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from berthold.api.policy import Policy
from berthold.companions.image import EmbeddedImages, change
from berthold.errors import NotFound, Unavailable
from berthold.moves import begin
from berthold.neighbours import Actor
from compute import ANNS_PROJECT, BOBS_PROJECT


@pytest.fixture
def local(cloud: Any) -> str:
    """A server whose disk is on its host, made from an image."""
    cloud.host("node1")
    cloud.flavor("200", disk=1)
    server: str = cloud.server(flavorRef="200", imageRef=cloud.image(), block_device_mapping_v2=[])
    return server


@pytest.fixture
def on_volume(cloud: Any) -> str:
    """A server that starts from a volume, which was made from an image."""
    cloud.host("node1")
    server: str = cloud.server()
    return server


def state(cloud: Any, server: str) -> tuple[Any, ...]:
    shown = cloud.shown(server)
    return shown["status"], shown["OS-EXT-STS:vm_state"], shown["OS-EXT-STS:task_state"]


# -- Rebuild ------------------------------------------------------------------------------

BASE = {
    *("OS-DCF:diskConfig", "accessIPv4", "accessIPv6", "addresses", "adminPass", "created", "flavor"),
    *("hostId", "id", "image", "links", "metadata", "name", "progress", "status", "tenant_id", "updated"),
    "user_id",
}
SINCE_2_54 = BASE | {"locked", "description", "tags", "key_name"}
SINCE_2_73 = SINCE_2_54 | {"user_data", "trusted_image_certificates", "server_groups", "locked_reason"}
SINCE_2_75 = SINCE_2_73 | {
    *(f"OS-EXT-STS:{name}" for name in ("power_state", "task_state", "vm_state")),
    *("OS-EXT-AZ:availability_zone", "OS-SRV-USG:launched_at", "OS-SRV-USG:terminated_at", "config_drive"),
    *("os-extended-volumes:volumes_attached", "security_groups"),
}
SINCE_2_90 = SINCE_2_75 | {"OS-EXT-SRV-ATTR:hostname"}


@pytest.mark.parametrize(
    ("version", "more", "fields"),
    [
        ("2.1", {}, BASE),
        ("2.19", {"description": "words"}, BASE | {"locked", "description"}),
        ("2.26", {"description": None}, BASE | {"locked", "description", "tags"}),
        ("2.54", {"key_name": "key"}, SINCE_2_54),
        ("2.57", {"user_data": "ZWNobw=="}, SINCE_2_54 | {"user_data"}),
        (
            "2.63",
            {"trusted_image_certificates": None},
            SINCE_2_54 | {"user_data", "trusted_image_certificates"},
        ),
        ("2.73", {"key_name": None}, SINCE_2_73),
        ("2.75", {"user_data": None}, SINCE_2_75),
        ("2.90", {"hostname": "other"}, SINCE_2_90),
        ("2.94", {"hostname": "other.example.com"}, SINCE_2_90),
        ("2.96", {}, SINCE_2_90 | {"pinned_availability_zone"}),
    ],
)
def test_a_rebuild_answers_with_the_whole_server_in_each_version(
    cloud: Any, local: str, version: str, more: Any, fields: set[str]
) -> None:
    cloud.post("/os-keypairs", {"keypair": {"name": "key"}}, "ann", "2.2")
    image = cloud.image()
    wish = {"imageRef": image, "name": "anew", "metadata": {"a": "b"}, "adminPass": "seekr3t", **more}
    answer = cloud.act(local, "rebuild", wish, "ann", version)
    assert answer.status == 202, answer.json
    shown = answer.json["server"]
    assert set(shown) == fields
    assert answer.headers["location"] == f"http://cloud/v2.1/servers/{local}"
    assert (shown["adminPass"], shown["name"], shown["metadata"]) == ("seekr3t", "anew", {"a": "b"})
    assert (shown["image"]["id"], shown["status"]) == (image, "REBUILD")
    for name in more.keys() & shown.keys():
        assert shown[name] == more[name]
    assert state(cloud, local) == ("REBUILD", "active", "rebuilding")
    cloud.world.settle()
    after = cloud.shown(local)
    assert (after["status"], after["image"]["id"], after["name"]) == ("ACTIVE", image, "anew")
    if "hostname" in more:
        assert after["OS-EXT-SRV-ATTR:hostname"] == more["hostname"]
    assert cloud.world.ground.place("node1", local).guest.image == image


@pytest.mark.parametrize(
    ("version", "wish", "status"),
    [
        ("2.96", None, 400),
        ("2.96", {}, 400),
        ("2.96", {"imageRef": None}, 400),
        ("2.96", {"imageRef": "00000000-0000-4000-8000-000000000000"}, 400),
        ("2.96", {"imageRef": "BOBS"}, 400),
        ("2.96", {"imageRef": "LARGE"}, 400),
        ("2.96", {"imageRef": "IMAGE", "name": ""}, 400),
        ("2.96", {"imageRef": "IMAGE", "name": None}, 400),
        ("2.96", {"imageRef": "IMAGE", "metadata": {"a": 7}}, 400),
        ("2.96", {"imageRef": "IMAGE", "metadata": {str(n): "" for n in range(129)}}, 403),
        ("2.96", {"imageRef": "IMAGE", "accessIPv4": "::1"}, 400),
        ("2.96", {"imageRef": "IMAGE", "key_name": "nobody's"}, 400),
        ("2.96", {"imageRef": "IMAGE", "preserve_ephemeral": True}, 400),
        ("2.96", {"imageRef": "IMAGE", "trusted_image_certificates": ["x"]}, 400),
        ("2.96", {"imageRef": "IMAGE", "personality": []}, 400),
        ("2.96", {"imageRef": "IMAGE", "flavorRef": "1"}, 400),
        ("2.18", {"imageRef": "IMAGE", "description": "x"}, 400),
        ("2.53", {"imageRef": "IMAGE", "key_name": None}, 400),
        ("2.56", {"imageRef": "IMAGE", "user_data": "x"}, 400),
        ("2.62", {"imageRef": "IMAGE", "trusted_image_certificates": None}, 400),
        ("2.89", {"imageRef": "IMAGE", "hostname": "x"}, 400),
    ],
)
def test_a_rebuild_of_the_wrong_shape_changes_nothing(
    cloud: Any, fault: Any, local: str, version: str, wish: Any, status: int
) -> None:
    known = {
        "IMAGE": cloud.image(),
        "BOBS": private(cloud, BOBS_PROJECT),
        "LARGE": cloud.image(min_disk=2),
    }
    if wish and wish.get("imageRef") in known:
        wish = {**wish, "imageRef": known[wish["imageRef"]]}
    before = cloud.world.picture()
    fault(cloud.act(local, "rebuild", wish, "ann", version), status)
    assert state(cloud, local) == ("ACTIVE", "active", None)
    assert cloud.world.picture() == before


def private(cloud: Any, project: str) -> str:
    """An image that only the project may use."""
    image_id: str = cloud.image(project)
    owner = Actor("", "", project, "", frozenset({"member"}))
    cloud.store.write_now(change, owner, image_id, visibility="private")
    return image_id


def test_an_admin_rebuilds_from_what_the_owner_may_use(cloud: Any, fault: Any, local: str) -> None:
    admins = private(cloud, "c" * 32)
    assert "no image found" in fault(cloud.act(local, "rebuild", {"imageRef": admins}), 400)
    anns = private(cloud, ANNS_PROJECT)
    assert cloud.act(local, "rebuild", {"imageRef": anns}).status == 202


def test_a_stopped_server_stays_stopped_and_others_are_409(cloud: Any, fault: Any, local: str) -> None:
    wish = {"imageRef": cloud.image()}
    cloud.act(local, "os-stop")
    cloud.world.settle()
    assert cloud.act(local, "rebuild", wish, "ann").status == 202
    assert "Cannot 'rebuild'" in fault(cloud.act(local, "rebuild", wish, "ann"), 409)
    cloud.world.settle()
    assert state(cloud, local) == ("SHUTOFF", "stopped", None)
    cloud.act(local, "os-start")
    cloud.world.settle()
    cloud.act(local, "pause")
    cloud.world.settle()
    assert "Cannot 'rebuild'" in fault(cloud.act(local, "rebuild", {**wish, "name": "x"}, "ann"), 409)
    assert cloud.shown(local)["name"] == "ins1"
    fault(cloud.act(local, "rebuild", wish, "rita"), 403)
    fault(cloud.act(local, "rebuild", wish, "bob"), 404)
    cloud.act(local, "lock")
    fault(cloud.act(local, "rebuild", wish, "ann"), 409)


def test_what_is_not_said_stays_and_tags_survive(cloud: Any, local: str) -> None:
    cloud.put(f"/servers/{local}/tags", {"tags": ["blue"]}, "ann", "2.26")
    cloud.put(f"/servers/{local}/metadata", {"metadata": {"k": "v"}}, "ann")
    cloud.act(local, "rebuild", {"imageRef": cloud.image()}, "ann")
    cloud.put(f"/servers/{local}/tags/red", None, "ann", "2.26")
    cloud.world.settle()
    shown = cloud.shown(local)
    assert (shown["name"], shown["tags"], shown["metadata"]) == ("ins1", ["blue", "red"], {"k": "v"})


def test_a_volume_is_never_written_over(cloud: Any, fault: Any, on_volume: str) -> None:
    (image,) = {row["image_id"] for row in cloud.world.rows("volume")}
    assert "different image" in fault(
        cloud.act(on_volume, "rebuild", {"imageRef": cloud.image()}, "ann", "2.92"), 400
    )
    assert "cannot write" in fault(cloud.act(on_volume, "rebuild", {"imageRef": image}, "ann", "2.93"), 400)
    answer = cloud.act(on_volume, "rebuild", {"imageRef": image}, "ann", "2.92")
    assert (answer.status, answer.json["server"]["image"]) == (202, "")
    cloud.world.settle()
    assert state(cloud, on_volume)[0] == "ACTIVE"


# -- Rescue -------------------------------------------------------------------------------


@pytest.mark.parametrize("wish", [None, {}, {"adminPass": "MySecretPass"}])
def test_a_server_is_rescued_and_comes_back(cloud: Any, fault: Any, local: str, wish: Any) -> None:
    answer = cloud.act(local, "rescue", wish, "ann", "2.1")
    assert answer.status == 200
    password = answer.json["adminPass"]
    assert password == "MySecretPass" if wish else len(password) == 12
    assert state(cloud, local) == ("ACTIVE", "active", "rescuing")
    cloud.world.settle()
    assert state(cloud, local) == ("RESCUE", "rescued", None)
    assert [s["id"] for s in cloud.get("/servers?status=RESCUE", "ann").json["servers"]] == [local]
    assert "Cannot 'rescue'" in fault(cloud.act(local, "rescue", None, "ann"), 409)
    assert "Cannot 'reboot'" in fault(cloud.act(local, "reboot", {"type": "SOFT"}, "ann"), 409)
    assert cloud.act(local, "unrescue", None, "ann").status == 202
    cloud.world.settle()
    assert state(cloud, local) == ("ACTIVE", "active", None)
    assert "Cannot 'unrescue'" in fault(cloud.act(local, "unrescue", None, "ann"), 409)


def test_a_rescue_image_is_the_owner_s_to_choose(cloud: Any, fault: Any, local: str) -> None:
    image = private(cloud, ANNS_PROJECT)
    for bad in ("00000000-0000-4000-8000-000000000000", private(cloud, BOBS_PROJECT), "", None, 7):
        fault(cloud.act(local, "rescue", {"rescue_image_ref": bad}, "ann"), 400)
    fault(cloud.act(local, "rescue", {"colour": "red"}, "ann"), 400)
    fault(cloud.act(local, "rescue", None, "rita"), 403)
    fault(cloud.act(local, "unrescue", None, "rita"), 403)
    assert cloud.act(local, "rescue", {"rescue_image_ref": image}, "ann").status == 200
    cloud.world.settle()
    assert cloud.world.ground.place("node1", local).guest.image == image


def test_a_server_on_a_volume_is_rescued_since_2_87(cloud: Any, fault: Any, on_volume: str) -> None:
    assert "volume-backed" in fault(cloud.act(on_volume, "rescue", None, "ann", "2.86"), 400)
    assert cloud.act(on_volume, "rescue", None, "ann", "2.87").status == 200
    cloud.world.settle()
    assert state(cloud, on_volume)[0] == "RESCUE"
    (image,) = {row["image_id"] for row in cloud.world.rows("volume")}
    assert cloud.world.ground.place("node1", on_volume).guest.image == image


def test_a_volume_of_no_image_needs_a_rescue_image(cloud: Any, fault: Any, on_volume: str) -> None:
    (image,) = {row["image_id"] for row in cloud.world.rows("volume")}
    owner = Actor("", "", ANNS_PROJECT, "", frozenset({"member"}))
    asyncio.run(cloud.world.companions.images.delete(owner, image))
    assert "rescue_image_ref" in fault(cloud.act(on_volume, "rescue", None, "ann"), 400)
    assert cloud.act(on_volume, "rescue", {"rescue_image_ref": cloud.image()}, "ann").status == 200


# -- Images of servers --------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2.1", "2.44", "2.45", "2.96"])
def test_an_image_is_made_and_its_id_told_in_each_version(cloud: Any, local: str, version: str) -> None:
    answer = cloud.act(local, "createImage", {"name": "snap", "metadata": {"a": "b"}}, "ann", version)
    assert answer.status == 202
    if version in ("2.1", "2.44"):
        assert answer.json is None
        image_id = answer.headers["location"].rsplit("/", 1)[1]
        assert answer.headers["location"] == f"http://cloud/images/{image_id}"
    else:
        assert "location" not in answer.headers
        image_id = answer.json["image_id"]
    found = image(cloud, image_id)
    assert (found.name, found.status) == ("snap", "queued")
    assert state(cloud, local) == ("ACTIVE", "active", "image_uploading")
    cloud.world.settle()
    found = image(cloud, image_id)
    assert (found.status, found.size) == ("active", 500)
    assert found.properties["a"] == "b"
    assert state(cloud, local) == ("ACTIVE", "active", None)
    (action, _) = cloud.get(f"/servers/{local}/os-instance-actions").json["instanceActions"]
    assert action["action"] == "createImage"


def image(cloud: Any, image_id: str) -> Any:
    owner = Actor("", "", ANNS_PROJECT, "", frozenset({"member"}))
    return asyncio.run(cloud.world.companions.images.get(owner, image_id))


@pytest.mark.parametrize(
    ("wish", "status"),
    [
        (None, 400),
        ({}, 400),
        ({"name": ""}, 400),
        ({"name": None}, 400),
        ({"name": "x" * 256}, 400),
        ({"name": "x", "metadata": None}, 400),
        ({"name": "x", "metadata": {"a": None}}, 400),
        ({"name": "x", "metadata": {str(n): "" for n in range(129)}}, 403),
        ({"name": "x", "colour": "red"}, 400),
    ],
)
def test_an_image_of_the_wrong_shape_is_not_made(
    cloud: Any, fault: Any, local: str, wish: Any, status: int
) -> None:
    fault(cloud.act(local, "createImage", wish, "ann"), status)
    assert cloud.world.picture()["snapshots"] == []


@pytest.mark.parametrize("version", ["2.1", "2.44", "2.45", "2.96"])
def test_a_backup_is_made_and_told_as_an_image_is(cloud: Any, local: str, version: str) -> None:
    wish = {"name": "b", "backup_type": "daily", "rotation": 1, "metadata": {"a": "b"}}
    made = []
    for _ in range(2):
        answer = cloud.act(local, "createBackup", wish, "ann", version)
        assert answer.status == 202
        told = answer.json["image_id"] if answer.json else answer.headers["location"].rsplit("/", 1)[1]
        assert (answer.json is None) == (version in ("2.1", "2.44"))
        assert state(cloud, local) == ("ACTIVE", "active", "image_backup")
        cloud.world.pass_time(1.0)
        cloud.world.settle()
        made.append(told)
    kept = image(cloud, made[1])
    assert (kept.status, kept.properties["backup_type"], kept.properties["a"]) == ("active", "daily", "b")
    with pytest.raises(NotFound):
        image(cloud, made[0])
    (action, *_) = cloud.get(f"/servers/{local}/os-instance-actions").json["instanceActions"]
    assert action["action"] == "createBackup"


def test_a_backup_of_the_wrong_shape_is_not_made(cloud: Any, fault: Any, local: str) -> None:
    good = {"name": "b", "backup_type": "daily", "rotation": 1}
    for wrong in (
        *({name: value for name, value in good.items() if name != missing} for missing in good),
        {**good, "rotation": -1},
        {**good, "rotation": "x"},
        {**good, "backup_type": ""},
        {**good, "colour": "red"},
    ):
        fault(cloud.act(local, "createBackup", wrong, "ann"), 400)
    fault(cloud.act(local, "createBackup", good, "rita"), 403)
    on_volume = cloud.server("on-volume")
    assert "volume-backed" in fault(cloud.act(on_volume, "createBackup", good, "ann"), 400)
    assert cloud.world.picture()["snapshots"] == []


def test_who_may_make_one_and_when(cloud: Any, fault: Any, local: str) -> None:
    wish = {"name": "snap"}
    fault(cloud.act(local, "createImage", wish, "rita"), 403)
    fault(cloud.act(local, "createImage", wish, "bob"), 404)
    cloud.act(local, "suspend", None, "ann")
    fault(cloud.act(local, "createImage", wish, "ann"), 409)
    cloud.world.settle()
    assert state(cloud, local)[0] == "SUSPENDED"
    assert cloud.act(local, "createImage", wish, "ann").status == 202
    cloud.world.settle()
    assert cloud.act(local, "resume", None, "ann").status == 202
    cloud.world.settle()
    assert state(cloud, local)[0] == "ACTIVE"


def test_an_image_service_that_does_not_answer_is_503_and_nothing_is_begun(
    cloud: Any, fault: Any, local: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*of: Any, **more: Any) -> None:
        raise Unavailable("The image service does not answer.")

    monkeypatch.setattr(EmbeddedImages, "announce_snapshot", away)
    fault(cloud.act(local, "createImage", {"name": "snap"}, "ann"), 503)
    assert state(cloud, local) == ("ACTIVE", "active", None)


def test_a_server_that_begins_something_else_meanwhile_gets_no_image(
    cloud: Any, fault: Any, local: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request has seen the server at rest, and finds that another was quicker."""
    announce = EmbeddedImages.announce_snapshot

    async def and_meanwhile(images: Any, *of: Any, **more: Any) -> None:
        cloud.store.write_now(begin.begin, "stop", local, cloud.world.by(), {})
        await announce(images, *of, **more)

    monkeypatch.setattr(EmbeddedImages, "announce_snapshot", and_meanwhile)
    assert "powering-off" in fault(cloud.act(local, "createImage", {"name": "snap"}, "ann"), 409)
    assert cloud.world.picture()["snapshots"] == []


@pytest.mark.parametrize("half", ["berthold.moves.begin.begin", "berthold.companions.image.begin_snapshot"])
def test_an_image_and_the_move_that_makes_it_are_begun_together_or_not_at_all(
    cloud: Any, local: str, monkeypatch: pytest.MonkeyPatch, half: str
) -> None:
    """A process that dies between them would leave an image that is queued for ever."""

    def dies(*of: Any) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(half, dies)
    assert cloud.act(local, "createImage", {"name": "snap"}, "ann").status == 500
    assert cloud.world.picture()["snapshots"] == []
    assert state(cloud, local) == ("ACTIVE", "active", None)


def test_an_image_that_its_owner_deletes_meanwhile_stays_deleted(cloud: Any, local: str) -> None:
    answer = cloud.act(local, "createImage", {"name": "snap"}, "ann")
    owner = Actor("", "", ANNS_PROJECT, "", frozenset({"member"}))
    asyncio.run(cloud.world.companions.images.delete(owner, answer.json["image_id"]))
    cloud.world.settle()
    assert cloud.world.picture()["snapshots"] == []
    assert state(cloud, local) == ("ACTIVE", "active", None)
    (action, _) = cloud.get(f"/servers/{local}/os-instance-actions").json["instanceActions"]
    assert (action["action"], action["message"]) == ("createImage", "Error")


def test_a_server_that_is_deleted_during_it_leaves_no_image(cloud: Any, local: str) -> None:
    cloud.act(local, "createImage", {"name": "snap"}, "ann")
    cloud.act(local, "forceDelete")
    cloud.world.settle()
    assert cloud.world.picture()["snapshots"] == []


# -- Images of servers on volumes ---------------------------------------------------------


def copied(cloud: Any, server: str) -> str:
    """An image of a server on volumes; its id."""
    answer = cloud.act(server, "createImage", {"name": "snap"}, "ann")
    assert answer.status == 202, answer.json
    cloud.world.settle()
    made: str = answer.json["image_id"]
    return made


def booted_from(cloud: Any, image_id: str, **fields: Any) -> Any:
    wish = {"name": "copy", "flavorRef": "100", "imageRef": image_id, "networks": "none", **fields}
    return cloud.post("/servers", {"server": wish}, "ann", "2.74")


def test_a_server_on_volumes_is_copied_by_its_image(cloud: Any, on_volume: str) -> None:
    made = image(cloud, copied(cloud, on_volume))
    assert (made.status, made.size) == ("active", 0)
    answer = booted_from(cloud, made.id)
    assert answer.status == 202, answer.json
    cloud.world.settle()
    shown = cloud.shown(answer.json["server"]["id"])
    assert (shown["status"], shown["image"]) == ("ACTIVE", "")
    (attached,) = shown["os-extended-volumes:volumes_attached"]
    (snapshot_row,) = cloud.world.rows("volume_snapshot")
    (volume,) = [row for row in cloud.world.rows("volume") if row["id"] == attached["id"]]
    assert (volume["snapshot_id"], volume["size"], volume["bootable"]) == (snapshot_row["id"], 1, True)
    files = cloud.world.companions.volumes
    old = [row for row in cloud.world.rows("volume") if row["id"] != attached["id"]]
    assert len({beginning(files.path(as_row(row))) for row in [volume, *old]}) == 1


def beginning(file: Path) -> tuple[int, bytes]:
    """How long a file is, and what an image has written into it: the rest of a volume is empty."""
    with file.open("rb") as volume:
        return file.stat().st_size, volume.read(1 << 20)


def as_row(row: Any) -> Any:
    return SimpleNamespace(**row)


def test_other_devices_come_beside_those_of_the_image(cloud: Any, on_volume: str) -> None:
    made = copied(cloud, on_volume)
    more = [{"source_type": "blank", "destination_type": "volume", "volume_size": 2, "boot_index": None}]
    answer = booted_from(cloud, made, block_device_mapping_v2=more)
    assert answer.status == 202, answer.json
    cloud.world.settle()
    shown = cloud.shown(answer.json["server"]["id"])
    assert len(shown["os-extended-volumes:volumes_attached"]) == 2


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ({"uuid": None}, "needs the snapshot's uuid"),
        ({"uuid": "00000000-0000-4000-8000-000000000000"}, "could not be found"),
        ({"destination_type": "local"}, "destination_type local is not offered"),
    ],
)
def test_a_snapshot_that_cannot_be_started_from_is_400(
    cloud: Any, fault: Any, on_volume: str, device: Any, words: str
) -> None:
    copied(cloud, on_volume)
    (row,) = cloud.world.rows("volume_snapshot")
    usual = {"source_type": "snapshot", "destination_type": "volume", "uuid": row["id"], "boot_index": 0}
    answer = booted_from(cloud, "", block_device_mapping_v2=[{**usual, **device}])
    assert words in fault(answer, 400)
    bobs = {"name": "x", "flavorRef": "100", "networks": "none", "block_device_mapping_v2": [usual]}
    assert "could not be found" in fault(cloud.post("/servers", {"server": bobs}, "bob", "2.74"), 400)


def test_an_image_that_names_devices_in_an_unknown_form_is_400(cloud: Any, fault: Any) -> None:
    cloud.host()
    cloud.flavor("100", disk=1)
    for junk in ("[", "7", '[{"boot_index": "x"}]', "{}"):
        made = cloud.image(properties={"block_device_mapping": junk})
        assert "in no form that is known" in fault(booted_from(cloud, made), 400)


def test_an_operator_may_forbid_it(cloud: Any, fault: Any, on_volume: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text('"os_compute_api:servers:create_image:allow_volume_backed": "!"\n')
    cloud.app = cloud.over_http(policy=Policy(file))
    fault(cloud.act(on_volume, "createImage", {"name": "snap"}, "ann"), 403)
    assert cloud.world.rows("volume_snapshot") == []


def test_more_disks_than_there_are_names_for_is_400(cloud: Any, fault: Any) -> None:
    cloud.host()
    cloud.flavor("100", disk=1)
    many = [{"source_type": "blank", "destination_type": "volume", "volume_size": 1}] * 26
    answer = booted_from(cloud, cloud.image(), block_device_mapping_v2=many)
    assert "26 disks at most" in fault(answer, 400)
