"""C-c02: a server is rebuilt on a full host, several times, and on one that is disabled.

The story (Launchpad nova 1732976, CVE-2017-17051, 1750618): each rebuild claims the server's
resources again, until the host or the project is full, or it is refused since the host is.

Right: it works each time, and the claim stays as it was; an image that the host does not suit is still
refused. What makes it so: a rebuild places nothing, and looks at what the image asks of its one host.
"""

from __future__ import annotations

from typing import Any

import pytest

from berthold.lab.furniture import add_image
from berthold.ledger import hosts, inventories
from berthold.moves import begin
from by_hand import MakeWorld, guest, holds, project, shown, used


def test_on_a_full_host_three_times_and_on_a_disabled_one(make_world: MakeWorld) -> None:
    world = make_world(node1=1)
    one = world.boot("one", world.group("anti-affinity"), image_id=add_image(world))
    before = {table: world.rows(table) for table in ("claim", "seat")}
    paid = project(world)
    for number in range(4):
        if number == 3:
            world.store.write_now(hosts.set_disabled, world.host_id("node1"), True)
        wish = {"image_id": f"image {number}", "name": f"one-{number}"}
        world.store.write_now(begin.begin, "rebuild", one, world.by(), wish)
        assert shown(world, one) == ("REBUILD", "rebuilding")
        world.settle()
        assert (shown(world, one), guest(world, "node1", one)) == (("ACTIVE", None), ("running", 1))
        place = world.ground.place("node1", one)
        assert place is not None
        assert place.guest.image == f"image {number}"
        assert (world.server(one)["image_id"], world.server(one)["name"]) == (
            f"image {number}",
            f"one-{number}",
        )
    assert {table: world.rows(table) for table in ("claim", "seat")} == before
    assert (project(world), used(world, "node1"), holds(world, one)) == (paid, 1, {"node1": "home"})


@pytest.mark.parametrize("word", ["required", "forbidden"])
def test_an_image_that_its_host_does_not_suit_is_refused(cloud: Any, fault: Any, word: str) -> None:
    cloud.host()
    cloud.flavor("d", disk=1)
    server = cloud.server(flavorRef="d", imageRef=cloud.image(), block_device_mapping_v2=[])
    has = "CUSTOM_HARDENED"
    if word == "forbidden":
        cloud.store.write_now(inventories.set_traits, cloud.world.host_id("node1"), [has])
    before = cloud.world.picture()
    picky = cloud.image(properties={f"trait:{has}": word})
    assert has in fault(cloud.act(server, "rebuild", {"imageRef": picky}, "ann"), 409)
    after = cloud.world.picture()
    assert {**after, "snapshots": None} == {**before, "snapshots": None}
    cloud.store.write_now(
        inventories.set_traits, cloud.world.host_id("node1"), [has] if word == "required" else []
    )
    assert cloud.act(server, "rebuild", {"imageRef": picky}, "ann").status == 202
    cloud.world.settle()
    assert cloud.shown(server)["image"]["id"] == picky
