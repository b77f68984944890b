"""Since 2.20 a server that is shelved, with its host or without, is given volumes and gives them back."""

from __future__ import annotations

from typing import Any

import pytest

from berthold.lab.world import with_settings


@pytest.fixture(params=["SHELVED", "SHELVED_OFFLOADED"])
def shelved(request: pytest.FixtureRequest, cloud: Any) -> str:
    """A server with a disk of its own, which keeps its host or has given it back."""
    for name in ("node1", "node2"):
        cloud.host(name)
    keeps = with_settings(shelved_offload_s=-1, turn_s=0.0)
    cloud.app = cloud.over_http(settings=keeps) if request.param == "SHELVED" else cloud.app
    cloud.flavor("200", disk=1)
    server: str = cloud.server(flavorRef="200", imageRef=cloud.image(), block_device_mapping_v2=[])
    cloud.act(server, "shelve", None, "ann")
    cloud.world.settle()
    assert cloud.shown(server)["status"] == request.param
    return server


def attach(cloud: Any, server: str, volume: str, version: str = "2.20") -> Any:
    wish = {"volumeAttachment": {"volumeId": volume}}
    return cloud.post(f"/servers/{server}/os-volume_attachments", wish, "ann", version)


def detach(cloud: Any, server: str, volume: str, version: str = "2.20") -> Any:
    return cloud.delete(f"/servers/{server}/os-volume_attachments/{volume}", "ann", version)


def guests_volumes(cloud: Any, server: str) -> list[str]:
    """What its guest has, wherever that is."""
    guest = cloud.world.ground.place(cloud.world.home(server), server).guest
    return [volume["volume_id"] for volume in guest.volumes]


def test_before_2_20_it_is_refused(cloud: Any, fault: Any, shelved: str) -> None:
    volume, more = cloud.volume(), cloud.volume()
    state = "shelved" if cloud.world.home(shelved) else "shelved_offloaded"
    refused = fault(attach(cloud, shelved, volume, "2.19"), 409)
    assert refused == f"Cannot 'attach_volume' instance {shelved} while it is in vm_state {state}"
    assert attach(cloud, shelved, volume).status == 200
    cloud.world.settle()
    assert f"in vm_state {state}" in fault(detach(cloud, shelved, volume, "2.19"), 409)
    fault(detach(cloud, shelved, more, "2.20"), 404)


def test_what_it_was_given_its_guest_has_when_it_is_back(cloud: Any, shelved: str) -> None:
    one, two = cloud.volume(), cloud.volume()
    status = cloud.shown(shelved)["status"]
    for volume, device in ((one, "/dev/vdb"), (two, "/dev/vdc")):
        made = attach(cloud, shelved, volume)
        assert (made.status, made.json["volumeAttachment"]["device"]) == (200, device)
        cloud.world.settle()
    assert detach(cloud, shelved, one).status == 202
    cloud.world.settle()
    assert cloud.shown(shelved)["status"] == status
    taken = {row["id"]: row["status"] for row in cloud.world.rows("volume")}
    assert (taken[one], taken[two]) == ("available", "in-use")
    actions = cloud.get(f"/servers/{shelved}/os-instance-actions").json["instanceActions"]
    assert [each["action"] for each in actions][:3] == ["detach_volume", "attach_volume", "attach_volume"]
    assert cloud.act(shelved, "unshelve", None, "ann").status == 202
    cloud.world.settle()
    assert cloud.shown(shelved)["status"] == "ACTIVE"
    assert guests_volumes(cloud, shelved) == [two]
    assert cloud.world.problems() == []


def test_it_is_not_unshelved_while_a_volume_comes(cloud: Any, fault: Any, shelved: str) -> None:
    """M3: so a guest is never made without a volume that was acknowledged before."""
    volume = cloud.volume()
    attach(cloud, shelved, volume)
    assert "its attach-volume is under way" in fault(cloud.act(shelved, "unshelve", None, "ann"), 409)
    cloud.world.settle()
    cloud.act(shelved, "unshelve", None, "ann")
    assert "Cannot 'detach_volume'" in fault(detach(cloud, shelved, volume), 409)


@pytest.mark.parametrize("steps", range(3))
@pytest.mark.parametrize("comes", [True, False])
def test_it_may_be_deleted_while_a_volume_comes_or_goes(
    cloud: Any, shelved: str, comes: bool, steps: int
) -> None:
    volume = cloud.volume()
    attach(cloud, shelved, volume)
    if not comes:
        cloud.world.settle()
        detach(cloud, shelved, volume)
    for _ in range(steps):
        for move in cloud.world.unfinished():
            cloud.world.step(move)
    assert cloud.delete(f"/servers/{shelved}", "ann").status == 204
    cloud.world.settle()
    assert {row["status"] for row in cloud.world.rows("volume")} == {"available"}
    assert cloud.world.rows("volume_attachment") == []
    assert cloud.world.problems() == []
