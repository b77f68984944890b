"""Flavors: fields by microversion, private ones, extra specs."""

from __future__ import annotations

from typing import Any

import pytest

BASE = {
    "OS-FLV-DISABLED:disabled",
    "OS-FLV-EXT-DATA:ephemeral",
    "disk",
    "id",
    "links",
    "name",
    "os-flavor-access:is_public",
    "ram",
    "rxtx_factor",
    "swap",
    "vcpus",
}


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        ("2.1", BASE),
        ("2.54", BASE),
        ("2.55", BASE | {"description"}),
        ("2.61", BASE | {"description", "extra_specs"}),
        ("2.75", BASE | {"description", "extra_specs"}),
        ("2.96", BASE | {"description", "extra_specs"}),
    ],
)
def test_a_flavor_has_the_fields_of_its_version(cloud: Any, version: str, fields: set[str]) -> None:
    cloud.flavor("10")
    assert set(cloud.get("/flavors/10", version=version).json["flavor"]) == fields
    (listed,) = cloud.get("/flavors/detail", version=version).json["flavors"]
    assert set(listed) == fields
    body = {"flavor": {"name": "new", "ram": 1, "vcpus": 1, "disk": 0}}
    assert set(cloud.post("/flavors", body, version=version).json["flavor"]) == fields
    assert cloud.get("/flavors/10", version=version).json["flavor"]["swap"] == (
        0 if version in ("2.75", "2.96") else ""
    )


def test_the_brief_list_has_a_description_from_2_55_on(cloud: Any) -> None:
    cloud.flavor("10")
    assert set(cloud.get("/flavors").json["flavors"][0]) == {"id", "name", "links"}
    assert set(cloud.get("/flavors", version="2.55").json["flavors"][0]) == {
        "id",
        "name",
        "links",
        "description",
    }


def test_the_client_s_own_body_makes_a_flavor(cloud: Any) -> None:
    body = {
        "os-flavor-access:is_public": True,
        "OS-FLV-EXT-DATA:ephemeral": 0,
        "disk": 0,
        "name": "test-flavor",
        "id": "100",
        "swap": 0,
        "ram": 1024,
        "vcpus": 1,
    }
    flavor = cloud.post("/flavors", {"flavor": body}, version="2.61").json["flavor"]
    assert (flavor["id"], flavor["ram"], flavor["extra_specs"]) == ("100", 1024, {})
    assert flavor["links"] == [
        {"rel": "self", "href": "http://cloud/v2.1/flavors/100"},
        {"rel": "bookmark", "href": "http://cloud/flavors/100"},
    ]


def test_a_flavor_without_an_id_gets_a_uuid_and_numbers_may_be_text(cloud: Any) -> None:
    for given in (None, "auto"):
        body = {"name": f"f{given}", "ram": "64", "vcpus": "1", "disk": "0", "id": given}
        assert len(cloud.post("/flavors", {"flavor": body}).json["flavor"]["id"]) == 36


def test_a_name_or_id_that_is_taken_is_409(cloud: Any, fault: Any) -> None:
    cloud.flavor("10")
    again = {"name": "flavor-10", "id": "11", "ram": 1, "vcpus": 1, "disk": 0}
    assert "name flavor-10 already exists" in fault(cloud.post("/flavors", {"flavor": again}), 409)
    again |= {"name": "other", "id": "10"}
    assert "ID 10 already exists" in fault(cloud.post("/flavors", {"flavor": again}), 409)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ram": 0},
        {"vcpus": 0},
        {"disk": -1},
        {"ram": 2**31},
        {"swap": -1},
        {"rxtx_factor": 0},
        {"rxtx_factor": "x"},
        {"id": "a" * 256},
        {"id": "ünder"},
        {"name": " "},
        {"os-flavor-access:is_public": "maybe"},
        {"description": "too new for 2.1"},
        {"colour": "red"},
    ],
)
def test_an_impossible_flavor_is_400(cloud: Any, fault: Any, wrong: dict[str, Any]) -> None:
    fault(cloud.post("/flavors", {"flavor": {"name": "n", "ram": 1, "vcpus": 1, "disk": 0} | wrong}), 400)
    assert cloud.get("/flavors").json == {"flavors": []}


def test_only_an_admin_makes_and_deletes_flavors(cloud: Any, fault: Any) -> None:
    cloud.flavor("10")
    body = {"flavor": {"name": "n", "ram": 1, "vcpus": 1, "disk": 0}}
    assert "os-flavor-manage:create" in fault(cloud.post("/flavors", body, "ann"), 403)
    fault(cloud.delete("/flavors/10", "ann"), 403)
    assert cloud.delete("/flavors/10").status == 202
    fault(cloud.get("/flavors/10"), 404)


def test_a_private_flavor_is_for_those_who_were_given_it(cloud: Any, fault: Any) -> None:
    cloud.flavor("10", **{"os-flavor-access:is_public": False})
    unknown = fault(cloud.get("/flavors/11", "ann"), 404).replace("11", "10")
    assert fault(cloud.get("/flavors/10", "ann"), 404) == unknown
    assert cloud.get("/flavors", "ann").json == {"flavors": []}
    assert cloud.get("/flavors").json == {"flavors": []}  # public ones, unless asked
    assert len(cloud.get("/flavors?is_public=None").json["flavors"]) == 1
    assert len(cloud.get("/flavors?is_public=false").json["flavors"]) == 1

    add = {"addTenantAccess": {"tenant": "a" * 32}}
    granted = {"flavor_access": [{"flavor_id": "10", "tenant_id": "a" * 32}]}
    assert cloud.post("/flavors/10/action", add).json == granted
    fault(cloud.post("/flavors/10/action", add), 409)
    assert cloud.get("/flavors/10/os-flavor-access").json == granted
    assert cloud.get("/flavors/10", "ann").status == 200
    assert len(cloud.get("/flavors", "ann").json["flavors"]) == 1
    fault(cloud.get("/flavors/10", "bob"), 404)
    remove = {"removeTenantAccess": {"tenant": "a" * 32}}
    assert cloud.post("/flavors/10/action", remove).json == {"flavor_access": []}
    fault(cloud.post("/flavors/10/action", remove), 404)


