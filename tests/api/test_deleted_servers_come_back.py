"""Soft delete, restore and what ends them, where an operator keeps deleted servers for a while."""

from __future__ import annotations

from typing import Any

import pytest

from berthold.lab.turns import now
from berthold.lab.world import with_settings
from berthold.moves import reclaim

KEPT = with_settings(reclaim_s=600.0)


@pytest.fixture
def keeping(cloud: Any) -> Any:
    """A cloud that keeps deleted servers for ten minutes."""
    cloud.host("node1")
    cloud.app = cloud.over_http(settings=KEPT)
    return cloud


def state(cloud: Any, server: str) -> tuple[Any, ...]:
    shown = cloud.shown(server)
    return shown["OS-EXT-STS:vm_state"], shown["OS-EXT-STS:task_state"], shown["status"]


def deleted(cloud: Any, **fields: Any) -> str:
    server: str = cloud.server(**fields)
    assert cloud.delete(f"/servers/{server}", "ann").status == 204
    cloud.world.settle()
    return server


def end(cloud: Any) -> list[str]:
    return now(reclaim.end_overdue(cloud.store, KEPT))


def test_a_deleted_server_is_stopped_and_kept(keeping: Any) -> None:
    server = keeping.server()
    assert keeping.delete(f"/servers/{server}", "ann").status == 204
    assert state(keeping, server) == ("active", "soft-deleting", "ACTIVE")
    assert keeping.delete(f"/servers/{server}", "ann").status == 204
    keeping.world.settle()
    assert state(keeping, server) == ("soft-delete", None, "SOFT_DELETED")
    assert keeping.shown(server)["OS-EXT-SRV-ATTR:host"] == "node1"
    assert keeping.world.ground.runners(server) == []
    assert keeping.delete(f"/servers/{server}", "ann").status == 204
    assert keeping.world.unfinished() == []
    actions = keeping.get(f"/servers/{server}/os-instance-actions", "ann").json["instanceActions"]
    assert [action["action"] for action in actions] == ["delete", "create"]


def test_it_comes_back(keeping: Any, fault: Any) -> None:
    server = deleted(keeping)
    wishes = {"reboot": {"type": "HARD"}, "createImage": {"name": "snap"}}
    for action in ("os-start", "reboot", "pause", "shelve", "suspend", "rescue", "createImage"):
        fault(keeping.act(server, action, wishes.get(action)), 409)
    fault(keeping.act(server, "restore", None, "rita"), 403)
    fault(keeping.act(server, "restore", None, "bob"), 404)
    fault(keeping.act(server, "restore", "now"), 400)
    assert keeping.act(server, "restore", None, "ann").status == 202
    assert state(keeping, server)[1] == "restoring"
    keeping.world.settle()
    assert state(keeping, server) == ("active", None, "ACTIVE")
    assert "Cannot 'restore'" in fault(keeping.act(server, "restore", None, "ann"), 409)
    keeping.clock.advance(1000)
    assert end(keeping) == []


def test_lists_leave_it_out_unless_they_are_asked(keeping: Any) -> None:
    server = deleted(keeping)
    other = keeping.server("other")

    def found(query: str, who: str = "ann") -> list[str]:
        shown = keeping.get(f"/servers?{query}", who, "2.96").json["servers"]
        return [each["id"] for each in shown]

    assert found("") == [other]
    assert found("name=ins1") == []
    assert found("status=SOFT_DELETED") == [server]
    assert found("vm_state=soft-delete") == [server]
    assert found("soft_deleted=1") == [other]
    assert found("soft_deleted=1&all_tenants=1", "admin") == [other, server]
    assert found("changes-since=2001-01-01T00:00:00Z") == [other, server]
    assert found("deleted=1") == [other]  # whoever may not ask for it is not heard
    assert found("deleted=1&all_tenants=1", "admin") == [server]
    gone = keeping.server("gone")
    keeping.act(gone, "forceDelete")
    keeping.world.settle()
    assert found("deleted=1&all_tenants=1", "admin") == [gone, server]
    assert found("status=DELETED&all_tenants=1", "admin") == [gone]


