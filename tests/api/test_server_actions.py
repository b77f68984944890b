"""Server actions, and what migrations and instance actions tell of them."""

from __future__ import annotations

from typing import Any

import pytest

LIVE = {
    "2.1": {"host": None, "block_migration": False, "disk_over_commit": False},
    "2.24": {"host": None, "block_migration": "true", "disk_over_commit": "False"},
    "2.25": {"host": None, "block_migration": "auto"},
    "2.30": {"host": None, "block_migration": "auto"},
    "2.67": {"host": None, "block_migration": True, "force": False},
    "2.68": {"host": None, "block_migration": "auto"},
}


@pytest.fixture
def wide(cloud: Any) -> Any:
    """Three hosts."""
    for name in ("node1", "node2", "node3"):
        cloud.host(name)
    return cloud


@pytest.mark.parametrize("version", LIVE)
def test_a_server_is_live_migrated(wide: Any, version: str) -> None:
    server = wide.server()
    home = wide.shown(server)["OS-EXT-SRV-ATTR:host"]
    assert wide.act(server, "os-migrateLive", LIVE[version], version=version).status == 202
    shown = wide.shown(server)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("MIGRATING", "migrating")
    wide.world.settle()
    shown = wide.shown(server)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    assert shown["OS-EXT-SRV-ATTR:host"] != home


@pytest.mark.parametrize(
    ("version", "body"),
    [
        ("2.1", {"host": None, "block_migration": False}),
        ("2.1", {"host": None, "block_migration": "auto", "disk_over_commit": False}),
        ("2.25", {"host": None, "block_migration": "auto", "disk_over_commit": False}),
        ("2.29", {"host": None, "block_migration": "auto", "force": True}),
        ("2.68", {"host": None, "block_migration": "auto", "force": True}),
        ("2.68", {"host": None}),
        ("2.68", {"block_migration": "auto"}),
        ("2.68", {"host": 7, "block_migration": "auto"}),
        ("2.68", {"host": "node9", "block_migration": "auto"}),
        ("2.68", {"host": None, "block_migration": "perhaps"}),
        ("2.68", None),
        ("2.68", []),
    ],
)
def test_a_live_migration_of_the_wrong_shape_is_400(wide: Any, fault: Any, version: str, body: Any) -> None:
    server = wide.server()
    fault(wide.act(server, "os-migrateLive", body, version=version), 400)
    assert wide.shown(server)["status"] == "ACTIVE"
    assert wide.get("/os-migrations").json == {"migrations": []}


def test_a_named_host_is_for_admins(wide: Any, fault: Any) -> None:
    server = wide.server(who="ann", networks="none")
    home = wide.shown(server)["OS-EXT-SRV-ATTR:host"]
    other = "node2" if home != "node2" else "node3"
    wish = {"host": other, "block_migration": "auto"}
    fault(wide.act(server, "os-migrateLive", wish, "ann"), 403)
    assert "migrate_live:host" in fault(wide.act(server, "os-migrateLive", wish, "mel"), 403)
    assert "migrate:host" in fault(wide.act(server, "migrate", {"host": other}, "mel"), 403)
    assert wide.act(server, "os-migrateLive", wish).status == 202
    wide.world.settle()
    assert wide.shown(server)["OS-EXT-SRV-ATTR:host"] == other
    assert wide.act(server, "os-migrateLive", {"host": None, "block_migration": "auto"}, "mel").status == 202


def test_a_cold_migration_waits_for_its_owner_s_word(wide: Any, fault: Any) -> None:
    server = wide.server()
    wide.flavor("101")
    home = wide.shown(server)["OS-EXT-SRV-ATTR:host"]
    assert wide.act(server, "migrate", version="2.1").status == 202
    assert wide.shown(server)["status"] == "RESIZE"
    assert "Cannot 'resize'" in fault(_resize(wide, server), 409)
    wide.world.settle()
    shown = wide.shown(server)
    assert (shown["status"], shown["OS-EXT-STS:vm_state"]) == ("VERIFY_RESIZE", "resized")
    assert wide.act(server, "revertResize", None, "ann").status == 202
    assert wide.shown(server)["status"] == "REVERT_RESIZE"
    wide.world.settle()
    shown = wide.shown(server)
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", home)
    assert "Cannot 'confirmResize'" in fault(wide.act(server, "confirmResize", {}, "ann"), 409)
    assert "Cannot 'revertResize'" in fault(wide.act(server, "revertResize", {}, "ann"), 409)
    assert wide.act(server, "migrate", {"host": None}, version="2.56").status == 202
    fault(wide.act(server, "migrate", {"host": None}, version="2.55"), 400)


def _resize(cloud: Any, server: str, flavor: str = "101", who: str = "ann") -> Any:
    return cloud.act(server, "resize", {"flavorRef": flavor}, who)


