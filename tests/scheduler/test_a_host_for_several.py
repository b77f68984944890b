"""One host for several servers at once: each one's own wishes, and room for all of them together."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from berthold.scheduler.request import Request
from berthold.scheduler.supply import HostView, Inventory, Supply
from berthold.scheduler.together import Together, rank_together
from berthold.scheduler.view import View


def host(name: str, free: int, zone: str = "nova", most: int = 64) -> HostView:
    offer = {"VCPU": Inventory(64, 64 - free, max_unit=most)}
    return HostView(id=f"id-{name}", name=name, capacity=offer, zone=zone)


def wish(vcpus: int = 1, **more: object) -> Request:
    return Request(**{"resources": {"VCPU": vcpus}, "server_id": "s", "project_id": "p", **more})  # type: ignore[arg-type]


def judged(hosts: list[HostView], *requests: Request) -> Together:
    view = View(Supply.of(hosts, {each.id: 1000.0 for each in hosts}), heard_since=990.0)
    named = {f"db-{number}": request for number, request in enumerate(requests, 1)}
    return rank_together(named, view, random.Random(0))


def names(judged: Together) -> list[str]:
    return [each.name for each in judged.ranking]


def test_room_for_each_is_not_room_for_all() -> None:
    found = judged([host("small", 3), host("large", 4)], wish(2), wish(2))
    assert names(found) == ["large"]
    assert found.refused["small"].reason == "not enough VCPU for all: wanted 4, free 3 of 64"


def test_together_they_may_be_more_than_one_claim_may_be() -> None:
    assert names(judged([host("one", 8, most=2)], wish(2), wish(2))) == ["one"]


def test_one_members_wish_binds_all_and_is_named() -> None:
    found = judged([host("a", 9), host("b", 9, zone="far")], wish(), wish(zone="far"))
    assert names(found) == ["b"]
    assert found.refused["a"].reason.startswith("db-2: the host is in availability zone nova")


def test_the_emptiest_comes_first() -> None:
    assert names(judged([host("full", 4), host("empty", 60)], wish(), wish())) == ["empty", "full"]


def test_no_hosts_at_all() -> None:
    found = judged([], wish())
    assert (names(found), found.refused) == ([], {})


@given(
    free=st.lists(st.integers(0, 6), max_size=6),
    wants=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    far=st.sets(st.integers(0, 5)),
)
def test_every_host_is_a_candidate_or_has_its_reason(
    free: list[int], wants: list[int], far: set[int]
) -> None:
    hosts = [host(f"n{n}", room, "far" if n in far else "nova") for n, room in enumerate(free)]
    found = judged(hosts, *(wish(vcpus, zone="nova" if n == 0 else None) for n, vcpus in enumerate(wants)))
    assert sorted([*names(found), *found.refused]) == sorted(each.name for each in hosts)
    for each in hosts:
        fits = each.zone == "nova" and each.capacity["VCPU"].free >= sum(wants)
        assert (each.name in names(found)) == fits
