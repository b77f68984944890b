"""C-d07: a move to a host that is not there, or to where the server is.

The stories (Launchpad nova 1785031, 1643623 and 1271821): an unknown host was a 500 or was found out
by the move, which left the server migrating or in ERROR; a server was sent to its own host.

Right: 400 at once, and nothing is begun (404 for an evacuation to a host that is not there, as its
clients know it). What makes it so: the host is looked up in the transaction that would begin the move.
"""

from __future__ import annotations

from typing import Any

import pytest

from by_hand import lose


@pytest.mark.parametrize("host", ["nohost", "node1", "x" * 200])
def test_neither_move_is_begun(cloud: Any, fault: Any, host: str) -> None:
    cloud.host("node1")
    server = cloud.server()
    cloud.host("node2")
    before = cloud.world.picture()
    live = {"host": host, "block_migration": "auto"}
    for version in ("2.30", "2.33", "2.34", "2.96"):
        fault(cloud.act(server, "os-migrateLive", live, version=version), 400)
    fault(cloud.act(server, "migrate", {"host": host}, version="2.56"), 400)
    shown = cloud.shown(server)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    assert cloud.get("/os-migrations").json == {"migrations": []}
    assert cloud.world.picture() == before


@pytest.mark.parametrize(
    ("version", "force"), [("2.14", {}), ("2.29", {"force": False}), ("2.67", {"force": True}), ("2.96", {})]
)
def test_an_evacuation_is_not_begun_either(cloud: Any, fault: Any, version: str, force: Any) -> None:
    cloud.host("node1")
    server = cloud.server()
    cloud.host("node2")
    lose(cloud.world, "node1")
    before = cloud.world.picture()
    fault(cloud.act(server, "evacuate", {"host": "node1", **force}, version=version), 400)
    fault(cloud.act(server, "evacuate", {"host": "nohost", **force}, version=version), 404)
    assert cloud.shown(server)["OS-EXT-STS:task_state"] is None
    assert cloud.get("/os-migrations").json == {"migrations": []}
    assert cloud.world.picture() == before
    (service, *_) = cloud.get("/os-services", version="2.53").json["services"]
    assert service["forced_down"] is False
