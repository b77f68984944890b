"""Quota sets as operators change them, limits of others, and usage."""

from __future__ import annotations

from typing import Any

import pytest

ANNS, BOBS = "a" * 32, "b" * 32
QUOTA = {"instances", "cores", "ram", "key_pairs", "metadata_items", "server_groups", "server_group_members"}
GROUPS = {"server_groups", "server_group_members"}
FILES = {"injected_files", "injected_file_content_bytes", "injected_file_path_bytes"}
NETWORKS = {"fixed_ips", "floating_ips", "security_groups", "security_group_rules"}
EXACT = {
    "2.1": QUOTA | FILES | NETWORKS,
    "2.35": QUOTA | FILES | NETWORKS,
    "2.36": QUOTA | FILES,
    "2.57": QUOTA,
}


def test_an_operator_sets_limits_and_takes_them_back(cloud: Any, fault: Any) -> None:
    path = f"/os-quota-sets/{ANNS}"
    for version, fields in EXACT.items():
        changed = cloud.put(path, {"quota_set": {"instances": 5, "ram": -1}}, version=version)
        assert changed.status == 200
        assert set(changed.json["quota_set"]) == fields, version
        assert set(cloud.get(path, "ann", version).json["quota_set"]) == fields | {"id"}
        assert set(cloud.get(f"{path}/defaults", "ann", version).json["quota_set"]) == fields | {"id"}
        assert set(cloud.get(f"{path}/detail", "ann", version).json["quota_set"]) == fields | {"id"}
    shown = cloud.get(path, "ann").json["quota_set"]
    assert (shown["id"], shown["instances"], shown["ram"], shown["cores"]) == (ANNS, 5, -1, 4000)
    absolute = cloud.get(f"/limits?tenant_id={ANNS}").json["limits"]["absolute"]
    assert (absolute["maxTotalInstances"], absolute["maxTotalRAMSize"]) == (5, -1)
    assert cloud.get("/limits", "bob").json["limits"]["absolute"]["maxTotalInstances"] == 1000
    fault(cloud.get(f"/limits?tenant_id={ANNS}", "bob"), 403)
    fault(cloud.get(path, "bob"), 403)
    fault(cloud.put(path, {"quota_set": {"instances": 5}}, "ann"), 403)
    fault(cloud.delete(path, "ann"), 403)
    assert cloud.delete(path).status == 202
    assert cloud.get(path, "ann").json["quota_set"]["instances"] == 1000


@pytest.mark.parametrize(
    "wrong",
    [
        {"instances": -2},
        {"instances": 2**31},
        {"instances": "many"},
        {"instances": None, "pets": 1},
        {"key_pairs": 5},
        {"fixed_ips": 5},
        {"injected_files": 1},
    ],
)
def test_limits_that_cannot_be_are_refused(cloud: Any, fault: Any, wrong: dict[str, Any]) -> None:
    fault(cloud.put(f"/os-quota-sets/{ANNS}", {"quota_set": wrong}, version="2.57"), 400)
    fault(cloud.put(f"/os-quota-sets/{ANNS}?user_id=ann-id", {"quota_set": {}}, version="2.57"), 400)


def test_a_project_that_there_is_not_has_no_quotas(cloud: Any, fault: Any) -> None:
    before = cloud.world.picture()
    for nobody in ("d" * 32, "anything", "x" * 5000):
        path = f"/os-quota-sets/{nobody}"
        told = f"Project ID {nobody} is not a valid project."
        for each in (path, f"{path}/detail", f"{path}/defaults"):
            assert fault(cloud.get(each), 400) == told
        assert fault(cloud.put(path, {"quota_set": {"instances": 5}}), 400) == told
        assert cloud.delete(path).status == 202  # what is left of one that was removed
        # T1: who may not ask for others is told the same of every other project.
        fault(cloud.get(path, "bob"), 403)
        assert cloud.get(f"{path}/defaults", "bob").status == 200
    assert cloud.world.picture() == before


CLASS = {
    "2.1": QUOTA - GROUPS | FILES | NETWORKS,
    "2.49": QUOTA - GROUPS | FILES | NETWORKS,
    "2.50": QUOTA | FILES,
    "2.57": QUOTA,
}


def test_the_default_quotas_are_shown_and_are_fixed(cloud: Any, fault: Any) -> None:
    path = "/os-quota-class-sets/default"
    for version, fields in CLASS.items():
        shown = cloud.get(path, version=version).json["quota_class_set"]
        assert (set(shown), shown.pop("id")) == (fields | {"id"}, "default"), version
        same = cloud.put(path, {"quota_class_set": shown}, version=version)
        assert (same.status, same.json) == (200, {"quota_class_set": shown})
        told = fault(cloud.put(path, {"quota_class_set": {"instances": 5}}, version=version), 409)
        assert (
            "this one is 1000. Set the quota of a project instead: PUT /os-quota-sets/{project_id}." in told
        )
    fault(cloud.put(path, {"quota_class_set": {"pets": 1}}), 400)
    fault(cloud.put(path, {"quota_class_set": {"fixed_ips": -1}}, version="2.50"), 400)
    assert cloud.get(path).json["quota_class_set"]["instances"] == 1000
    assert "there is one, `default`" in fault(cloud.get("/os-quota-class-sets/gold"), 404)
    for who in ("ann", "mel", "rita"):
        fault(cloud.get(path, who), 403)
        fault(cloud.put(path, {"quota_class_set": {}}, who), 403)


