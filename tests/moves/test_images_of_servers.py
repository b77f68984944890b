"""Images that are made of servers: by a snapshot, by a shelve. Their bytes, and who removes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from berthold.errors import WrongState
from berthold.lab.furniture import add_image, add_volume
from berthold.lab.world import PROJECT, World, now
from berthold.moves import begin
from berthold.neighbours import snapshot_id


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


def test_a_server_that_starts_from_a_volume_has_no_disk_to_make_an_image_of(world: World) -> None:
    server = world.boot("web", volumes=[{"volume_id": add_volume(world), "boot_index": 0}])
    with pytest.raises(WrongState, match="starts from a volume"):
        snapshot(world, server)
