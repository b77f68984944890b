"""Explanations and compliance: operators are told host by host, owners by class of cause.

An owner's answer names no host, and nobody else's server (T1).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from berthold.api.views.fields import iso_long
from berthold.ledger import hosts, inventories
from berthold.ledger.store import Tx
from berthold.moves.auditor import judge
from berthold.records import violations

LIVE = {"host": None, "block_migration": "auto"}


@pytest.fixture
def web(cloud: Any) -> tuple[str, str, str]:
    """Ann's anti-affinity group with a member on either of two hosts: the group, and both."""
    cloud.host("node1")
    cloud.host("node2")
    group = cloud.group("ann")
    one, two = (cloud.server(name, hints={"group": group}) for name in ("web-1", "web-2"))
    return group, one, two


def explained(cloud: Any, path: str, who: str = "admin", thing: str = "explanation") -> dict[str, Any]:
    answer = cloud.get(path, who, "2.96")
    assert answer.status == 200, answer.json
    found: dict[str, Any] = answer.json[thing]
    return found


def words(document: Any) -> str:
    return msgspec.json.encode(document).decode()


def hosts_of(cloud: Any) -> list[str]:
    return [*cloud.world.agents, *(cloud.world.host_id(name) for name in cloud.world.agents)]


# -- Servers ------------------------------------------------------------------------------


def test_an_operator_is_told_host_by_host(cloud: Any, web: tuple[str, str, str]) -> None:
    _, one, two = web
    now = explained(cloud, f"/servers/{one}/explain")["now"]
    assert (now["judged_as"], now["would_do"]) == ("live-migration", 0)
    other = cloud.shown(two)["OS-EXT-SRV-ATTR:host"]
    (host,) = [each for each in now["hosts"] if each["host"] == other]
    assert (host["would_do"], host["group_members"]) == (False, 1)
    (why,) = host["refused_by"]
    assert (why["cause"], why["rule"]) == ("group rule", "G1")
    assert why["reason"].startswith("Anti-affinity instance group policy was violated")
    assert why["blocked_by"] == [{"id": two, "name": "web-2", "move": None, "kind": None}]
    assert "when web-2 leaves its host or is deleted" in why["unblocks"]


@pytest.mark.parametrize("who", ["ann", "mel", "rita"])
def test_an_owner_is_told_by_class_of_cause_and_of_no_host(
    cloud: Any, web: tuple[str, str, str], who: str
) -> None:
    _, one, two = web
    shown = explained(cloud, f"/servers/{one}/explain", who)
    assert shown["now"]["says"] == "0 of 2 hosts would do. 1 host: group rule, 1 host: source host"
    assert "hosts" not in shown["now"]
    assert shown["now"]["refused"][0] == {
        "hosts": 1,
        "refused_by": [
            {
                "cause": "group rule",
                "rule": "G1",
                "blocked_by": [{"id": two, "name": "web-2", "move": None, "kind": None}],
                "unblocks": [
                    "when web-2 leaves its host or is deleted",
                    "in a group whose max_server_per_host is above 1",
                ],
            }
        ],
    }
    assert not [host for host in hosts_of(cloud) if host in words(shown)]


def test_nothing_of_other_projects_is_told(cloud: Any) -> None:
    """Bob fills a host and leaves it; Ann is told that it is full, and nothing of Bob."""
    cloud.host("node1", vcpus=1)
    cloud.host("node2", vcpus=1)
    bobs = cloud.server("bobs-server", "bob")
    anns = cloud.server("anns-server", "ann")
    shown = explained(cloud, f"/servers/{anns}/explain", "ann")
    assert shown["now"]["says"] == "0 of 2 hosts would do. 1 host: capacity, 1 host: source host"
    (why,) = shown["now"]["refused"][0]["refused_by"]
    assert (why["rule"], why["blocked_by"]) == ("C1", [])
    assert not [word for word in ("bob", bobs, "b" * 32) if word in words(shown)]
    asked = explained(cloud, f"/servers/{anns}/explain")
    assert not [word for word in (bobs, "b" * 32) if word in words(asked["now"]["refused"])]


def test_one_host_may_be_asked_about_by_operators_only(
    cloud: Any, web: tuple[str, str, str], fault: Any
) -> None:
    one = web[1]
    now = explained(cloud, f"/servers/{one}/explain?host=node1")["now"]
    assert [host["host"] for host in now["hosts"]] == ["node1"]
    fault(cloud.get(f"/servers/{one}/explain?host=node1", "ann"), 403)
    fault(cloud.get(f"/servers/{one}/explain?host=node9"), 404)
    fault(cloud.get(f"/servers/{one}/explain?hosts=node1", version="2.96"), 400)


