"""No filter of the list of servers is accepted and then ignored: whoever deletes what a list shows must
be able to rely on it. Those that Nova keeps for operators say nothing to others, as in Nova."""

from __future__ import annotations

from typing import Any

import pytest

from berthold.api.server_filters import QUERY

NO_FILTERS = {"limit", "marker", "sort_key", "sort_dir", "all_tenants", "deleted", "soft_deleted"}
# A value that the server of the test has not.
OTHERS = {
    "access_ip_v4": "9.9.9.9",
    "access_ip_v6": "::9",
    "auto_disk_config": "true",
    "availability_zone": "elsewhere",
    "changes-before": "2001-01-01T00:00:00Z",
    "changes-since": "2100-01-01T00:00:00Z",
    "config_drive": "true",
    "created_at": "2001-01-01T00:00:00Z",
    "fixed_ip": "9.9.9.9",
    "launch_index": "7",
    "launched_at": "2001-01-01T00:00:00Z",
    "locked": "true",
    "not-tags": "t",
    "not-tags-any": "t",
    "power_state": "4",
    "progress": "50",
    "status": "SHUTOFF",
    "terminated_at": "2001-01-01T00:00:00Z",
}
# A value that it has, or one that its fields show.
ITS_OWN: dict[str, Any] = {
    "access_ip_v4": "1.2.3.4",
    "auto_disk_config": "False",
    "config_drive": "False",
    "created_at": lambda shown: shown["created"],
    "display_name": "one",
    "fixed_ip": lambda shown: shown["addresses"]["private"][0]["addr"],
    "hostname": "one",
    "instance_uuid": lambda shown: shown["id"],
    "kernel_id": "",
    "launch_index": "0",
    "launched_at": lambda shown: shown["OS-SRV-USG:launched_at"],
    "power_state": "1",
    "progress": "0",
    "root_device_name": "/dev/vda",
}
SINCE_2_83 = ("power_state", "progress", "config_drive", "created_at", "launched_at", "terminated_at")


def listed(cloud: Any, name: str, value: str, who: str = "admin", version: str = "2.96") -> list[str]:
    params = {name: value} | ({"all_tenants": "1"} if who == "admin" else {})
    answer = cloud.get("/servers/detail", who, version, params=params)
    assert answer.status == 200, answer.json
    return [server["name"] for server in answer.json["servers"]]


def one(cloud: Any) -> dict[str, Any]:
    """A server as operators see it."""
    cloud.host()
    wish = {"accessIPv4": "1.2.3.4", "tags": ["t"], "networks": [{"uuid": cloud.network()}]}
    shown: dict[str, Any] = cloud.shown(cloud.server("one", **wish))
    return shown


def test_a_filter_that_does_not_fit_leaves_the_server_out(cloud: Any) -> None:
    one(cloud)
    filters = QUERY - NO_FILTERS
    assert OTHERS.keys() <= filters
    for name in sorted(filters):
        assert listed(cloud, name, OTHERS.get(name, "nobodys")) == [], name


def test_a_filter_that_fits_keeps_it(cloud: Any) -> None:
    shown = one(cloud)
    for name, value in ITS_OWN.items():
        assert listed(cloud, name, value(shown) if callable(value) else value) == ["one"], name


@pytest.mark.parametrize("name", SINCE_2_83)
def test_owners_have_these_since_2_83(cloud: Any, name: str) -> None:
    one(cloud)
    assert listed(cloud, name, OTHERS[name], "ann", "2.82") == ["one"]
    assert listed(cloud, name, OTHERS[name], "ann", "2.83") == []


def test_what_is_no_number_no_truth_and_no_moment(cloud: Any, fault: Any) -> None:
    one(cloud)
    assert listed(cloud, "power_state", "running") == []
    fault(cloud.get("/servers?config_drive=perhaps", "admin", "2.96"), 400)
    fault(cloud.get("/servers?created_at=yesterday", "admin", "2.96"), 400)


@pytest.mark.parametrize("key", ["host", "node"])
def test_owners_do_not_sort_by_host(cloud: Any, fault: Any, key: str) -> None:
    one(cloud)
    assert "administrators" in fault(cloud.get(f"/servers?sort_key={key}", "ann"), 403)
    assert cloud.get(f"/servers?sort_key={key}&all_tenants=1").status == 200
