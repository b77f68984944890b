"""C-d08: what a move may be told depends on the version.

The story (openstacksdk ed9cd8657 and 71067ce67; nova 2.68): clients sent `force` to versions that
had lost it, and left out `disk_over_commit` where it was required; a cloud that lets both pass hides
the mistake until the client meets another one.

Right: 400 wherever the version does not know a parameter, or misses one; nothing is begun then. Where
`force` is known it names the host and is no way round a rule (M8). What makes it so: each field of a body
stands with the versions that have it, and which need it.
"""

from __future__ import annotations

from typing import Any

import pytest

from by_hand import lose

LIVE = {"host": "node2", "block_migration": False}


@pytest.mark.parametrize(
    ("version", "more", "right"),
    [
        ("2.24", {"disk_over_commit": False}, True),
        ("2.24", {}, False),
        ("2.25", {}, True),
        ("2.25", {"disk_over_commit": False}, False),
        ("2.24", {"block_migration": "auto", "disk_over_commit": False}, False),
        ("2.25", {"block_migration": "auto"}, True),
        ("2.29", {"force": True}, False),
        ("2.30", {"force": True}, True),
        ("2.67", {"force": True}, True),
        ("2.67", {"force": True, "host": None}, False),
        ("2.68", {"force": True}, False),
        ("2.68", {}, True),
    ],
)
def test_a_live_migration(cloud: Any, fault: Any, version: str, more: Any, right: bool) -> None:
    cloud.host("node1")
    server = cloud.server()
    cloud.host("node2")
    answer = cloud.act(server, "os-migrateLive", {**LIVE, **more}, version=version)
    if right:
        assert answer.status == 202, answer.json
    else:
        fault(answer, 400)
    assert (cloud.shown(server)["status"] == "MIGRATING") is right
    cloud.world.settle()


@pytest.mark.parametrize(
    ("version", "wish", "right"),
    [
        ("2.13", {"host": "node2", "onSharedStorage": False}, True),
        ("2.13", {"host": "node2"}, False),
        ("2.14", {"host": "node2"}, True),
        ("2.14", {"host": "node2", "onSharedStorage": False}, False),
        ("2.28", {"host": "node2", "force": True}, False),
        ("2.29", {"host": "node2", "force": True}, True),
        ("2.29", {"force": True}, False),
        ("2.67", {"host": "node2", "force": True}, True),
        ("2.68", {"host": "node2", "force": True}, False),
        ("2.94", {"adminPass": "x"}, True),
        ("2.95", {"adminPass": "x"}, False),
    ],
)
def test_an_evacuation(cloud: Any, fault: Any, version: str, wish: Any, right: bool) -> None:
    cloud.host("node1")
    server = cloud.server()
    cloud.host("node2")
    lose(cloud.world, "node1")
    answer = cloud.act(server, "evacuate", wish, version=version)
    if right:
        assert answer.status == 200, answer.json
    else:
        fault(answer, 400)
    assert (cloud.shown(server)["status"] == "REBUILD") is right
    cloud.world.settle()


def test_force_is_no_way_round_a_rule(cloud: Any) -> None:
    """M8: the named host has a member of the group, so the server stays where it is."""
    for name in ("node1", "node2"):
        cloud.host(name)
    group = cloud.group("ann")
    one, two = (cloud.server(name, hints={"group": group}) for name in ("one", "two"))
    home, other = (cloud.shown(server)["OS-EXT-SRV-ATTR:host"] for server in (one, two))
    cloud.act(
        one, "os-migrateLive", {"host": other, "block_migration": "auto", "force": True}, version="2.30"
    )
    cloud.world.settle()
    assert cloud.shown(one)["OS-EXT-SRV-ATTR:host"] == home
    lose(cloud.world, home)
    cloud.act(one, "evacuate", {"host": other, "force": True}, version="2.29")
    cloud.world.settle()
    shown = cloud.shown(one)
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", home)
    told = [each["status"] for each in cloud.get("/os-migrations").json["migrations"]]
    assert told == ["error", "error"]