def test_access_is_given_to_projects_that_there_are(cloud: Any, fault: Any) -> None:
    cloud.flavor("10", **{"os-flavor-access:is_public": False})
    add = {"addTenantAccess": {"tenant": "nobody"}}
    assert fault(cloud.post("/flavors/10/action", add), 400) == "Project ID nobody is not a valid project."
    assert cloud.get("/flavors/10/os-flavor-access").json == {"flavor_access": []}
    # One that was removed may have had it.
    fault(cloud.post("/flavors/10/action", {"removeTenantAccess": {"tenant": "nobody"}}), 404)


def test_a_public_flavor_has_no_access_list(cloud: Any, fault: Any) -> None:
    cloud.flavor("10")
    fault(cloud.get("/flavors/10/os-flavor-access"), 404)
    add = {"addTenantAccess": {"tenant": "a" * 32}}
    assert cloud.post("/flavors/10/action", add, version="2.6").status == 200
    fault(cloud.post("/flavors/10/action", add, version="2.7"), 409)
    fault(cloud.post("/flavors/10/action", {}, version="2.7"), 400)


def test_extra_specs_come_and_go(cloud: Any, fault: Any) -> None:
    cloud.flavor("10")
    path = "/flavors/10/os-extra_specs"
    specs = {"extra_specs": {"hw:cpu_policy": "shared", "hw:numa_nodes": 1}}
    assert cloud.post(path, specs).json == {"extra_specs": {"hw:cpu_policy": "shared", "hw:numa_nodes": "1"}}
    assert cloud.put(f"{path}/hw:numa_nodes", {"hw:numa_nodes": "2"}).json == {"hw:numa_nodes": "2"}
    fault(cloud.put(f"{path}/hw:numa_nodes", {"hw:other": "2"}), 400)
    assert cloud.get(f"{path}/hw:numa_nodes", "rita").json == {"hw:numa_nodes": "2"}
    assert cloud.delete(f"{path}/hw:numa_nodes").status == 200
    fault(cloud.delete(f"{path}/hw:numa_nodes"), 404)
    fault(cloud.get(f"{path}/hw:numa_nodes"), 404)
    assert cloud.get(path, "ann").json == {"extra_specs": {"hw:cpu_policy": "shared"}}
    fault(cloud.post(path, {"extra_specs": {"ä": "1"}}), 400)
    fault(cloud.post(path, {"extra_specs": {"a": "x" * 256}}), 400)
    fault(cloud.post("/flavors/11/os-extra_specs", specs), 404)
    fault(cloud.post(path, specs, "ann"), 403)


def test_lists_are_narrowed_sorted_and_paged(cloud: Any) -> None:
    for number, ram in enumerate([512, 4096, 1024, 2048]):
        cloud.flavor(str(number), ram=ram, disk=number)
    page = cloud.get("/flavors?sort_key=memory_mb&sort_dir=desc&limit=2").json
    assert [flavor["id"] for flavor in page["flavors"]] == ["1", "3"]
    following = page["flavors_links"][0]["href"].removeprefix("http://cloud/v2.1")
    assert [flavor["id"] for flavor in cloud.get(following).json["flavors"]] == ["2", "0"]
    narrowed = cloud.get("/flavors?minRam=1024&minDisk=2").json["flavors"]
    assert [flavor["id"] for flavor in narrowed] == ["2", "3"]
    assert cloud.get("/flavors?limit=0").json["flavors"] == []


def test_a_description_may_be_changed_from_2_55_on(cloud: Any, fault: Any) -> None:
    cloud.flavor("10")
    body = {"flavor": {"description": "for tests"}}
    assert cloud.put("/flavors/10", body, version="2.55").json["flavor"]["description"] == "for tests"
    fault(cloud.put("/flavors/10", body, version="2.54"), 405)
    fault(cloud.put("/flavors/10", {"flavor": {"ram": 5}}, version="2.55"), 400)


def test_a_trait_is_required_or_forbidden_since_2_86(cloud: Any, fault: Any) -> None:
    cloud.flavor()
    path, wrong = "/flavors/100/os-extra_specs", {"trait:CUSTOM_GOLD": "wanted"}
    assert "trait:CUSTOM_GOLD" in fault(cloud.post(path, {"extra_specs": wrong}, version="2.86"), 400)
    fault(cloud.put(f"{path}/trait:CUSTOM_GOLD", wrong, version="2.86"), 400)
    assert cloud.get(path).json == {"extra_specs": {}}
    assert cloud.post(path, {"extra_specs": wrong}, version="2.85").status == 200
    right = {"trait:CUSTOM_GOLD": "forbidden"}
    assert cloud.put(f"{path}/trait:CUSTOM_GOLD", right, version="2.86").json == right
