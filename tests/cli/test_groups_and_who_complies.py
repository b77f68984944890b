"""`berthold group list` and `berthold group show`."""

from __future__ import annotations

import json
from pathlib import Path

from berthold.lab.world import World
from berthold.ledger import hosts, inventories
from berthold.ledger.store import Tx
from commands import Berthold


def shrink(world: World, host: str, vcpus: int) -> None:
    """The host's agent says from now on that it has so many CPUs."""

    def change(tx: Tx) -> None:
        hosts.lock(tx, world.host_id(host))
        offers = {"VCPU": {"total": vcpus}, "MEMORY_MB": {"total": 4096}, "DISK_GB": {"total": 100}}
        inventories.set_inventory(tx, world.host_id(host), offers)

    world.store.write_now(change)


def test_no_groups_is_said(berthold: Berthold, data: Path) -> None:
    ran = berthold("group", "list", "--data", data)
    assert (ran.status, ran.text) == (0, "There are no server groups.\n")


def test_a_group_is_a_line_with_its_policy_and_whether_it_complies(
    berthold: Berthold, data: Path, world: World
) -> None:
    web = world.group("anti-affinity", per_host=2)
    world.boot("web-1", web)
    line = berthold("group", "list", "--data", data).line(web)
    assert line.split() == [
        web,
        "web",
        "anti-affinity",
        "(up",
        "to",
        "2",
        "on",
        "a",
        "host)",
        "1",
        "yes",
        "-",
    ]


def test_members_that_comply_are_shown_with_their_hosts(berthold: Berthold, data: Path, world: World) -> None:
    web = world.group("anti-affinity")
    one = world.boot("web-1", web, host="node1")
    ran = berthold("group", "show", web, "--data", data)
    assert ran.status == 0
    assert ran.line(one, "web-1  on node1  complies")


def test_who_does_not_comply_is_told_why_and_what_would_mend_it(
    berthold: Berthold, data: Path, world: World
) -> None:
    web = world.group("anti-affinity")
    one, two = world.boot("web-1", web, host="node1"), world.boot("web-2", web, host="node2")
    shrink(world, "node1", 0)
    assert berthold("group", "list", "--data", data).line(web).split()[-2:] == ["NO", "-"]
    ran = berthold("group", "show", web, "--data", data)
    assert ran.status == 1
    assert ran.line(one, "DOES NOT COMPLY")
    assert ran.line(two, "complies")
    assert ran.line("violation (C1): host node1 holds 1 VCPU, 1 VCPU above its capacity of 0")
    assert ran.line("-> move servers that hold 1 VCPU away from node1")


def test_a_member_on_a_fenced_host_is_at_risk(berthold: Berthold, data: Path, world: World) -> None:
    web = world.group("anti-affinity")
    one = world.boot("web-1", web, host="node1")
    world.store.write_now(hosts.fence, world.host_id("node1"))
    ran = berthold("group", "show", web, "--data", data)
    assert ran.status == 0
    assert ran.line("at risk (M5): its host node1 is fenced")
    assert ran.line(f"-> openstack server evacuate {one}")


def test_json_says_the_same(berthold: Berthold, data: Path, world: World) -> None:
    web = world.group("anti-affinity")
    one = world.boot("web-1", web, host="node1")
    shrink(world, "node1", 0)
    ran = berthold("group", "show", web, "--json", "--data", data)
    shown = json.loads(ran.text)
    assert (shown["group"]["id"], shown["group"]["policy"]) == (web, "anti-affinity")
    assert shown["complies"] is False
    (member,) = shown["members"]
    assert (member["id"], member["host"], member["complies"]) == (one, "node1", False)
    (finding,) = member["findings"]
    assert (finding["kind"], finding["rule"], finding["host"]) == ("violation", "C1", "node1")


def test_an_unknown_group_is_said_to_be_unknown(berthold: Berthold, data: Path) -> None:
    ran = berthold("group", "show", "web", "--data", data)
    assert ran.status == 1
    assert ran.error == "Instance group web could not be found.\n  ids are shown by: berthold group list"
