"""Server groups: one form per microversion, and nothing of another project's."""

from __future__ import annotations

from typing import Any

import pytest

OLD = {"id", "name", "policies", "members", "metadata"}
OWNED = OLD | {"project_id", "user_id"}
NEW = {"id", "name", "policy", "rules", "members", "project_id", "user_id"}


def body_for(version: str) -> dict[str, Any]:
    policy = (
        {"policy": "anti-affinity"} if int(version.split(".")[1]) >= 64 else {"policies": ["anti-affinity"]}
    )
    return {"server_group": {"name": "test", **policy}}


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        ("2.1", OLD),
        ("2.12", OLD),
        ("2.13", OWNED),
        ("2.15", OWNED),
        ("2.63", OWNED),
        ("2.64", NEW),
        ("2.96", NEW),
    ],
)
def test_a_group_has_the_fields_of_its_version(cloud: Any, version: str, fields: set[str]) -> None:
    made = cloud.post("/os-server-groups", body_for(version), "ann", version)
    assert made.status == 200
    group = made.json["server_group"]
    assert set(group) == fields
    assert cloud.get(f"/os-server-groups/{group['id']}", "ann", version).json == {"server_group": group}
    assert cloud.get("/os-server-groups", "ann", version).json == {"server_groups": [group]}


def test_rules_are_for_anti_affinity_from_2_64_on(cloud: Any, fault: Any) -> None:
    body = {"server_group": {"name": "a", "policy": "anti-affinity", "rules": {"max_server_per_host": "3"}}}
    group = cloud.post("/os-server-groups", body, "ann", "2.64").json["server_group"]
    assert (group["policy"], group["rules"]) == ("anti-affinity", {"max_server_per_host": 3})
    body["server_group"]["policy"] = "affinity"
    fault(cloud.post("/os-server-groups", body, "ann", "2.64"), 400)
    fault(cloud.post("/os-server-groups", body, "ann", "2.63"), 400)


@pytest.mark.parametrize("policy", ["soft-affinity", "soft-anti-affinity"])
def test_soft_policies_are_known_from_2_15_on(cloud: Any, fault: Any, policy: str) -> None:
    body = {"server_group": {"name": "a", "policies": [policy]}}
    fault(cloud.post("/os-server-groups", body, "ann", "2.14"), 400)
    made = cloud.post("/os-server-groups", body, "ann", "2.15").json["server_group"]
    assert made["policies"] == [policy]


def test_another_project_s_group_looks_as_if_it_never_was(cloud: Any, fault: Any) -> None:
    group = cloud.group("ann")
    unknown = fault(cloud.get("/os-server-groups/nobody", "bob"), 404)
    assert fault(cloud.get(f"/os-server-groups/{group}", "bob"), 404) == unknown.replace("nobody", group)
    assert fault(cloud.delete(f"/os-server-groups/{group}", "bob"), 404) == unknown.replace("nobody", group)
    assert cloud.get("/os-server-groups?all_projects=True", "bob").json == {"server_groups": []}
    assert cloud.get(f"/os-server-groups/{group}").status == 200
    assert cloud.get("/os-server-groups").json == {"server_groups": []}
    assert len(cloud.get("/os-server-groups?all_projects=True").json["server_groups"]) == 1


def test_a_reader_looks_and_a_member_deletes(cloud: Any, fault: Any) -> None:
    group = cloud.group("ann")
    assert cloud.get(f"/os-server-groups/{group}", "rita").status == 200
    fault(cloud.post("/os-server-groups", body_for("2.1"), "rita"), 403)
    fault(cloud.delete(f"/os-server-groups/{group}", "rita"), 403)
    assert cloud.delete(f"/os-server-groups/{group}", "ann").status == 204
    fault(cloud.get(f"/os-server-groups/{group}", "ann"), 404)


def test_groups_come_in_pages(cloud: Any) -> None:
    ids = [cloud.group("ann") for _ in range(3)]
    page = cloud.get("/os-server-groups?limit=2&offset=1", "ann").json["server_groups"]
    assert {group["id"] for group in page} <= set(ids)
    assert len(page) == 2


def test_the_project_id_may_stand_in_front_of_the_path(cloud: Any) -> None:
    assert cloud.get(f"/{'a' * 32}/os-server-groups", "ann").json == {"server_groups": []}
