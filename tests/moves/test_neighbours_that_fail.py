"""A quota that is used up, a full disk, a file that is missing, a neighbour that refuses connections:
each is told in words, and the move that meets it leaves no trace (M6)."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from berthold.companions import quotas
from berthold.errors import Unavailable
from berthold.lab.furniture import add_image, add_network, add_volume
from berthold.lab.world import PROJECT, World
from berthold.moves import begin
from compute import ANNS_PROJECT, Cloud

REFUSES = "the volume service refuses connections (127.0.0.1:8776)"


@pytest.fixture
def world() -> Iterator[World]:
    world = World(hosts=2)
    add_network(world)
    add_volume(world, "lent")
    add_image(world)
    yield world
    assert world.problems() == []
    assert world.store.read_now(quotas.miscounted) == []
    world.close()


def lent(world: World) -> str:
    """The volume that is there already."""
    return next(str(row["id"]) for row in world.rows("volume") if row["name"] == "lent")


def wishes(world: World, ports: int = 1) -> dict[str, Any]:
    """A server with ports, a volume that it is lent, and one that is made from an image."""
    return {
        "networks": [{"uuid": world.rows("network")[0]["id"]}] * ports,
        "volumes": [
            {"volume_id": lent(world), "boot_index": 1},
            {"size": 2, "boot_index": 0, "image_id": world.rows("image")[0]["id"]},
        ],
    }


def limit(world: World, **limits: int) -> None:
    world.store.write_now(quotas.set_limits, PROJECT, limits)


def things(world: World) -> dict[str, Any]:
    """Everything that a create makes at its neighbours, and what they count."""
    volumes = [row for row in world.rows("volume") if row["status"] != "deleted"]
    return {
        "volumes": [(row["id"], row["status"], row["size"]) for row in volumes],
        "files": sorted(file.name for file in world.companions.volumes.files.directory.iterdir()),
        "ports": world.rows("network_port") + world.rows("network_address"),
        "attachments": world.rows("volume_attachment"),
        "counted": {(row["resource"], row["used"]) for row in world.rows("companion_quota") if row["used"]},
        "claims": world.rows("claim"),
        "guests": [world.ground.states(name) for name in world.agents],
    }


def fails(world: World, words: str, **wish: Any) -> None:
    """A server is asked for and fails in these words, and nothing is there that was not before."""
    before = things(world)
    server = world.boot("web", **wish)
    row = world.server(server)
    assert row["condition"] == "error"
    assert words in row["fault"]["message"], row["fault"]
    assert things(world) == before
    world.delete(server)
    world.settle()
    assert things(world) == before


# -- Quotas -------------------------------------------------------------------------------


def test_a_create_beyond_the_port_quota_leaves_no_trace(world: World) -> None:
    limit(world, port=2)
    fails(world, "Quota exceeded for resources: ['port']", **wishes(world, ports=3))
    good = world.boot("web", **wishes(world, ports=2))
    assert world.status(good).status == "ACTIVE"


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"volumes": 1}, "Maximum number of volumes allowed (1) exceeded"),
        ({"gigabytes": 2}, "Requested 2G, quota is 2G and 1G has been consumed"),
        ({"per_volume_gigabytes": 1}, "2G is larger than maximum allowed limit 1G"),
    ],
)
def test_a_create_beyond_a_quota_of_volumes_leaves_no_trace(
    world: World, limits: dict[str, int], words: str
) -> None:
    limit(world, **limits)
    fails(world, words, **wishes(world))


def test_what_a_server_took_of_the_quotas_is_back_when_it_is_gone(world: World) -> None:
    before = things(world)
    wish = wishes(world, ports=2)
    wish["volumes"][1]["delete_on_termination"] = True
    server = world.boot("web", **wish)
    assert {("port", 2), ("volumes", 2), ("gigabytes", 3)} <= things(world)["counted"]
    world.delete(server)
    world.settle()
    assert things(world) == before


def test_over_http_the_server_says_what_its_project_has_too_little_of() -> None:
    cloud = Cloud()
    for name in ("node1", "node2"):
        cloud.host(name)
    cloud.flavor(disk=1)
    cloud.store.write_now(quotas.set_limits, ANNS_PROJECT, {"port": 0})
    networks = [{"uuid": cloud.network()}]
    wish = {"name": "s", "flavorRef": "100", "imageRef": cloud.image(), "networks": networks}
    made = cloud.post("/servers", {"server": wish}, "ann", "2.37").json["server"]
    cloud.world.settle()
    shown = cloud.get(f"/servers/{made['id']}", "ann", "2.37").json["server"]
    assert shown["status"] == "ERROR"
    assert "Quota exceeded for resources: ['port']" in shown["fault"]["message"]
    assert cloud.world.claims(made["id"]) == []
    cloud.world.close()


# -- Disks --------------------------------------------------------------------------------


def test_a_create_on_a_full_disk_leaves_no_trace(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    fails(world, "no space is left where images and volumes are kept", **wishes(world))
    monkeypatch.undo()
    assert world.status(world.boot("web", **wishes(world))).status == "ACTIVE"


def test_a_create_from_an_image_whose_file_is_missing_leaves_no_trace(world: World) -> None:
    for file in world.companions.images.files.directory.iterdir():
        file.unlink()
    fails(world, "the bytes to copy from are gone", **wishes(world))


def test_a_snapshot_on_a_full_disk_makes_no_image_and_the_server_runs_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = world.boot("web", image_id=world.rows("image")[0]["id"])
    before = things(world), world.rows("image"), world.picture()

    def full(_: int) -> None:
        raise OSError(errno.EDQUOT, "quota of the disk")

    monkeypatch.setattr(os, "fsync", full)
    begin_snapshot(world, server)
    world.settle()
    assert world.status(server).status == "ACTIVE"
    assert (things(world), world.rows("image"), world.picture()) == before


def begin_snapshot(world: World, server: str) -> str:
    wish = {"name": "snap", "metadata": {}}
    return world.store.write_now(begin.begin, "snapshot", server, world.by(), wish)


@pytest.mark.parametrize("on_volumes", [False, True])
def test_a_snapshot_of_what_is_missing_makes_no_image_and_the_server_runs_on(
    world: World, on_volumes: bool
) -> None:
    wish = wishes(world) if on_volumes else {"image_id": world.rows("image")[0]["id"]}
    server = world.boot("web", **wish)
    kept = world.companions.volumes.files if on_volumes else world.companions.images.files
    for file in kept.directory.iterdir():
        file.unlink()
    before = things(world), world.rows("image"), world.rows("volume_snapshot"), world.picture()
    move = begin_snapshot(world, server)
    world.settle()
    assert world.status(server).status == "ACTIVE"
    assert "gone" in world.move(move)["failure"]["message"]
    assert (things(world), world.rows("image"), world.rows("volume_snapshot"), world.picture()) == before


# -- Neighbours that are not there --------------------------------------------------------


class Dead:
    """Nobody listens there: each call is refused."""

    def __getattr__(self, name: str) -> Any:
        async def refused(*_: Any, **__: Any) -> Any:
            raise Unavailable(REFUSES)

        return refused


def dies(world: World, *which: str) -> None:
    world.runner.neighbours = replace(world.runner.neighbours, **{name: Dead() for name in which})


def steps(world: World, rounds: int = 40) -> None:
    """As conductor and agents go on, for a while."""
    for _ in range(rounds):
        for move in world.unfinished():
            world.step(move)
        for name in world.agents:
            world.obey(name)
        world.pass_time(1.0)


@pytest.mark.parametrize("which", ["volumes", "networks"])
def test_a_create_that_finds_a_neighbour_dead_leaves_no_trace_once_it_is_back(
    world: World, which: str
) -> None:
    before, sound = things(world), world.runner.neighbours
    server = world.create("web", **wishes(world))
    dies(world, which)
    steps(world)
    # It walks back, and asks until it is told that nothing is left behind.
    assert world.unfinished() != []
    assert world.server(server)["condition"] != "active"
    world.runner.neighbours = sound
    world.settle()
    row = world.server(server)
    assert row["condition"] == "error"
    assert REFUSES in row["fault"]["message"]
    assert things(world) == before


def test_an_attach_that_finds_the_volume_service_dead_leaves_the_server_as_it_was(world: World) -> None:
    server, sound = world.boot("web"), world.runner.neighbours
    before = things(world), world.picture()
    world.store.write_now(begin.attach_volume, server, world.by(), lent(world))
    dies(world, "volumes")
    steps(world)
    world.runner.neighbours = sound
    world.settle()
    assert world.status(server).status == "ACTIVE"
    assert (things(world), world.picture()) == before
    world.store.write_now(begin.attach_volume, server, world.by(), lent(world))
    world.settle()
    assert [row["server_id"] for row in world.rows("volume_attachment")] == [server]


def test_a_snapshot_that_finds_the_image_service_dead_leaves_no_image_once_it_is_back(world: World) -> None:
    server = world.boot("web", image_id=world.rows("image")[0]["id"])
    before, sound = (things(world), world.rows("image"), world.picture()), world.runner.neighbours
    move = begin_snapshot(world, server)
    dies(world, "images")
    steps(world)
    world.runner.neighbours = sound
    world.settle()
    assert REFUSES in world.move(move)["failure"]["message"]
    assert world.status(server).status == "ACTIVE"
    assert (things(world), world.rows("image"), world.picture()) == before


def test_a_delete_waits_for_neighbours_that_are_dead_and_then_leaves_nothing(world: World) -> None:
    before, sound = things(world), world.runner.neighbours
    wish = wishes(world)
    wish["volumes"][1]["delete_on_termination"] = True
    server = world.boot("web", **wish)
    world.delete(server)
    dies(world, "volumes", "networks", "images")
    steps(world)
    assert world.unfinished() != []
    world.runner.neighbours = sound
    world.settle()
    assert things(world) == before


@pytest.mark.parametrize("which", ["identity", "images", "volumes", "networks"])
def test_a_request_that_needs_a_dead_neighbour_is_told_so_and_begins_nothing(which: str) -> None:
    cloud = Cloud()
    cloud.host("node1")
    cloud.flavor(disk=1)
    networks = [{"uuid": cloud.network()}]
    wish: dict[str, Any] = {"name": "s", "flavorRef": "100", "imageRef": cloud.image(), "networks": networks}
    if which == "volumes":
        device = {"source_type": "volume", "destination_type": "volume", "boot_index": 0}
        wish |= {"imageRef": "", "block_device_mapping_v2": [{"uuid": cloud.volume(), **device}]}
    cloud.app = cloud.over_http(neighbours=replace(cloud.neighbours, **{which: Dead()}))
    refused = cloud.post("/servers", {"server": wish}, "ann", "2.37")
    assert refused.status == 503
    assert REFUSES in refused.json["serviceUnavailable"]["message"]
    assert cloud.world.rows("server") == []
    cloud.world.close()