def test_a_limit_below_the_use_needs_force_and_stops_growth(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server()
    cloud.server("two", settle=False)
    path = f"/os-quota-sets/{ANNS}"
    assert "already used and reserved 2" in fault(cloud.put(path, {"quota_set": {"instances": 1}}), 400)
    forced = {"quota_set": {"instances": 1, "force": "True"}}
    assert cloud.put(path, forced).json["quota_set"]["instances"] == 1
    body = {"server": {"name": "x", "flavorRef": "100", "imageRef": cloud.image(), "networks": "none"}}
    cloud.flavor("101", disk=1)
    body["server"]["flavorRef"] = "101"
    told = fault(cloud.post("/servers", body, "ann", "2.96"), 403)
    assert told == "Quota exceeded for instances: Requested 1, but already used 2 of 1 instances"
    assert cloud.shown(server)["status"] == "ACTIVE"
    used = cloud.get(f"{path}/detail", "ann").json["quota_set"]["instances"]
    assert used == {"limit": 1, "in_use": 2, "reserved": 0}


SERVER = {
    "ended_at",
    "flavor",
    "hours",
    "instance_id",
    "local_gb",
    "memory_mb",
    "name",
    "started_at",
    "state",
    "tenant_id",
    "uptime",
    "vcpus",
}
SUMS = {
    "start",
    "stop",
    "tenant_id",
    "total_hours",
    "total_local_gb_usage",
    "total_memory_mb_usage",
    "total_vcpus_usage",
}


def test_usage_is_what_servers_had_for_how_long(cloud: Any, fault: Any) -> None:
    cloud.host()
    one, two, theirs = cloud.server("one"), cloud.server("two"), cloud.server("theirs", "bob")
    cloud.world.pass_time(3600)
    cloud.delete(f"/servers/{two}", "ann")
    cloud.world.settle()
    cloud.world.pass_time(3600)
    period = "start=2001-01-01T00:00:00&end=2100-01-01T00:00:00"
    mine = cloud.get(f"/os-simple-tenant-usage/{ANNS}?{period}", "rita").json["tenant_usage"]
    assert set(mine) == SUMS | {"server_usages"}
    assert all(set(each) == SERVER for each in mine["server_usages"])
    states = {each["instance_id"]: each["state"] for each in mine["server_usages"]}
    assert states == {one: "active", two: "terminated"}
    assert mine["total_hours"] == pytest.approx(3, abs=0.05)
    assert mine["total_memory_mb_usage"] == pytest.approx(mine["total_hours"] * 1024)
    everybody = cloud.get(f"/os-simple-tenant-usage?{period}").json["tenant_usages"]
    assert [(set(each), each["tenant_id"]) for each in everybody] == [(SUMS, ANNS), (SUMS, BOBS)]
    detailed = cloud.get(f"/os-simple-tenant-usage?detailed=1&{period}").json["tenant_usages"]
    assert [each["instance_id"] for each in detailed[1]["server_usages"]] == [theirs]
    nothing = cloud.get(f"/os-simple-tenant-usage/{'d' * 32}?{period}").json["tenant_usage"]
    assert set(nothing) == SUMS | {"server_usages"}
    assert nothing == dict.fromkeys(SUMS, 0) | {
        "tenant_id": "d" * 32,
        "server_usages": [],
        "start": mine["start"],
        "stop": mine["stop"],
    }
    fault(cloud.get(f"/os-simple-tenant-usage/{ANNS}?{period}", "bob"), 403)
    fault(cloud.get("/os-simple-tenant-usage", "ann"), 403)
    fault(cloud.get(f"/os-simple-tenant-usage/{ANNS}?start=2100-01-01&end=2001-01-01", "ann"), 400)
    fault(cloud.get(f"/os-simple-tenant-usage/{ANNS}?start=once", "ann"), 400)


def test_usage_comes_in_pages_since_2_40(cloud: Any, fault: Any) -> None:
    cloud.host(memory_mb=65536, vcpus=64)
    made = {cloud.server(f"s{n}") for n in range(3)}
    period = "start=2001-01-01T00:00:00&end=2100-01-01T00:00:00"
    path = f"/os-simple-tenant-usage/{ANNS}?{period}"
    assert len(cloud.get(f"{path}&limit=2", "ann", "2.39").json["tenant_usage"]["server_usages"]) == 3
    first = cloud.get(f"{path}&limit=2", "ann", "2.40").json
    following = first["tenant_usage_links"][0]["href"].removeprefix("http://cloud/v2.1")
    rest = cloud.get(following, "ann", "2.40").json
    pages = [each["instance_id"] for page in (first, rest) for each in page["tenant_usage"]["server_usages"]]
    assert (set(pages), len(pages)) == (made, 3)
    fault(cloud.get(f"{path}&marker=nobody", "ann", "2.40"), 400)