@pytest.mark.parametrize("what", ["server", "group", "move"])
def test_hosts_come_in_pages_and_what_is_said_of_all_is_on_each(
    cloud: Any, web: tuple[str, str, str], fault: Any, what: str
) -> None:
    group, one, _ = web
    cloud.act(one, "os-migrateLive", LIVE)
    cloud.world.settle()
    move = explained(cloud, f"/servers/{one}/explain")["move"]["id"]
    cloud.host("node3")  # which the move has not met
    path = {
        "server": f"/servers/{one}/explain",
        "group": f"/os-server-groups/{group}/explain",
        "move": f"/berthold-moves/{move}/explain",
    }[what]
    look = "further_member" if what == "group" else "now"
    whole = explained(cloud, path)
    following, pages = f"{path}?limit=2", list[Any]()
    while following and len(pages) < 3:
        answer = cloud.get(following, version="2.96").json
        pages.append(answer["explanation"])
        (link,) = answer.get("explanation_links", [{"href": ""}])
        following = link["href"].removeprefix("http://cloud/v2.1")
    assert [[host["host"] for host in page[look]["hosts"]] for page in pages] == [
        ["node1", "node2"],
        ["node3"],
    ]
    for page in pages:
        assert {**page[look], "hosts": whole[look]["hosts"]} == whole[look]
    if what != "group":
        assert [len(page["move"]["hosts"]) for page in pages] == [2, 0]
    assert "explanation_links" not in cloud.get(f"{path}?limit=3", version="2.96").json
    assert "node9" in fault(cloud.get(f"{path}?marker=node9", version="2.96"), 400)
    for query in ("limit=2", "marker=node1", "marker=node9", "host=node9"):
        fault(cloud.get(f"{path}?{query}", "ann", "2.96"), 403)


def test_a_page_of_hosts_is_as_long_as_any_other_where_none_says(
    cloud: Any, web: tuple[str, str, str]
) -> None:
    short = replace(cloud.world.settings, page_max=1)
    cloud.app = cloud.over_http(settings=short)
    answer = cloud.get(f"/servers/{web[1]}/explain", version="2.96").json
    assert [host["host"] for host in answer["explanation"]["now"]["hosts"]] == ["node1"]
    assert answer["explanation_links"][0]["href"].endswith("/explain?marker=node1")
    assert "explanation_links" not in cloud.get(f"/servers/{web[1]}/explain", "ann", "2.96").json


def test_a_server_s_last_move_comes_with_it(cloud: Any, web: tuple[str, str, str]) -> None:
    one = web[1]
    assert cloud.act(one, "os-migrateLive", LIVE).status == 202
    under_way = explained(cloud, f"/servers/{one}/explain", "ann")["move"]
    assert (under_way["kind"], under_way["state"]) == ("live-migration", "running")
    cloud.world.settle()
    shown = explained(cloud, f"/servers/{one}/explain", "ann")["move"]
    assert shown["state"] == "undone"
    assert "No valid host was found." in shown["says"]
    assert "hosts" not in shown
    shown = explained(cloud, f"/servers/{one}/explain")["move"]
    assert [host["host"] for host in shown["hosts"]] == ["node1", "node2"]


# -- Moves --------------------------------------------------------------------------------


def test_a_move_is_explained_under_its_own_id(cloud: Any, web: tuple[str, str, str]) -> None:
    one = web[1]
    cloud.act(one, "os-migrateLive", LIVE)
    cloud.world.settle()
    move = explained(cloud, f"/servers/{one}/explain", "ann")["move"]["id"]
    (migration,) = cloud.get(f"/os-migrations?instance_uuid={one}", version="2.59").json["migrations"]
    assert migration["uuid"] == move
    operators = explained(cloud, f"/berthold-moves/{move}/explain")
    refused = {host["host"]: host["refused_by"][0]["cause"] for host in operators["move"]["hosts"]}
    assert sorted(refused.values()) == ["group rule", "source host"]
    assert operators["now"]["would_do"] == 0
    owners = explained(cloud, f"/berthold-moves/{move}/explain", "ann")
    assert owners["move"]["refused"][0]["refused_by"][0]["rule"] == "G1"
    assert not [host for host in hosts_of(cloud) if host in words(owners)]


def test_what_a_move_waits_for_on_which_host_is_for_operators(cloud: Any, web: tuple[str, str, str]) -> None:
    cloud.host("node3")
    one = web[1]
    cloud.act(one, "os-migrateLive", LIVE)
    (move,) = cloud.world.unfinished()
    cloud.world.step(move)
    assert "node3 was asked to" in explained(cloud, f"/berthold-moves/{move}/explain")["move"]["says"]
    owners = explained(cloud, f"/berthold-moves/{move}/explain", "ann")["move"]["says"]
    assert "waits for a host's answer" in owners
    assert "node3" not in owners


