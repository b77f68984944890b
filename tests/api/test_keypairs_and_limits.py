"""Keypairs belong to users; limits and quotas to projects."""

from __future__ import annotations

from typing import Any

import pytest

PUBLIC = (
    "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQDx8nkQv/zgGgB4rMYmIf+6A4l6Rr+o/6lHBQdW5aYd44bd8JttDCE/F/pNRr0lRE+P"
    "iqSPO8nDPHw0010JeMH9gYgnnFlyY3/OcJ02RhIPyyxYpv9FhY+2YiUkpwFOcLImyrxEsYXpD/0d3ac30bNH6Sw9JD9UZHYcpSxsIbEC"
    "Hw== somebody"
)
BRIEF = {"fingerprint", "name", "public_key"}
TYPE = {"type"}


@pytest.mark.parametrize(
    ("version", "made", "gone", "type"),
    [("2.1", 200, 202, set()), ("2.2", 201, 204, TYPE), ("2.91", 201, 204, TYPE)],
)
def test_a_keypair_has_the_form_of_its_version(
    cloud: Any, version: str, made: int, gone: int, type: set[str]
) -> None:
    imported = cloud.post("/os-keypairs", {"keypair": {"name": "k", "public_key": PUBLIC}}, "ann", version)
    assert imported.status == made
    assert set(imported.json["keypair"]) == BRIEF | {"user_id"} | type
    assert imported.json["keypair"]["fingerprint"] == "1e:2c:9b:56:79:4b:45:77:f9:ca:7a:98:2c:b0:d5:3c"
    (listed,) = cloud.get("/os-keypairs", "ann", version).json["keypairs"]
    assert set(listed["keypair"]) == BRIEF | type
    shown = cloud.get("/os-keypairs/k", "ann", version).json["keypair"]
    times = {"created_at", "deleted", "deleted_at", "updated_at"}
    assert set(shown) == BRIEF | {"user_id", "id"} | times | type
    generated = cloud.post("/os-keypairs", {"keypair": {"name": "g"}}, "ann", version)
    assert set(generated.json["keypair"]) == BRIEF | {"user_id", "private_key"} | type
    assert generated.json["keypair"]["private_key"].startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
    assert cloud.delete("/os-keypairs/k", "ann", version).status == gone


def test_a_keypair_must_be_a_key_and_its_name_free(cloud: Any, fault: Any) -> None:
    def refused(status: int, version: str = "2.10", **keypair: Any) -> None:
        fault(cloud.post("/os-keypairs", {"keypair": keypair}, "ann", version), status)

    refused(400, name="k", public_key="x")
    refused(400, name="k", public_key="ssh-rsa !!!!")
    refused(400, name="k", public_key="ssh-rsa AAAA")
    refused(400, name="k", public_key="ssh-ed25519 " + PUBLIC.split()[1])
    refused(400, name="", public_key=PUBLIC)
    refused(400, name="k/k", public_key=PUBLIC)
    refused(400, name="k", type="pgp", public_key=PUBLIC)
    refused(400, name="k", version="2.92")
    refused(400, name="k", user_id="x", public_key=PUBLIC, version="2.9")
    assert cloud.post("/os-keypairs", {"keypair": {"name": "k", "public_key": PUBLIC}}, "ann").status == 200
    refused(409, name="k", public_key=PUBLIC)


def test_keypairs_are_their_user_s_and_an_admin_may_name_one(cloud: Any, fault: Any) -> None:
    cloud.post("/os-keypairs", {"keypair": {"name": "k", "public_key": PUBLIC}}, "ann")
    unknown = fault(cloud.get("/os-keypairs/nobody", "bob"), 404)
    assert fault(cloud.get("/os-keypairs/k", "bob"), 404) == unknown.replace("nobody", "k")
    fault(cloud.delete("/os-keypairs/k", "bob"), 404)
    fault(cloud.get("/os-keypairs/k?user_id=ann-id", "bob", "2.10"), 403)
    assert cloud.get("/os-keypairs/k?user_id=ann-id", version="2.10").status == 200
    fault(cloud.get("/os-keypairs/k?user_id=ann-id", version="2.9"), 404)
    assert len(cloud.get("/os-keypairs?user_id=ann-id", version="2.10").json["keypairs"]) == 1


