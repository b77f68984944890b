"""C-e03 and C-a16: another project's group, and two groups of one name in two projects.

The stories (Launchpad nova 1466390; hashicorp nomad PR 19004): members of one project could show, list and
delete groups of others; groups that were told apart by name kept one project's servers off hosts
because of the other's.

Right: what is not yours is not found, in the words for what never was; equal names have nothing to
do with each other. What makes it so: groups are looked up by id and project, and seats are a
group's, not a name's.
"""

from __future__ import annotations

from typing import Any

UNKNOWN = "00000000-0000-4000-8000-000000000000"


def test_it_cannot_be_seen_deleted_listed_or_joined(cloud: Any, fault: Any) -> None:
    cloud.host()
    group = cloud.group("ann")
    cloud.server(hints={"group": group})
    before = cloud.world.picture()
    told = {}
    for key in (group, UNKNOWN):
        wish = {"name": "x", "flavorRef": "100", "imageRef": cloud.image("b" * 32), "networks": "none"}
        cloud.post("/flavors", {"flavor": {"name": "d", "id": "d", "vcpus": 1, "ram": 512, "disk": 1}})
        body = {"server": {**wish, "flavorRef": "d"}, "os:scheduler_hints": {"group": key}}
        answers = [
            fault(cloud.get(f"/os-server-groups/{key}", "bob"), 404),
            fault(cloud.delete(f"/os-server-groups/{key}", "bob"), 404),
            fault(cloud.post("/servers", body, "bob", "2.96"), 400),
        ]
        told[key] = [words.replace(key, "…") for words in answers]
    assert told[group] == told[UNKNOWN]
    for query in ("", "?all_projects=1"):
        assert cloud.get(f"/os-server-groups{query}", "bob").json == {"server_groups": []}
    after = cloud.world.picture()
    assert {k: v for k, v in after.items() if k != "project"} == {
        k: v for k, v in before.items() if k != "project"
    }
    (anns,) = (row for row in after["project"] if row["id"] == "a" * 32)
    assert anns in before["project"]


def test_groups_of_one_name_do_not_keep_each_other_off_a_host(cloud: Any) -> None:
    cloud.host("node1")
    for who in ("ann", "bob"):
        server = cloud.server("db", who, hints={"group": cloud.group(who)})
        shown = cloud.shown(server)
        assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "node1")
