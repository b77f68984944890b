"""C-d09 and C-d17: a server in ERROR without its fault, in lists or for a moment.

The stories (Launchpad nova 1856329, 1632247 and 2161293): the detailed list forgot the faults that the
single view showed; the state was written before the reason, and whoever asked in between saw
ERROR and no word why.

Right: wherever and whenever ERROR is seen, the newest fault is seen with it, in a constant number
of statements. What makes it so: state and fault are columns of one row, written in one update.
"""

from __future__ import annotations

from typing import Any


def test_the_first_sight_of_error_has_its_reason(cloud: Any) -> None:
    cloud.host()
    group = cloud.group()
    cloud.server("first", hints={"group": group})
    second = cloud.server("second", settle=False, hints={"group": group})
    for _ in range(20):
        shown = cloud.shown(second, "ann")
        if shown["status"] == "ERROR":
            break
        assert "fault" not in shown
        for move in cloud.world.unfinished():
            cloud.world.step(move)
            break
    assert "No valid host was found" in shown["fault"]["message"]
    assert "group rule" in shown["fault"]["message"]


def test_lists_show_the_fault_that_the_server_shows(cloud: Any) -> None:
    one, two = cloud.server("one"), cloud.server("two")
    cloud.act(one, "os-resetState", {"state": "error"})
    listed = {s["id"]: s for s in cloud.get("/servers/detail", "ann").json["servers"]}
    for server in (one, two):
        shown = cloud.shown(server, "ann")
        assert shown["status"] == listed[server]["status"] == "ERROR"
        assert shown["fault"] == listed[server]["fault"]
