"""The real client on what stands beside compute: volumes that grow and are copied, quotas, credentials."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from client_steps import FILLED, UUID, Like, Refusal, Walk, step
from running import Running

if TYPE_CHECKING:
    from openstack_client import Said

VOLUMES = [
    step("volume create --size 1 --property a=1 v", {"name": "v", "size": 1, "properties": {"a": "1"}}),
    step("volume set --size 2 v"),
    step("volume set --bootable --name disk --description words --property b=2 v"),
    step("volume unset --property a disk"),
    step(
        "volume show disk",
        {
            "size": 2,
            "bootable": True,
            "description": "words",
            "properties": {"b": "2"},
            "status": "available",
        },
    ),
    step("volume set --size 1 disk", Refusal("New size must be greater than 2 GB")),
    step("volume set --state error disk"),
    step("volume show disk -c status", {"status": "error"}),
    step("volume set --state available disk"),
    step(
        "volume snapshot create --volume disk --description then s",
        {"id": UUID, "name": "s", "size": 2, "status": "available", "volume_id": UUID, "created_at": FILLED},
    ),
    step(
        "volume snapshot list",
        [{"ID": UUID, "Name": "s", "Description": "then", "Status": "available", "Size": 2}],
    ),
    step("volume snapshot set --name first --property c=d s"),
    step("volume snapshot show first", {"name": "first", "properties": {"c": "d"}}),
    step("volume create --snapshot first copy", {"name": "copy", "size": 2, "snapshot_id": UUID}),
    step("volume delete disk", Refusal("has snapshots")),
    step("volume snapshot delete first"),
    step("volume snapshot list", []),
    step("volume delete --force disk"),
    step("volume delete copy"),
    step("volume list", []),
]

QUOTAS = [
    step("quota set --volumes 1 --gigabytes 3 --per-volume-gigabytes 2 --ports 2 --networks 1 admin"),
    step(
        "quota show --volume",
        [
            {"Resource": "volumes", "Limit": 1},
            {"Resource": "snapshots", "Limit": 1000},
            {"Resource": "gigabytes", "Limit": 3},
            {"Resource": "backups", "Limit": -1},
            {"Resource": "groups", "Limit": -1},
            {"Resource": "backup-gigabytes", "Limit": -1},
            {"Resource": "per-volume-gigabytes", "Limit": 2},
        ],
    ),
    step("volume create --size 3 large", Refusal("413.*larger than maximum allowed limit 2G")),
    step("volume create --size 2 v", {"name": "v"}),
    step("volume create --size 1 w", Refusal(r"413.*Maximum number of volumes allowed \(1\) exceeded")),
    step("volume set --size 3 v", Refusal("413|larger than maximum")),
    step("volume snapshot create --volume v s", Refusal("413.*exceeds allowed gigabytes quota")),
    step("network create more", Refusal(r"409.*Quota exceeded for resources: \['network'\]")),
    step("port create --network private p1", {"name": "p1", "status": "DOWN"}),
    step("port create --network private p2", {"name": "p2"}),
    step("port create --network private p3", Refusal(r"409.*Quota exceeded for resources: \['port'\]")),
    step("quota set --ports 1 admin", Refusal("400.*uses more than 1 of port already")),
    step("quota set --force --ports 1 admin"),
    step(
        "quota show --usage -c Resource -c Limit -c 'In Use' -f value",
        Like(r".*\nnetworks 1 1\n.*volumes 1 1\n.*gigabytes 3 2\n.*ports 1 2\n.*subnets 100 1\n.*"),
    ),
    step("limits show --absolute -f value", Like(r".*total_gigabytes_used 2\n.*|.*totalGigabytesUsed 2\n.*")),
    step("quota list --volume", [FILLED]),
    step("quota list --network", [FILLED]),
    step("quota delete admin"),
    step("quota list --volume", []),
    step("quota list --network", []),
    step("port delete p1 p2"),
    step("volume delete v"),
]

CREDENTIALS = [
    step(
        "application credential create --role reader --description nightly bot",
        {
            "ID": FILLED,
            "Name": "bot",
            "Description": "nightly",
            "Project ID": FILLED,
            "Roles": FILLED,
            "Unrestricted": False,
            "Expires At": None,
            "Secret": FILLED,
        },
    ),
]


def test_volumes_quotas_and_credentials_as_the_client_has_them(walk: Walk) -> None:
    for session in (VOLUMES, QUOTAS, CREDENTIALS):
        walk.through(session)


def test_an_application_credential_is_all_that_a_robot_needs(
    by_token: Callable[[str], Said], cloud: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = by_token("application credential create --secret 'quite secret' bot -f json").document
    free = by_token("application credential create --unrestricted free -f json").document
    assert (made["Secret"], made["Unrestricted"], free["Unrestricted"]) == ("quite secret", False, True)
    listed = by_token("application credential list -f json").document
    assert {row["Name"] for row in listed} == {"bot", "free"}
    shown = by_token("application credential show bot -f json")
    assert shown.document["ID"] == made["ID"]
    assert "quite secret" not in shown.out

    for name in ("OS_TOKEN", "OS_PROJECT_NAME", "OS_PROJECT_DOMAIN_ID"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("OS_AUTH_TYPE", "v3applicationcredential")
    monkeypatch.setenv("OS_APPLICATION_CREDENTIAL_ID", made["ID"])
    monkeypatch.setenv("OS_APPLICATION_CREDENTIAL_SECRET", "quite secret")
    robot = by_token
    assert robot("server list -f json").document == []
    assert robot("token issue -f json").document["project_id"] == made["Project ID"]
    refused = robot("application credential create child")
    assert refused.code == 1
    assert "restricted application credential" in refused.err

    monkeypatch.setenv("OS_APPLICATION_CREDENTIAL_ID", free["ID"])
    monkeypatch.setenv("OS_APPLICATION_CREDENTIAL_SECRET", free["Secret"])
    assert robot("application credential delete bot").code == 0
    # By name, and the user that has it.
    monkeypatch.delenv("OS_APPLICATION_CREDENTIAL_ID")
    monkeypatch.setenv("OS_APPLICATION_CREDENTIAL_NAME", "free")
    monkeypatch.setenv("OS_USERNAME", "admin")
    monkeypatch.setenv("OS_USER_DOMAIN_NAME", "Default")
    assert [row["Name"] for row in robot("application credential list -f json").document] == ["free"]
    monkeypatch.setenv("OS_APPLICATION_CREDENTIAL_SECRET", "guessed")
    refused = robot("server list")
    assert refused.code == 1
    assert "requires authentication" in refused.err
    assert "guessed" not in refused.err
