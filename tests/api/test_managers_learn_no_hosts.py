"""A manager is shown its project's migrations without hosts, and does not find them out by filters."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize("name", ["host", "source_compute"])
def test_who_is_shown_no_host_may_not_ask_for_one(cloud: Any, fault: Any, name: str) -> None:
    cloud.host("node1")
    cloud.host("node2")
    server = cloud.server()
    assert cloud.act(server, "migrate").status == 202
    cloud.world.settle()
    (mine,) = cloud.get("/os-migrations", "mel").json["migrations"]
    assert mine["source_compute"] is mine["dest_compute"] is None
    for host in ("node1", "node2", "nowhere"):
        assert "os-migrations:index:host" in fault(cloud.get(f"/os-migrations?{name}={host}", "mel"), 403)
    (seen,) = cloud.get("/os-migrations").json["migrations"]
    assert len(cloud.get(f"/os-migrations?{name}={seen['source_compute']}").json["migrations"]) == 1


def test_no_migration_is_hidden(cloud: Any) -> None:
    cloud.host("node1")
    cloud.host("node2")
    cloud.act(cloud.server(), "migrate")
    cloud.world.settle()
    assert len(cloud.get("/os-migrations?hidden=false").json["migrations"]) == 1
    assert cloud.get("/os-migrations?hidden=true").json["migrations"] == []
