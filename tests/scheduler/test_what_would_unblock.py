"""What would unblock a refused host: every filter has a sentence that helps, for operators and for owners.

A sentence goes on from "it would do …". An owner is told no host and no other project.
"""

from __future__ import annotations

from typing import Any

import pytest

from berthold.scheduler.candidates import Refusal, refusals, refuse
from berthold.scheduler.filters import FILTERS
from berthold.scheduler.request import GroupWish, Request
from berthold.scheduler.supply import HostView, Inventory, Supply
from berthold.scheduler.unblock import (
    OWNERS_WAYS,
    WAYS,
    Case,
    Occupant,
    gone,
    group_is_moving,
    owners_ways,
    rule_of,
    ways,
)
from berthold.scheduler.view import View

SMALL = {"VCPU": 2, "MEMORY_MB": 512}
ANTI = GroupWish("g-1", "web", "anti-affinity")
TOGETHER = GroupWish("g-1", "web", "affinity")
NOW, SINCE = 1000.0, 990.0

WEB_2 = Occupant("s-2", "web-2")
ON_ITS_WAY = Occupant("s-3", "web-3", "source", move_id="m-1", move_kind="live-migration")
DB_1 = Occupant("s-9", "db-1", "source", {"VCPU": 2}, "m-9", "resize")

# Nothing that anybody does makes a move's own source do.
NO_WAY = {"source host"}
# What an owner can do nothing about, and need not know more of.
NO_OWNERS_WAY = {"source host", "project"}


def case(members: tuple[Occupant, ...] = (), leaving: tuple[Occupant, ...] = (), **more: Any) -> Case:
    """A host `node1` and a request for a place; `host_…` are fields of the host, `view_…` of the view."""
    capacity = {"VCPU": Inventory(4), "MEMORY_MB": Inventory(4096)}
    wish: dict[str, Any] = {"resources": SMALL, "server_id": "s-1", "project_id": "p-1"}
    seen: dict[str, Any] = {"id": "id-node1", "name": "node1", "capacity": capacity}
    sight: dict[str, Any] = {"heard_since": SINCE}
    heard = more.pop("heard", NOW)
    for name, value in more.items():
        to, _, key = name.partition("_")
        if key and to in ("host", "view"):
            {"host": seen, "view": sight}[to][key] = value
        else:
            wish[name] = value
    host = HostView(**seen)
    view = View(Supply.of([host], {host.id: heard}), **sight)
    return Case(Request(**wish), view, host, members, leaving)


def told(each: Case) -> tuple[Refusal, list[str], list[str]]:
    """The one refusal, and what would lift it: for operators, for the owner."""
    (refusal,) = refusals(each.request, each.host, each.view)
    return refusal, ways(refusal, each), owners_ways(refusal, each.request, each.members)


def full(vcpus: int) -> dict[str, Inventory]:
    return {"VCPU": Inventory(4, vcpus), "MEMORY_MB": Inventory(4096)}


