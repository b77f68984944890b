"""Evacuation as operators ask for it, in every version; and hosts that will never return."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from berthold.lab.world import with_settings
from berthold.ledger import hosts
from by_hand import lose

BEFORE_2_14 = {"onSharedStorage": "False"}


@pytest.fixture
def orphan(cloud: Any) -> str:
    """A server whose host has failed; two others would take it."""
    cloud.host("node1")
    server: str = cloud.server()
    cloud.host("node2")
    cloud.host("node3")
    lose(cloud.world, "node1")
    return server


def force_up(cloud: Any, host: str) -> Any:
    return cloud.put(f"/os-services/{host}", {"forced_down": False}, version="2.53")


def test_no_host_is_dead_because_a_process_has_just_begun_to_listen(cloud: Any, orphan: str) -> None:
    """When the control plane returns, nobody was heard for a while: hosts that live must not be fenced."""
    cloud.app = cloud.over_http()
    said = cloud.act(orphan, "evacuate", {}, version="2.95")
    assert (said.status, "is still in use" in str(said.json)) == (400, True)
    cloud.world.pass_time(cloud.world.settings.silent_after_s + 1)
    assert cloud.act(orphan, "evacuate", {}, version="2.95").status == 200
    cloud.world.settle()


def test_no_host_is_dead_because_the_database_was_away(cloud: Any, orphan: str) -> None:
    """Then no heartbeat could be written, of any host."""
    cloud.world.clock.advance(cloud.world.settings.silent_after_s + 1)
    said = cloud.act(orphan, "evacuate", {}, version="2.95")
    assert (said.status, "none was heard" in str(said.json)) == (400, True)
    cloud.world.hear()
    assert cloud.act(orphan, "evacuate", {}, version="2.95").status == 200
    cloud.world.settle()


@pytest.mark.parametrize(
    ("version", "wish", "answer", "status"),
    [
        ("2.1", {**BEFORE_2_14, "adminPass": "MySecretPass"}, {"adminPass": "MySecretPass"}, "ACTIVE"),
        ("2.1", {**BEFORE_2_14, "host": "node2"}, None, "ACTIVE"),
        ("2.13", {"onSharedStorage": True}, {"adminPass": None}, "ACTIVE"),
        ("2.14", {"adminPass": "MySecretPass"}, None, "ACTIVE"),
        ("2.14", {"host": "node2"}, None, "ACTIVE"),
        ("2.29", {"host": "node2", "force": False}, None, "ACTIVE"),
        ("2.67", {"host": "node2", "force": True}, None, "ACTIVE"),
        ("2.68", {}, None, "ACTIVE"),
        ("2.94", {"adminPass": "x", "host": "node2"}, None, "ACTIVE"),
        ("2.95", {}, None, "SHUTOFF"),
        ("2.96", {"host": "node2"}, None, "SHUTOFF"),
    ],
)
def test_each_version_has_its_form(
    cloud: Any, orphan: str, version: str, wish: Any, answer: Any, status: str
) -> None:
    said = cloud.act(orphan, "evacuate", wish, version=version)
    assert said.status == 200, said.json
    if answer is None and version == "2.1":
        assert len(said.json["adminPass"]) == 12
    else:
        assert said.json == answer
    shown = cloud.shown(orphan)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("REBUILD", "rebuilding")
    cloud.world.settle()
    shown = cloud.shown(orphan)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == (status, None)
    assert shown["OS-EXT-SRV-ATTR:host"] == wish.get("host", shown["OS-EXT-SRV-ATTR:host"]) != "node1"
    assert cloud.world.problems() == []


@pytest.mark.parametrize(
    ("version", "wish"),
    [
        ("2.1", {}),
        ("2.13", {"host": "node2"}),
        ("2.13", {"onSharedStorage": True, "adminPass": "x"}),
        ("2.13", {"onSharedStorage": "perhaps"}),
        ("2.14", BEFORE_2_14),
        ("2.28", {"host": "node2", "force": True}),
        ("2.29", {"force": True}),
        ("2.29", {"host": "node2", "force": "perhaps"}),
        ("2.68", {"host": "node2", "force": True}),
        ("2.95", {"adminPass": "x"}),
        ("2.96", None),
        ("2.96", []),
        ("2.96", {"host": None}),
        ("2.96", {"host": ""}),
        ("2.96", {"host": "x" * 256}),
        ("2.96", {"host": "node2", "colour": "red"}),
        ("2.96", {"host": "node1"}),
    ],
)
def test_what_is_of_no_version_is_400_and_nothing_is_begun(
    cloud: Any, fault: Any, orphan: str, version: str, wish: Any
) -> None:
    fault(cloud.act(orphan, "evacuate", wish, version=version), 400)
    assert cloud.shown(orphan)["status"] == "ACTIVE"
    assert cloud.get("/os-migrations").json == {"migrations": []}
    (service, *_) = cloud.get("/os-services", version="2.96").json["services"]
    assert service["forced_down"] is False


def test_a_host_that_nobody_knows_is_404(cloud: Any, fault: Any, orphan: str) -> None:
    fault(cloud.act(orphan, "evacuate", {"host": "node9"}), 404)
    fault(cloud.act("00000000-0000-4000-8000-000000000000", "evacuate", {}), 404)


def test_a_host_that_lives_keeps_its_servers_until_it_is_forced_down(cloud: Any, fault: Any) -> None:
    node1 = cloud.host("node1")
    server = cloud.server()
    cloud.host("node2")
    assert "still in use" in fault(cloud.act(server, "evacuate", {}), 400)
    cloud.put(f"/os-services/{node1}", {"status": "disabled"}, version="2.53")
    assert "still in use" in fault(cloud.act(server, "evacuate", {}), 400)
    cloud.put(f"/os-services/{node1}", {"forced_down": True}, version="2.53")
    cloud.world.silent.add("node1")
    assert cloud.act(server, "evacuate", {}).status == 200
    assert "Cannot 'evacuate'" in fault(cloud.act(server, "evacuate", {}), 409)
    assert "being evacuated" in fault(force_up(cloud, node1), 400)


def test_the_log_says_once_which_host_an_evacuation_has_fenced(cloud: Any) -> None:
    cloud.host("node1")
    one, two = cloud.server("one"), cloud.server("two")
    cloud.host("node2")
    lose(cloud.world, "node1")
    with capture_logs() as lines:
        assert cloud.act(one, "evacuate", {}, "ann").status == 403
        answer = cloud.act(one, "evacuate", {})
        assert (answer.status, cloud.act(two, "evacuate", {}).status) == (200, 200)
    (told,) = [line for line in lines if line["event"] == "host fenced"]
    assert (told["host"], told["server"]) == ("node1", one)
    assert told["request"] == answer.headers["x-openstack-request-id"]
    cloud.world.settle()


def test_only_admins_evacuate(cloud: Any, fault: Any, orphan: str) -> None:
    for who in ("rita", "ann", "mel"):
        assert "os-evacuate" in fault(cloud.act(orphan, "evacuate", {}, who), 403)


def test_a_server_on_its_way_to_its_owner_s_word_is_409(cloud: Any, fault: Any) -> None:
    for name in ("node1", "node2"):
        cloud.host(name)
    server = cloud.server()
    cloud.act(server, "migrate")
    cloud.world.settle()
    lose(cloud.world, cloud.shown(server)["OS-EXT-SRV-ATTR:host"])
    fault(cloud.act(server, "evacuate", {}), 409)


def test_migrations_and_actions_tell_of_it(cloud: Any, orphan: str) -> None:
    request = cloud.act(orphan, "evacuate", {}).headers["x-openstack-request-id"]
    (moving,) = cloud.get("/os-migrations?migration_type=evacuation", version="2.80").json["migrations"]
    assert (moving["status"], moving["source_compute"]) == ("accepted", "node1")
    cloud.world.settle()
    (moved,) = cloud.get("/os-migrations", version="2.80").json["migrations"]
    assert (moved["status"], moved["migration_type"]) == ("done", "evacuation")
    assert moved["dest_compute"] == cloud.shown(orphan)["OS-EXT-SRV-ATTR:host"]
    (action, _) = cloud.get(f"/servers/{orphan}/os-instance-actions").json["instanceActions"]
    assert (action["action"], action["message"]) == ("evacuate", None)
    path = f"/servers/{orphan}/os-instance-actions/{request}"
    told = [event["event"] for event in cloud.get(path).json["instanceAction"]["events"]]
    assert told == ["compute_rebuild_instance", "rebuild_server"]


def test_with_no_host_left_the_server_is_what_it_was_and_may_be_evacuated_again(cloud: Any) -> None:
    cloud.host("node1")
    server = cloud.server()
    lose(cloud.world, "node1")
    cloud.world.store.write_now(hosts.fence, cloud.world.host_id("node1"))
    assert cloud.act(server, "evacuate", {}, version="2.68").status == 200
    cloud.world.settle()
    shown = cloud.shown(server)
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "node1")
    (failed,) = cloud.get("/os-migrations").json["migrations"]
    assert failed["status"] == "error"
    cloud.host("node2")
    assert cloud.act(server, "evacuate", {}, version="2.68").status == 200
    cloud.world.settle()
    shown = cloud.shown(server)
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "node2")


def test_a_host_that_will_never_return_is_forgotten_with_what_it_left(
    cloud: Any, fault: Any, orphan: str
) -> None:
    node1 = cloud.world.host_id("node1")
    assert "still has servers" in fault(cloud.delete(f"/os-services/{node1}", version="2.53"), 409)
    cloud.act(orphan, "evacuate", {})
    assert fault(cloud.delete(f"/os-services/{node1}", version="2.53"), 409)
    cloud.world.settle()
    assert "not yet removed" in fault(force_up(cloud, node1), 400)
    assert cloud.delete(f"/os-services/{node1}", version="2.53").status == 204
    (moved,) = cloud.get("/os-migrations").json["migrations"]
    assert moved["status"] == "completed"
    del cloud.world.agents["node1"]  # the machine is scrap
    assert cloud.world.problems() == []


def test_how_long_a_host_is_silent_before_it_is_dead_is_the_operator_s(cloud: Any, orphan: str) -> None:
    cloud.app = cloud.over_http(settings=with_settings(silent_after_s=3600.0))
    assert cloud.act(orphan, "evacuate", {}).status == 400
