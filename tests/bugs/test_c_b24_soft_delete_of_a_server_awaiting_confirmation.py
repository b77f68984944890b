"""C-b24: a server that waits for its owner's word on a resize is deleted, where deleted servers are kept.

The story (Launchpad nova 1712480): the server was stopped and marked, but what it had on the host that
it came from stayed, disk and claim; restored, it waited for a word that nobody could give any more.

Right: the delete is the word. What is left on the first host goes, the server is SOFT_DELETED on
the second with one claim, there, and a restore brings it back as if it had been confirmed. What makes
it so: the move that waits is carried on by a list that begins as a confirmation does, and ends as a
soft delete; of two words the first to hold the server's row is taken (M3).
"""

from __future__ import annotations

from typing import Any

import pytest

from berthold.lab.turns import now
from berthold.lab.world import with_settings
from berthold.moves import reclaim
from by_hand import holds, lose, step_until

KEPT = with_settings(reclaim_s=600.0)


@pytest.fixture
def waiting(cloud: Any) -> str:
    """A server that was resized from `node1` to `node2` and waits."""
    cloud.app = cloud.over_http(settings=KEPT)
    cloud.host("node1")
    server: str = cloud.server()
    cloud.host("node2")
    cloud.flavor("101", vcpus=2)
    assert cloud.act(server, "resize", {"flavorRef": "101"}, "ann").status == 202
    cloud.world.settle()
    assert cloud.shown(server)["status"] == "VERIFY_RESIZE"
    assert holds(cloud.world, server) == {"node1": "source", "node2": "home"}
    return server


def test_the_resize_is_confirmed_and_the_server_is_kept(cloud: Any, waiting: str, fault: Any) -> None:
    assert cloud.delete(f"/servers/{waiting}", "ann").status == 204
    shown = cloud.shown(waiting)
    assert (shown["status"], shown["OS-EXT-STS:vm_state"]) == ("VERIFY_RESIZE", "resized")
    fault(cloud.act(waiting, "revertResize", None, "ann"), 409)
    fault(cloud.act(waiting, "confirmResize", None, "ann"), 409)
    assert cloud.delete(f"/servers/{waiting}", "ann").status == 204
    cloud.world.settle()
    shown = cloud.shown(waiting)
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("SOFT_DELETED", "node2")
    assert holds(cloud.world, waiting) == {"node2": "home"}
    assert cloud.world.ground.place("node1", waiting) is None
    (migration,) = cloud.get("/os-migrations").json["migrations"]
    assert migration["status"] == "confirmed"
    actions = cloud.get(f"/servers/{waiting}/os-instance-actions", "ann").json["instanceActions"]
    assert [action["action"] for action in actions] == ["delete", "resize", "create"]


def test_a_restore_works(cloud: Any, waiting: str) -> None:
    cloud.delete(f"/servers/{waiting}", "ann")
    cloud.world.settle()
    assert cloud.act(waiting, "restore", None, "ann").status == 202
    cloud.world.settle()
    shown = cloud.shown(waiting)
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "node2")
    assert shown["flavor"]["original_name"] == "flavor-101"
    assert cloud.world.ground.runners(waiting) == ["node2"]


def test_its_time_runs_from_when_it_was_stopped(cloud: Any, waiting: str) -> None:
    cloud.delete(f"/servers/{waiting}", "ann")
    cloud.clock.advance(1000)
    cloud.world.hear()
    assert now(reclaim.end_overdue(cloud.store, KEPT)) == []
    cloud.world.settle()
    assert now(reclaim.end_overdue(cloud.store, KEPT)) == []
    cloud.clock.advance(601)
    cloud.world.hear()
    assert len(now(reclaim.end_overdue(cloud.store, KEPT))) == 1
    cloud.world.settle()
    assert holds(cloud.world, waiting) == {}


def test_the_first_host_fails_meanwhile(cloud: Any, waiting: str) -> None:
    cloud.delete(f"/servers/{waiting}", "ann")
    (move,) = cloud.world.unfinished()
    step_until(cloud.world, move, "discard source", obey=False)
    lose(cloud.world, "node1")
    cloud.put(f"/os-services/{cloud.world.host_id('node1')}", {"forced_down": True}, version="2.53")
    cloud.world.settle()
    assert cloud.shown(waiting)["status"] == "SOFT_DELETED"
    assert holds(cloud.world, waiting) == {"node1": "left", "node2": "home"}