def test_another_project_s_move_is_not_found(cloud: Any, web: tuple[str, str, str], fault: Any) -> None:
    move = explained(cloud, f"/servers/{web[1]}/explain")["move"]["id"]
    assert (
        fault(cloud.get(f"/berthold-moves/{move}/explain", "bob"), 404) == f"Move {move} could not be found."
    )
    nobodys = "00000000-0000-4000-8000-000000000000"
    assert (
        fault(cloud.get(f"/berthold-moves/{nobodys}/explain"), 404) == f"Move {nobodys} could not be found."
    )


# -- Groups -------------------------------------------------------------------------------


def test_a_group_is_explained_domain_by_domain(cloud: Any, web: tuple[str, str, str]) -> None:
    group, one, two = web
    cloud.act(one, "resize", {"flavorRef": cloud.flavor("200")})
    shown = explained(cloud, f"/os-server-groups/{group}/explain")
    assert shown["group"]["max_server_per_host"] == 1
    holders = {domain["host"]: domain["holders"] for domain in shown["domains"]}
    assert set(holders) == {"node1", "node2"}
    by_id = {each["id"]: each for (each,) in holders.values()}
    assert (by_id[one]["kind"], by_id[two]["kind"]) == ("resize", None)
    assert shown["further_member"]["would_do"] == 0
    owners = explained(cloud, f"/os-server-groups/{group}/explain", "ann")
    assert {domain["members"] for domain in owners["domains"]} == {1}
    assert not [host for host in hosts_of(cloud) if host in words(owners)]


# -- Compliance ---------------------------------------------------------------------------


def shrink(cloud: Any, host: str) -> None:
    def change(tx: Tx) -> None:
        hosts.lock(tx, cloud.world.host_id(host))
        offers = {"VCPU": {"total": 0}, "MEMORY_MB": {"total": 4096}, "DISK_GB": {"total": 100}}
        inventories.set_inventory(tx, cloud.world.host_id(host), offers)

    cloud.store.write_now(change)


def test_a_group_that_keeps_its_rule_complies(cloud: Any, web: tuple[str, str, str]) -> None:
    group, one, two = web
    for who in ("admin", "ann"):
        shown = explained(cloud, f"/os-server-groups/{group}/compliance", who, "compliance")
        assert shown["complies"]
        assert {member["id"]: member["findings"] for member in shown["members"]} == {one: [], two: []}


def test_a_shrunk_host_is_told_to_operators_by_name_and_to_owners_without(
    cloud: Any, web: tuple[str, str, str]
) -> None:
    group, one, _ = web
    host = cloud.shown(one)["OS-EXT-SRV-ATTR:host"]
    shrink(cloud, host)
    path = f"/os-server-groups/{group}/compliance"
    shown = explained(cloud, path, thing="compliance")
    assert not shown["complies"]
    assert {member["id"] for member in shown["members"] if not member["complies"]} == {one}
    ((finding,),) = [member["findings"] for member in shown["members"] if member["findings"]]
    assert (finding["kind"], finding["rule"], finding["host"]) == ("violation", "C1", host)
    assert f"let {host} offer 1 VCPU more again" in finding["mends"]
    owners = explained(cloud, path, "ann", "compliance")
    ((finding,),) = [member["findings"] for member in owners["members"] if member["findings"]]
    assert finding["says"] == "its host holds more than its capacity"
    assert not [each for each in hosts_of(cloud) if each in words(owners)]


def test_since_when_the_auditor_has_seen_it_is_told(cloud: Any, web: tuple[str, str, str]) -> None:
    group, one, _ = web
    shrink(cloud, cloud.shown(one)["OS-EXT-SRV-ATTR:host"])
    cloud.store.write_now(lambda tx: violations.keep(tx, judge(tx)) and None)
    seen = iso_long(cloud.clock.now())
    cloud.world.pass_time(60.0)
    shown = explained(cloud, f"/os-server-groups/{group}/compliance", "ann", "compliance")
    ((finding,),) = [member["findings"] for member in shown["members"] if member["findings"]]
    assert finding["since"] == seen


def test_nova_s_own_answer_for_a_group_stays_as_it_is(cloud: Any, web: tuple[str, str, str]) -> None:
    shown = cloud.get(f"/os-server-groups/{web[0]}", "ann", "2.64").json["server_group"]
    assert set(shown) == {"id", "name", "policy", "rules", "members", "project_id", "user_id"}
