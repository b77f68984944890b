"""C-c07: users can switch hosts off by failing on purpose.

The story (Launchpad nova 1742102): hosts were disabled after ten failed builds in a row. Whoever
creates ten servers from an image that cannot boot takes a host from everybody, and with some
patience all of them.

Right: the host stays enabled, and the next request of another user finds it as good as before.
What prevents it: a failed build is written down with its move and nowhere else; hosts are enabled
and disabled by operators, and a weight depends on no request that came before.
"""

from __future__ import annotations

from by_hand import MakeWorld, holds, host_status, preferred, project, shown, under_way, used


def test_ten_servers_that_cannot_boot(make_world: MakeWorld) -> None:
    world = make_world(node1=64, node2=4)
    before = world.rows("host")
    for host in ("node1", "node2"):
        world.faults_of[host].plan("refuse", verb="spawn", times=10, reason="no bootable device")
    bad = [world.boot(f"bad{number}") for number in range(10)]
    for server in bad:
        assert shown(world, server) == ("ERROR", None)
        assert world.claims(server) == []
        assert "no bootable device" in world.server(server)["fault"]["details"]
    for was, is_now in zip(before, world.rows("host"), strict=True):
        assert (is_now["disabled"], is_now["status"], is_now["epoch"]) == (False, "up", was["epoch"])
    assert used(world, "node1") == used(world, "node2") == 0

    good = world.create("good")
    assert preferred(world, under_way(world, good)) == ["node1", "node2"]
    world.settle()
    assert (shown(world, good), holds(world, good)) == (("ACTIVE", None), {"node1": "home"})


def test_moves_that_fail_again_and_again(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4)
    one = world.boot("one", host="node1")
    world.faults_of["node2"].plan("refuse", verb="prepare", times=20, reason="no such CPU model")
    for _ in range(20):
        world.live_migrate(one)
        world.settle()
        assert shown(world, one) == ("ACTIVE", None)
    assert host_status(world, "node2") == "up"
    assert project(world)["instances"] == 1
    world.live_migrate(one)
    world.settle()
    assert holds(world, one) == {"node2": "home"}
