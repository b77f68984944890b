"""C-d10 and C-d14: servers and groups of one name; a name that changes early.

The stories (Launchpad nova 1522536 and 1620248, jenkinsci openstack-cloud-plugin 95): a name or a number in
place of an id was a 500, equal names were merged; a server that was renamed before it had a host
lost its new name when it got one.

Right: a name is no key: 404 for it as an id, lists show all that have it; a new name stays. What
makes it so: ids are the only keys, and moves never write a name.
"""

from __future__ import annotations

from typing import Any


def test_equal_names_are_different_things(cloud: Any, fault: Any) -> None:
    made = {cloud.server("a", settle=False), cloud.server("a", settle=False)}
    groups = {cloud.group(), cloud.group()}
    for key in ("a", "1", "0", "-1"):
        fault(cloud.get(f"/servers/{key}", "ann"), 404)
        fault(cloud.get(f"/os-server-groups/{key}", "ann"), 404)
    assert {s["id"] for s in cloud.get("/servers?name=^a$", "ann").json["servers"]} == made
    assert {g["id"] for g in cloud.get("/os-server-groups", "ann").json["server_groups"]} == groups
    cloud.world.settle()


def test_a_new_name_stays_when_the_server_is_placed(cloud: Any) -> None:
    cloud.host()
    server = cloud.server("old", settle=False)
    renamed = cloud.put(f"/servers/{server}", {"server": {"name": "x"}}, "ann")
    assert (renamed.status, renamed.json["server"]["name"]) == (200, "x")
    cloud.world.settle()
    shown = cloud.shown(server, "ann")
    assert (shown["name"], shown["status"]) == ("x", "ACTIVE")
