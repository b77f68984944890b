"""Images that are made of servers: by a snapshot, by a shelve. Their bytes, and who removes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from berthold.companions import image as images
from berthold.companions import quotas
from berthold.errors import Malformed, WrongState
from berthold.lab.furniture import add_image, add_volume
from berthold.lab.world import PROJECT, World, now
from berthold.moves import begin
from berthold.neighbours import Actor, snapshot_id, volume_snapshot_id
from by_hand import step_until


@pytest.fixture
def world() -> Iterator[World]:
    world = World(hosts=1)
    yield world
    assert world.problems() == []
    world.close()


def snapshot(world: World, server: str, **metadata: Any) -> str:
    wish = {"name": "snap", "metadata": metadata}
    return world.store.write_now(begin.begin, "snapshot", server, world.by(), wish)


def image(world: World, image_id: str) -> Any:
    (row,) = [row for row in world.rows("image") if row["id"] == image_id]
    return row


def test_a_snapshot_has_the_bytes_of_the_disk_and_says_whose_it_is(world: World) -> None:
    base = add_image(world)
    files = world.companions.images.files
    files.path(image(world, base)["file"]).write_bytes(b"the disk")
    server = world.boot("web", image_id=base)
    move = snapshot(world, server, purpose="backup")
    assert world.status(server).task_state == "image_uploading"
    world.settle()
    made = image(world, snapshot_id(move))
    assert (made["name"], made["status"], made["project_id"]) == ("snap", "active", PROJECT)
    assert (made["size"], files.path(made["file"]).read_bytes()) == (8, b"the disk")
    said = {"purpose": "backup", "instance_uuid": server, "base_image_ref": base, "image_type": "snapshot"}
    assert said.items() <= made["properties"].items()
    world.delete(server)
    world.settle()
    assert image(world, snapshot_id(move)) == made


def backup(world: World, server: str, name: str, of_type: str = "daily", rotation: int = 2) -> str:
    wish = {"name": name, "backup": {"type": of_type, "rotation": rotation}}
    world.pass_time(1.0)
    return world.store.write_now(begin.begin, "backup", server, world.by(), wish)


def test_as_many_backups_are_kept_of_each_type_and_server_as_are_wanted(world: World) -> None:
    base = add_image(world)
    server, other = world.boot("web", image_id=base), world.boot("other", image_id=base)
    move = backup(world, server, "first")
    assert world.status(server).task_state == "image_backup"
    world.settle()
    made = image(world, snapshot_id(move))
    said = {"instance_uuid": server, "image_type": "backup", "backup_type": "daily"}
    assert (made["status"], made["project_id"]) == ("active", PROJECT)
    assert said.items() <= made["properties"].items()
    for which, name, of_type in (
        (server, "weekly", "weekly"),
        (other, "other", "daily"),
        (server, "second", "daily"),
        (server, "third", "daily"),
    ):
        backup(world, which, name, of_type)
        world.settle()
    snapshot(world, server, backup_type="daily")
    world.settle()
    kept = {"cirros", "weekly", "other", "second", "third", "snap"}
    assert {row["name"] for row in world.rows("image")} == kept
    files = world.companions.images.files.directory
    assert {file.name for file in files.iterdir()} == {row["file"] for row in world.rows("image")}
    backup(world, server, "none", rotation=0)
    world.settle()
    assert {row["name"] for row in world.rows("image")} == kept - {"second", "third"}


def test_a_backup_that_fails_takes_none_away_and_a_protected_one_stays(world: World) -> None:
    server = world.boot("web", image_id=add_image(world))
    first = snapshot_id(backup(world, server, "first", rotation=1))
    world.settle()
    before = world.rows("image")
    refusing: Any = Refusing()
    world.runner.neighbours = replace(world.runner.neighbours, images=refusing)
    backup(world, server, "second", rotation=1)
    for move in world.unfinished():
        world.step(move)
    world.runner.neighbours = world.companions.neighbours
    world.settle()
    assert world.rows("image") == before
    owner = Actor("", "", PROJECT, "", frozenset({"member"}))
    world.store.write_now(lambda tx: images.change(tx, owner, first, protected=True))
    backup(world, server, "third", rotation=1)
    world.settle()
    assert {row["name"] for row in world.rows("image")} == {"cirros", "first", "third"}


class Refusing:
    """An image service that makes none."""

    async def snapshot(self, *of: Any, **more: Any) -> Any:
        raise WrongState("planned")


def test_a_backup_outlives_its_server_once_it_is_complete(world: World) -> None:
    server = world.boot("web", image_id=add_image(world))
    backup(world, server, "first", rotation=1)
    world.settle()
    move = backup(world, server, "second", rotation=1)
    step_until(world, move, "remove old backups")
    world.delete(server)
    world.settle()
    assert {row["name"] for row in world.rows("image")} == {"cirros", "first", "second"}
    another = world.boot("another", image_id=world.rows("image")[0]["id"])
    move = backup(world, another, "third")
    world.delete(another)
    world.settle()
    assert {row["name"] for row in world.rows("image")} == {"cirros", "first", "second"}


def test_a_server_on_a_volume_has_no_backup(world: World) -> None:
    server = world.boot("web", volumes=[{"volume_id": add_volume(world), "boot_index": 0}])
    with pytest.raises(Malformed, match="Backup is not supported for volume-backed instances"):
        backup(world, server, "b")


def test_a_snapshot_that_is_repeated_makes_one_image(world: World) -> None:
    images = world.companions.images
    made = [now(images.snapshot(PROJECT, "move", name="a", base=None, properties={})) for _ in range(2)]
    assert made[0] == made[1]
    assert len(world.rows("image")) == 1
    now(images.undo_snapshot(PROJECT, "move"))
    now(images.undo_snapshot(PROJECT, "move"))
    assert world.rows("image") == []
    assert list(images.files.directory.iterdir()) == []


def test_nobody_removes_another_projects_image(world: World) -> None:
    made = now(world.companions.images.snapshot(PROJECT, "move", name="a", base=None, properties={}))
    now(world.companions.images.remove_snapshot("another", made.id))
    assert image(world, made.id)["status"] == "active"


def test_a_server_that_is_deleted_during_its_snapshot_leaves_none(world: World) -> None:
    server = world.boot("web", image_id=add_image(world))
    move = snapshot(world, server)
    now(world.companions.images.snapshot(PROJECT, move, name="snap", base=None, properties={}))
    world.delete(server)
    world.settle()
    assert [row["name"] for row in world.rows("image")] == ["cirros"]


@pytest.fixture
def on_volumes(world: World) -> str:
    """A server that starts from a volume of 1 GiB and has another."""
    volumes = [
        {"volume_id": add_volume(world, name), "boot_index": index}
        for name, index in (("root", 0), ("data", None))
    ]
    return world.boot("web", volumes=volumes)


def test_the_image_of_a_server_on_volumes_names_a_snapshot_of_each(world: World, on_volumes: str) -> None:
    move = snapshot(world, on_volumes, purpose="backup")
    assert world.status(on_volumes).task_state == "image_snapshot"
    world.settle()
    made = image(world, snapshot_id(move))
    assert (made["name"], made["status"], made["size"]) == ("snap", "active", 0)
    assert made["properties"]["purpose"] == "backup"
    assert made["properties"]["root_device_name"] == "/dev/vda"
    devices = json.loads(made["properties"]["block_device_mapping"])
    taken = {row["id"]: row for row in world.rows("volume_snapshot")}
    assert [(d["device_name"], d["boot_index"]) for d in devices] == [("/dev/vda", 0), ("/dev/vdb", None)]
    assert {device["snapshot_id"] for device in devices} == set(taken)
    assert {(row["status"], row["name"]) for row in taken.values()} == {
        ("available", "snap /dev/vda"),
        ("available", "snap /dev/vdb"),
    }
    world.delete(on_volumes)
    world.settle()
    assert len(world.rows("volume_snapshot")) == 2


def test_a_snapshot_of_volumes_that_is_repeated_is_one(world: World, on_volumes: str) -> None:
    (volume_id, *_) = sorted(volume["volume_id"] for volume in world.server(on_volumes)["volumes"])
    volumes = world.companions.volumes
    taken = [now(volumes.snapshot(volume_id, "move", name="a")) for _ in range(2)]
    assert taken[0] == taken[1]
    assert taken[0].id == volume_snapshot_id("move", volume_id)
    assert len(world.rows("volume_snapshot")) == 1
    for _ in range(2):
        now(volumes.undo_snapshot(volume_id, "move"))
    assert world.rows("volume_snapshot") == []
    assert list(volumes.snapshots.files.directory.iterdir()) == []


def test_a_quota_that_is_too_small_leaves_nothing_of_it(world: World, on_volumes: str) -> None:
    world.store.write_now(quotas.set_limits, PROJECT, {"snapshots": 1})
    move = snapshot(world, on_volumes)
    world.settle()
    assert world.move(move)["state"] == "undone"
    assert "snapshots" in world.move(move)["failure"]["message"]
    assert world.status(on_volumes).status == "ACTIVE"
    assert (world.rows("volume_snapshot"), world.picture()["snapshots"]) == ([], [])


def test_deleted_during_its_snapshot_it_leaves_no_snapshots_of_volumes(world: World, on_volumes: str) -> None:
    move = snapshot(world, on_volumes)
    step_until(world, move, "make image")
    assert len(world.rows("volume_snapshot")) == 2
    world.delete(on_volumes)
    world.settle()
    assert (world.rows("volume_snapshot"), world.picture()["snapshots"]) == ([], [])
