"""C-d03 and C-d05: the forms of a group's policy, old and new and malformed.

The stories (terraform-provider-openstack 1520 and 1523, gardener 246; Launchpad nova 1894966 and
1413281): clients wrote one form and read back another, or lost the policy on the way; lists of
two policies or of none were stored, or were a 500.

Right: each version takes its own form and shows its own, of one content; what is in no form is
a 400 and nothing is stored. What makes it so: the body's shape and the view's fields name the
versions that have them, and a group has one policy in the schema.
"""

from __future__ import annotations

from typing import Any

import pytest


def made(cloud: Any, version: str, **wish: Any) -> Any:
    return cloud.post("/os-server-groups", {"server_group": {"name": "g", **wish}}, "ann", version)


@pytest.mark.parametrize(
    ("version", "wish", "status"),
    [
        ("2.1", {"policies": ["anti-affinity"]}, 200),
        ("2.15", {"policies": ["anti-affinity"]}, 200),
        ("2.63", {"policies": ["anti-affinity"]}, 200),
        ("2.64", {"policies": ["anti-affinity"]}, 400),
        ("2.64", {"policy": "soft-anti-affinity"}, 200),
        ("2.63", {"policy": "anti-affinity"}, 400),
        ("2.14", {"policies": ["soft-anti-affinity"]}, 400),
        ("2.15", {"policies": ["soft-anti-affinity"]}, 200),
    ],
)
def test_each_version_takes_its_own_form(
    cloud: Any, fault: Any, version: str, wish: dict[str, Any], status: int
) -> None:
    answer = made(cloud, version, **wish)
    assert answer.status == status
    if status == 400:
        assert cloud.get("/os-server-groups", "ann").json == {"server_groups": []}


def test_the_content_is_the_same_whoever_reads(cloud: Any) -> None:
    group = made(cloud, "2.15", policies=["soft-anti-affinity"]).json["server_group"]["id"]
    common = {"id", "name", "members"}
    owner = {"project_id", "user_id"}
    old, new = {"policies", "metadata"}, {"policy", "rules"}
    for version, fields in [
        ("2.12", common | old),
        ("2.13", common | old | owner),
        ("2.63", common | old | owner),
        ("2.64", common | new | owner),
    ]:
        shown = cloud.get(f"/os-server-groups/{group}", "ann", version).json["server_group"]
        assert set(shown) == fields, version
        assert shown.get("policy") or shown["policies"][0] == "soft-anti-affinity"


@pytest.mark.parametrize(
    ("version", "wish"),
    [
        ("2.63", {"policies": []}),
        ("2.63", {"policies": ["affinity", "affinity"]}),
        ("2.63", {"policies": ["affinity", "anti-affinity"]}),
        ("2.63", {"policies": "affinity"}),
        ("2.64", {"policy": "affinity", "rules": {"max_server_per_host": 2}}),
        ("2.64", {"policy": "anti-affinity", "rules": {"max_server_per_host": 0}}),
        ("2.64", {"policy": "anti-affinity", "rules": {"max_server_per_host": -1}}),
        ("2.64", {"policy": "anti-affinity", "rules": {"max_server_per_host": "x"}}),
        ("2.64", {"policy": "anti-affinity", "rules": {"max_servers": 1}}),
    ],
)
def test_a_malformed_group_is_400_and_not_stored(
    cloud: Any, fault: Any, version: str, wish: dict[str, Any]
) -> None:
    fault(made(cloud, version, **wish), 400)
    assert cloud.get("/os-server-groups", "ann").json == {"server_groups": []}