def test_a_resize_is_confirmed_with_the_new_flavor(wide: Any, fault: Any) -> None:
    server = wide.server()
    wide.flavor("101", ram=2048, vcpus=2)
    assert "must change flavor" in fault(_resize(wide, server, "100"), 400)
    assert "could not be found" in fault(_resize(wide, server, "999"), 400)
    fault(wide.act(server, "resize", {}, "ann"), 400)
    fault(wide.act(server, "resize", {"flavorRef": None}, "ann"), 400)
    assert _resize(wide, server).status == 202
    assert wide.shown(server)["flavor"]["original_name"] == "flavor-100"
    wide.world.settle()
    assert wide.shown(server)["flavor"]["original_name"] == "flavor-101"
    assert wide.act(server, "confirmResize", None, "ann").status == 204
    wide.world.settle()
    assert wide.shown(server)["status"] == "ACTIVE"
    (migration,) = wide.get("/os-migrations", version="2.80").json["migrations"]
    assert (migration["migration_type"], migration["status"]) == ("resize", "confirmed")
    assert (migration["old_instance_type_id"], migration["new_instance_type_id"]) == (1, 2)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"migrate": None, "resize": {}},
        {"dance": None},
        {"confirmResize": "x"},
        {"revertResize": {"a": 1}},
    ],
)
def test_what_is_no_action_is_400(wide: Any, fault: Any, body: Any) -> None:
    server = wide.server()
    message = fault(wide.post(f"/servers/{server}/action", body), 400)
    if "dance" in body:
        assert "dance" in message


def test_roles_decide_over_actions(wide: Any, fault: Any) -> None:
    server = wide.server()
    wide.flavor("101")
    for who in ("rita", "ann"):
        assert "migrate" in fault(wide.act(server, "migrate", None, who), 403)
    fault(_resize(wide, server, who="rita"), 403)
    fault(wide.act(server, "confirmResize", None, "rita"), 403)
    assert wide.act(server, "migrate", None, "mel").status == 202


MIGRATION = {
    "created_at",
    "dest_compute",
    "dest_host",
    "dest_node",
    "id",
    "instance_uuid",
    "new_instance_type_id",
    "old_instance_type_id",
    "source_compute",
    "source_node",
    "status",
    "updated_at",
}


@pytest.mark.parametrize(
    ("version", "more"),
    [
        ("2.1", set()),
        ("2.22", set()),
        ("2.23", {"migration_type"}),
        ("2.58", {"migration_type"}),
        ("2.59", {"migration_type", "uuid"}),
        ("2.80", {"migration_type", "uuid", "user_id", "project_id"}),
        ("2.96", {"migration_type", "uuid", "user_id", "project_id"}),
    ],
)
def test_a_migration_has_the_fields_of_its_version(wide: Any, version: str, more: set[str]) -> None:
    server = wide.server()
    wide.act(server, "os-migrateLive", LIVE["2.68"])
    (moving,) = wide.get("/os-migrations", version=version).json["migrations"]
    links = {"links"} if more else set()
    assert set(moving) == MIGRATION | more | links
    wide.world.settle()
    (done,) = wide.get("/os-migrations", version=version).json["migrations"]
    assert set(done) == MIGRATION | more
    assert done["status"] == "completed"
    assert {done["source_compute"], done["dest_compute"]} <= {"node1", "node2", "node3"}


def test_live_migrations_in_progress_are_under_their_server(wide: Any, fault: Any) -> None:
    server = wide.server()
    path = f"/servers/{server}/migrations"
    assert wide.get(path, version="2.80").json == {"migrations": []}
    fault(wide.get(path, version="2.22"), 404)
    fault(wide.get(path, "ann", "2.80"), 403)
    wide.act(server, "os-migrateLive", LIVE["2.68"])
    sizes = {f"{w}_{p}_bytes" for w in ("memory", "disk") for p in ("total", "processed", "remaining")}
    base = MIGRATION - {"instance_uuid", "new_instance_type_id", "old_instance_type_id"} | {"server_uuid"}
    for version, more in (("2.23", set()), ("2.59", {"uuid"}), ("2.80", {"uuid", "user_id", "project_id"})):
        (shown,) = wide.get(path, version=version).json["migrations"]
        assert set(shown) == base | sizes | more
        assert wide.get(f"{path}/{shown['id']}", version=version).json == {"migration": shown}
    fault(wide.get(f"{path}/99", version="2.80"), 404)
    fault(wide.get(f"/servers/1/migrations/{server}", version="2.80"), 404)
    wide.world.settle()
    assert wide.get(path, version="2.80").json == {"migrations": []}