def test_keypairs_come_in_pages(cloud: Any, fault: Any) -> None:
    for name in ("b", "a", "c"):
        cloud.post("/os-keypairs", {"keypair": {"name": name, "public_key": PUBLIC}}, "ann")
    page = cloud.get("/os-keypairs?limit=2", "ann", "2.35").json
    assert [each["keypair"]["name"] for each in page["keypairs"]] == ["a", "b"]
    following = page["keypairs_links"][0]["href"].removeprefix("http://cloud/v2.1")
    rest = cloud.get(following, "ann", "2.35").json["keypairs"]
    assert [each["keypair"]["name"] for each in rest] == ["c"]
    fault(cloud.get("/os-keypairs?marker=z", "ann", "2.35"), 400)


def test_a_server_gets_a_key_by_name(cloud: Any) -> None:
    cloud.post("/os-keypairs", {"keypair": {"name": "k", "public_key": PUBLIC}}, "ann")
    server = cloud.server(key_name="k", settle=False)
    assert cloud.shown(server)["key_name"] == "k"


NEWEST = {
    "maxServerMeta",
    "maxTotalCores",
    "maxTotalInstances",
    "maxTotalKeypairs",
    "maxTotalRAMSize",
    "maxServerGroups",
    "maxServerGroupMembers",
    "totalCoresUsed",
    "totalInstancesUsed",
    "totalRAMUsed",
    "totalServerGroupsUsed",
}
PERSONALITY = {"maxPersonality", "maxPersonalitySize"}
NETWORKS = {
    "maxSecurityGroupRules",
    "maxSecurityGroups",
    "maxTotalFloatingIps",
    "totalSecurityGroupsUsed",
    "totalFloatingIpsUsed",
}


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        ("2.1", NEWEST | PERSONALITY | NETWORKS | {"maxImageMeta"}),
        ("2.36", NEWEST | PERSONALITY | {"maxImageMeta"}),
        ("2.39", NEWEST | PERSONALITY),
        ("2.57", NEWEST),
        ("2.96", NEWEST),
    ],
)
def test_limits_have_the_fields_of_their_version(cloud: Any, version: str, fields: set[str]) -> None:
    limits = cloud.get("/limits", "ann", version).json["limits"]
    assert set(limits) == {"absolute", "rate"}
    assert set(limits["absolute"]) == fields


def test_limits_count_what_is_used(cloud: Any, fault: Any) -> None:
    cloud.group()
    cloud.server(settle=False)
    used = cloud.get("/limits?reserved=False", "ann").json["limits"]["absolute"]
    assert (used["totalInstancesUsed"], used["totalCoresUsed"], used["totalRAMUsed"]) == (1, 1, 1024)
    assert used["totalServerGroupsUsed"] == 1
    other = cloud.get(f"/limits?tenant_id={'a' * 32}").json["limits"]["absolute"]
    assert other["totalInstancesUsed"] == 1
    fault(cloud.get(f"/limits?tenant_id={'a' * 32}", "bob"), 403)


QUOTA = {
    "cores",
    "id",
    "instances",
    "key_pairs",
    "metadata_items",
    "ram",
    "server_groups",
    "server_group_members",
}
FILES = {"injected_file_content_bytes", "injected_file_path_bytes", "injected_files"}
FLOATING = {"fixed_ips", "floating_ips", "security_group_rules", "security_groups"}


@pytest.mark.parametrize(
    ("version", "fields"), [("2.1", QUOTA | FILES | FLOATING), ("2.36", QUOTA | FILES), ("2.57", QUOTA)]
)
def test_quotas_have_the_fields_of_their_version(
    cloud: Any, fault: Any, version: str, fields: set[str]
) -> None:
    own = "a" * 32
    quota = cloud.get(f"/os-quota-sets/{own}", "ann", version).json["quota_set"]
    assert set(quota) == fields
    assert quota == cloud.get(f"/os-quota-sets/{own}/defaults", "ann", version).json["quota_set"]
    detail = cloud.get(f"/os-quota-sets/{own}/detail", "ann", version).json["quota_set"]
    assert set(detail) == fields
    assert detail["cores"] == {"limit": quota["cores"], "in_use": 0, "reserved": 0}
    fault(cloud.get(f"/os-quota-sets/{own}", "bob", version), 403)
    assert cloud.get(f"/os-quota-sets/{own}", version=version).status == 200