def test_it_is_deleted_for_good_when_its_time_is_over(keeping: Any, fault: Any) -> None:
    server = deleted(keeping)
    keeping.clock.advance(590)
    assert end(keeping) == []
    keeping.put(f"/servers/{server}/metadata", {"metadata": {"a": "b"}})  # a change makes it no younger
    keeping.clock.advance(20)
    assert len(end(keeping)) == 1
    assert "Cannot 'restore'" in fault(keeping.act(server, "restore", None, "ann"), 409)
    keeping.world.settle()
    fault(keeping.get(f"/servers/{server}"), 404)
    assert keeping.world.claims(server) == []
    assert end(keeping) == []


def test_force_delete_does_not_wait(keeping: Any, fault: Any) -> None:
    server = deleted(keeping)
    assert keeping.act(server, "forceDelete", None, "ann").status == 202
    keeping.world.settle()
    fault(keeping.get(f"/servers/{server}"), 404)


def test_of_a_restore_and_the_end_whoever_comes_first_wins(keeping: Any, fault: Any) -> None:
    server = deleted(keeping)
    keeping.clock.advance(601)
    (term,) = reclaim.terms(KEPT)
    assert keeping.store.read_now(reclaim.overdue, term) == [server]
    assert keeping.act(server, "restore", None, "ann").status == 202
    assert keeping.store.write_now(reclaim.end, term, server) is None
    keeping.world.settle()
    assert keeping.store.write_now(reclaim.end, term, server) is None
    assert state(keeping, server)[2] == "ACTIVE"


@pytest.mark.parametrize("action", ["os-stop", "pause", "suspend"])
def test_whatever_a_server_was_it_can_be_kept(keeping: Any, action: str) -> None:
    server = keeping.server()
    keeping.act(server, action, None, "ann")
    keeping.world.settle()
    assert keeping.delete(f"/servers/{server}", "ann").status == 204
    keeping.world.settle()
    assert state(keeping, server)[2] == "SOFT_DELETED"


def test_what_was_never_built_or_is_on_no_host_is_deleted_at_once(keeping: Any, fault: Any) -> None:
    shelved = keeping.server("shelved")
    keeping.act(shelved, "shelve")
    keeping.world.settle()
    building = keeping.server("building", settle=False)
    for server in (building, shelved):
        assert keeping.delete(f"/servers/{server}", "ann").status == 204
    keeping.world.settle()
    for server in (building, shelved):
        fault(keeping.get(f"/servers/{server}"), 404)


def test_what_cannot_be_kept_as_it_is_now_is_409_and_says_what_would_do(keeping: Any, fault: Any) -> None:
    keeping.host("node2")
    server = keeping.server()
    keeping.act(server, "os-migrateLive", {"host": None, "block_migration": "auto"})
    assert "forceDelete" in fault(keeping.delete(f"/servers/{server}", "ann"), 409)
    keeping.world.settle()
    assert state(keeping, server)[2] == "ACTIVE"


def test_a_shelved_server_gives_its_host_back_when_that_is_due(cloud: Any) -> None:
    cloud.host()
    later = with_settings(shelved_offload_s=60.0)
    cloud.app = cloud.over_http(settings=later)
    cloud.flavor("200", disk=1)
    server = cloud.server(flavorRef="200", imageRef=cloud.image(), block_device_mapping_v2=[])
    cloud.act(server, "shelve")
    cloud.world.settle()
    assert state(cloud, server)[2] == "SHELVED"
    assert now(reclaim.end_overdue(cloud.store, later)) == []
    cloud.clock.advance(61)
    assert len(now(reclaim.end_overdue(cloud.store, later))) == 1
    cloud.world.settle()
    assert state(cloud, server)[2] == "SHELVED_OFFLOADED"