CASES: dict[str, tuple[Case, list[str], list[str]]] = {
    "another host was asked for": (
        case(host="node9"),
        ["if node1 were asked for, or no host"],
        ["if no host were asked for"],
    ),
    "it is the source": (case(source="id-node1"), [], []),
    "the move has tried it": (
        case(ignore={"id-node1": "qemu said no"}),
        ["if it were begun anew: this move has tried that host, a new one tries it again"],
        ["if it were asked for anew"],
    ),
    "it is fenced": (
        case(host_status="fenced"),
        [
            "when node1 is repaired and let in again: start its agent, then openstack compute service set"
            " --up node1 nova-compute"
        ],
        ["when operators have repaired or enabled such hosts"],
    ),
    "it cleans": (
        case(host_status="cleaning"),
        ["when the agent of node1 has removed what it left behind"],
        ["when operators have repaired or enabled such hosts"],
    ),
    "it is disabled": (
        case(host_disabled=True),
        ["when it is enabled: openstack compute service set --enable node1 nova-compute"],
        ["when operators have repaired or enabled such hosts"],
    ),
    "it is silent": (
        case(heard=0.0),
        ["when its agent is heard again: look at node1 and its agent"],
        ["when operators have repaired or enabled such hosts"],
    ),
    "somebody came first": (
        case(queued=frozenset({"id-node1"})),
        ["when those who came first have gone there or given up"],
        ["when those who came first have gone there or given up"],
    ),
    "its zone": (
        case(zone="west"),
        ["if zone nova were asked for, or none", "if node1 were in zone west"],
        ["if another zone than west were asked for, or none"],
    ),
    "it is for other projects": (
        case(host_projects=frozenset({"p-9"})),
        ["if the aggregate of node1 admitted project p-1"],
        [],
    ),
    "same_host": (
        case(same_host=frozenset({"id-node7"})),
        ["when a server that same_host names lives there"],
        ["with other servers in same_host and different_host, or none"],
    ),
    "different_host": (
        case(different_host=frozenset({"id-node1"})),
        ["when the servers that different_host names have left it"],
        ["with other servers in same_host and different_host, or none"],
    ),
    "a trait it lacks": (
        case(required_traits=frozenset({"HW_GPU"})),
        ["if node1 had HW_GPU", "with a flavor and an image that do not require that"],
        ["with a flavor and an image that do not name HW_GPU"],
    ),
    "a trait it has": (
        case(forbidden_traits=frozenset({"SLOW"}), host_traits=frozenset({"SLOW"})),
        ["with a flavor and an image that do not forbid SLOW"],
        ["with a flavor and an image that do not name SLOW"],
    ),
    "what its aggregates do not say": (
        case(aggregates={"ssd": frozenset({"true"})}),
        ["if an aggregate of node1 said so", "with a flavor that does not ask for ssd"],
        ["with a flavor that asks for other hosts"],
    ),
    "it is full": (
        case(host_capacity=full(3)),
        ["when 1 VCPU more is free on it"],
        ["when servers there are gone", "with a smaller flavor"],
    ),
    "it is more than full, since it was shrunk": (
        case(host_capacity=full(6)),
        ["when 4 VCPU more are free on it"],
        ["when servers there are gone", "with a smaller flavor"],
    ),
    "it is full and somebody leaves": (
        case(host_capacity=full(4), leaving=(DB_1,)),
        ["when 2 VCPU more are free on it", "when the resize of db-1 (move m-9) ends: that frees 2 VCPU"],
        ["when servers there are gone", "with a smaller flavor"],
    ),
    "it is too small": (
        case(resources={"VCPU": 8}),
        ["with a flavor of at most 4 VCPU: that is all it has"],
        ["when servers there are gone", "with a smaller flavor"],
    ),
    "it offers none of it": (
        case(resources={"VGPU": 1}),
        ["with a flavor of at most 0 VGPU: that is all it has"],
        ["when servers there are gone", "with a smaller flavor"],
    ),
    "it gives in steps": (
        case(resources={"VCPU": 3}, host_capacity={"VCPU": Inventory(8, 0, 2, 8, 2)}),
        ["with a flavor of 2 to 8 in steps of 2 VCPU"],
        ["when servers there are gone", "with a smaller flavor"],
    ),
    "a member is there": (
        case(group=ANTI, view_members={"id-node1": 1}, members=(WEB_2,)),
        ["when web-2 leaves its host or is deleted", "in a group whose max_server_per_host is above 1"],
        ["when web-2 leaves its host or is deleted", "in a group whose max_server_per_host is above 1"],
    ),
    "a member that leaves is there": (
        case(group=ANTI, view_members={"id-node1": 1}, members=(ON_ITS_WAY,)),
        [
            "when the live-migration of web-3 (move m-1) ends",
            "in a group whose max_server_per_host is above 1",
        ],
        [
            "when the live-migration of web-3 (move m-1) ends",
            "in a group whose max_server_per_host is above 1",
        ],
    ),
    "the group lives elsewhere": (
        case(group=TOGETHER, view_home="id-node2", members=(WEB_2,)),
        [
            "when the whole group has moved there: berthold group move g-1 --to node1",
            "when web-2 is deleted",
        ],
        ["when the whole group has moved there", "when web-2 is deleted"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_would_unblock_it(name: str) -> None:
    each, operators, owners = CASES[name]
    assert told(each)[1:] == (operators, owners)
    assert not [way for way in owners if "node1" in way or "p-9" in way]


def test_every_filter_has_such_a_case_and_a_sentence() -> None:
    assert {told(each)[0].filter for each, *_ in CASES.values()} == {filter.name for filter in FILTERS}
    names = {filter.name for filter in FILTERS} | {group_is_moving(case(group=TOGETHER).request).filter}
    assert names - NO_WAY == WAYS.keys()
    assert names - NO_OWNERS_WAY == OWNERS_WAYS.keys()


def test_the_first_refusal_is_the_one_that_placing_tells() -> None:
    each = case(host_disabled=True, host_capacity=full(4), zone="west")
    assert [refusal.filter for refusal in refusals(each.request, each.host, each.view)] == [
        "host state",
        "zone",
        "capacity",
    ]
    first = refuse(each.request, each.host, each.view)
    assert first is not None
    assert first.filter == "host state"


@pytest.mark.parametrize(
    ("occupant", "sentence"),
    [
        (WEB_2, "when web-2 leaves its host or is deleted"),
        (ON_ITS_WAY, "when the live-migration of web-3 (move m-1) ends"),
        (
            Occupant("s-3", "web-3", "home", None, "m-1", "live-migration", leaves=True),
            "when the live-migration of web-3 (move m-1) ends",
        ),
        (
            Occupant("s-3", "web-3", "home", None, "m-1", "stop"),
            "when web-3 leaves its host or is deleted",
        ),
        (
            Occupant("s-3", "web-3", "target", None, "m-1", "live-migration"),
            "when the live-migration of web-3 (move m-1) is undone, or web-3 goes on from there",
        ),
        (
            Occupant("s-3", "web-3", "source", None, "m-1", "resize", parked=True),
            "when the resize of web-3 is confirmed (openstack server resize confirm s-3)",
        ),
        (
            Occupant("s-3", "web-3", "home", None, "m-1", "resize", parked=True),
            "when the resize of web-3 is reverted (openstack server resize revert s-3)",
        ),
        (Occupant("s-3", "web-3", "left"), "when that host is back and has removed what it has of web-3"),
    ],
)
def test_when_an_occupant_gives_its_place_up(occupant: Occupant, sentence: str) -> None:
    assert gone(occupant) == sentence


@pytest.mark.parametrize(
    ("each", "rule"),
    [
        (case(host_capacity=full(4)), "C1"),
        (case(host_status="fenced"), "M5"),
        (case(group=ANTI, view_members={"id-node1": 1}), "G1"),
        (case(group=TOGETHER, view_home="id-node2"), "G2"),
        (case(queued=frozenset({"id-node1"})), "M7"),
        (case(zone="west"), None),
    ],
)
def test_the_promise_behind_a_refusal(each: Case, rule: str | None) -> None:
    assert rule_of(told(each)[0]) == rule


def test_a_group_on_its_way_is_a_refusal_of_the_ledgers() -> None:
    refusal = group_is_moving(case(group=TOGETHER).request)
    assert rule_of(refusal) == "G2"
    assert ways(refusal, case()) == ["when the group has arrived where it moves to, or is back"]