def test_migrations_are_filtered_and_paged(wide: Any, fault: Any) -> None:
    one, two = wide.server("one"), wide.server("two")
    wide.act(one, "os-migrateLive", LIVE["2.68"])
    wide.world.settle()
    wide.act(two, "migrate")
    wide.world.settle()

    def found(query: str, version: str = "2.80", who: str = "admin") -> list[str]:
        answer = wide.get(f"/os-migrations?{query}", who, version)
        assert answer.status == 200, answer.json
        return [migration["instance_uuid"] for migration in answer.json["migrations"]]

    assert found("") == [two, one]
    assert found(f"instance_uuid={one}") == [one]
    assert found("migration_type=migration") == [two]
    assert found("status=completed") == [one]
    assert found("status=finished") == [two]
    assert found("host=node9") == []
    assert sorted(found("host=node1") + found("host=node2") + found("host=node3")) == sorted([one, two] * 2)
    assert found("source_compute=node9") == []
    assert found("user_id=admin-id") == [two, one]
    assert found("project_id=nobody") == []
    assert found("changes-since=2001-01-01T00:00:00Z") == [two, one]
    assert found("changes-before=2001-01-01T00:00:00Z") == []
    assert found("hidden=0") == [two, one]
    page = wide.get("/os-migrations?limit=1", version="2.59").json
    assert [m["instance_uuid"] for m in page["migrations"]] == [two]
    following = page["migrations_links"][0]["href"].removeprefix("http://cloud/v2.1")
    assert [m["instance_uuid"] for m in wide.get(following, version="2.59").json["migrations"]] == [one]
    assert found("limit=1&marker=x", "2.58") == [two, one]  # unknown and ignored, before pages came
    fault(wide.get("/os-migrations?user_id=x", version="2.79"), 400)
    fault(wide.get("/os-migrations?changes-before=2001-01-01", version="2.65"), 400)
    fault(wide.get("/os-migrations?marker=nobody", version="2.59"), 400)
    assert found("", who="mel") == [two, one]
    shown = wide.get("/os-migrations", "mel", "2.80").json["migrations"][0]
    assert shown["source_compute"] is shown["dest_host"] is None
    fault(wide.get("/os-migrations", "ann"), 403)


ACTION = {"action", "instance_uuid", "message", "project_id", "request_id", "start_time", "user_id"}
EVENT = {"event", "finish_time", "result", "start_time"}


def test_a_failed_migration_tells_operators_why_and_owners_that(cloud: Any) -> None:
    cloud.host("node1")
    server = cloud.server()
    answer = cloud.act(server, "os-migrateLive", LIVE["2.68"])
    request_id = answer.headers["x-openstack-request-id"]
    cloud.world.settle()
    assert cloud.shown(server)["status"] == "ACTIVE"
    path = f"/servers/{server}/os-instance-actions"
    listed = cloud.get(path, "ann", "2.84").json["instanceActions"]
    assert [action["action"] for action in listed] == ["live-migration", "create"]
    assert set(listed[0]) == ACTION | {"updated_at"}
    assert set(cloud.get(path, "ann", "2.57").json["instanceActions"][0]) == ACTION
    assert (listed[0]["message"], listed[0]["request_id"]) == ("Error", request_id)

    def events(who: str, version: str) -> list[dict[str, Any]] | None:
        shown = cloud.get(f"{path}/{request_id}", who, version).json["instanceAction"]
        found: list[dict[str, Any]] | None = shown.get("events")
        return found

    for version, more, admins in (
        ("2.51", set(), {"traceback"}),
        ("2.62", {"hostId"}, {"traceback", "host"}),
        ("2.84", {"hostId"}, {"traceback", "host", "details"}),
    ):
        (own,) = events("ann", version) or []
        assert set(own) == EVENT | more, version
        (seen,) = events("admin", version) or []
        assert set(seen) == EVENT | more | admins, version
    assert events("ann", "2.50") is None
    (seen,) = events("admin", "2.1") or []
    assert set(seen) == EVENT | {"traceback"}
    (seen,) = events("admin", "2.84") or []
    assert (seen["event"], seen["result"]) == ("conductor_live_migrate_instance", "Error")
    assert "node1" in seen["traceback"]


def test_the_line_that_is_being_done_is_an_event_without_a_result(wide: Any) -> None:
    server = wide.server()
    answer = wide.act(server, "os-migrateLive", LIVE["2.68"])
    path = f"/servers/{server}/os-instance-actions/{answer.headers['x-openstack-request-id']}"
    (event,) = wide.get(path, version="2.84").json["instanceAction"]["events"]
    assert (event["event"], event["result"]) == ("conductor_live_migrate_instance", None)
    assert event["finish_time"] is None


def test_actions_of_a_deleted_server_are_told_from_2_21_on(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server()
    cloud.delete(f"/servers/{server}", "ann")
    cloud.world.settle()
    path = f"/servers/{server}/os-instance-actions"
    fault(cloud.get(path, "ann", "2.20"), 404)
    assert [a["action"] for a in cloud.get(path, "ann", "2.21").json["instanceActions"]] == [
        "delete",
        "create",
    ]
    fault(cloud.get(path, "bob", "2.21"), 404)
    page = cloud.get(f"{path}?limit=1", "ann", "2.58").json
    assert [a["action"] for a in page["instanceActions"]] == ["delete"]
    following = page["links"][0]["href"].removeprefix("http://cloud/v2.1")
    rest = cloud.get(following, "ann", "2.58").json
    assert [a["action"] for a in rest["instanceActions"]] == ["create"]
    fault(cloud.get(f"{path}?limit=1&colour=red", "ann", "2.58"), 400)
    fault(cloud.get(f"{path}/req-nobody", "ann", "2.58"), 404)
