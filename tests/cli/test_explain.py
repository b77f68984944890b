"""`berthold explain server|group|move`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from berthold.lab.world import World
from commands import Berthold


@pytest.fixture
def web(world: World) -> tuple[str, str, str]:
    """An anti-affinity group with a member on either host: the group, and both."""
    group = world.group("anti-affinity")
    one, two = world.boot("web-1", group, host="node1"), world.boot("web-2", group, host="node2")
    return group, one, two


def test_a_server_s_hosts_are_told_one_by_one_with_what_would_unblock_each(
    berthold: Berthold, data: Path, web: tuple[str, str, str]
) -> None:
    ran = berthold("explain", "server", web[1], "--data", data)
    assert (ran.status, ran.error) == (0, "")
    assert ran.line("web-1 lives on node1.")
    assert ran.line("A live-migration that began now: 0 of 2 hosts would do.", "1 host: group rule")
    assert ran.line("node2  refused  (1 of its group there)")
    assert ran.line("group rule: Anti-affinity instance group policy was violated (G1): group web")
    assert ran.line("-> when web-2 leaves its host or is deleted")


def test_one_host_may_be_asked_about(berthold: Berthold, data: Path, web: tuple[str, str, str]) -> None:
    ran = berthold("explain", "server", web[1], "--host", "node1", "--data", data)
    assert ran.line("node1  refused")
    assert "node2" not in ran.text
    ran = berthold("explain", "server", web[1], "--host", "node9", "--data", data)
    assert (ran.status, ran.error) == (1, "There is no host node9.\n  without --host all are explained")


def test_of_many_hosts_those_are_shown_that_would_do_or_lack_least(
    berthold: Berthold, data: Path, world: World, web: tuple[str, str, str]
) -> None:
    move = world.live_migrate(web[1])
    world.settle()
    world.add_host("node3")
    subjects: list[tuple[str, str]] = [("server", web[1]), ("group", web[0]), ("move", move)]
    for subject in subjects:
        ran = berthold("explain", *subject, "--limit", 1, "--data", data)
        assert ran.line("1 of 3 hosts would do.", "group rule"), "counts are of all"
        assert ran.line("node3  would do")
        assert "refused" not in ran.text
        assert ran.line("… and 2 more hosts: --limit 0 shows all, --host NAME one.")
        assert ("… and 1 more host:" in ran.text) == (subject[0] != "group"), "of what the move had met"
        ran = berthold("explain", *subject, "--limit", 0, "--data", data)
        assert ran.line("node2  refused")
        assert "more host" not in ran.text
        assert "node1  refused" in ran.text
    ran = berthold("explain", "server", web[1], "--limit", 1, "--json", "--data", data)
    assert len(json.loads(ran.text)["now"]["hosts"]) == 3, "for programs"


def test_the_last_move_is_told_with_what_it_met(
    berthold: Berthold, data: Path, world: World, web: tuple[str, str, str]
) -> None:
    move = world.live_migrate(web[1])
    world.settle()
    ran = berthold("explain", "server", web[1], "--data", data)
    assert ran.line("The live-migration of web-1 failed and was undone: No valid host was found.")
    assert ran.line(f"move {move}, undone")
    ran = berthold("explain", "move", move, "--data", data)
    assert ran.line("node1  source host: the server is to leave this host")
    assert ran.line("A live-migration that began now: 0 of 2 hosts would do.")


def test_a_group_is_told_seat_by_seat(
    berthold: Berthold, data: Path, world: World, web: tuple[str, str, str]
) -> None:
    group, one, two = web
    move = world.resize(one)
    ran = berthold("explain", "group", group, "--data", data)
    assert ran.line("node1  1 of 1 seats")
    assert ran.line(one, f"web-1  home, resize under way (move {move})")
    assert ran.line(two, "web-2  home")
    assert ran.line("A further member: 0 of 2 hosts would do. 2 hosts: group rule")


def test_json_has_all_of_it(berthold: Berthold, data: Path, world: World, web: tuple[str, str, str]) -> None:
    group, one, two = web
    move = world.live_migrate(one)
    world.settle()
    shown = json.loads(berthold("explain", "server", one, "--json", "--data", data).text)
    assert shown["server"] == {"id": one, "name": "web-1"}
    assert shown["move"]["id"] == move
    assert shown["now"]["judged_as"] == "live-migration"
    (node2,) = [host for host in shown["now"]["hosts"] if host["host"] == "node2"]
    (why,) = node2["refused_by"]
    assert (why["cause"], why["rule"]) == ("group rule", "G1")
    assert why["blocked_by"] == [{"id": two, "name": "web-2", "move": None, "kind": None}]
    assert "when web-2 leaves its host or is deleted" in why["unblocks"]
    shown = json.loads(berthold("explain", "move", move, "--json", "--data", data).text)
    assert (shown["move"]["state"], shown["now"]["would_do"]) == ("undone", 0)
    shown = json.loads(berthold("explain", "group", group, "--json", "--data", data).text)
    assert [domain["host"] for domain in shown["domains"]] == ["node1", "node2"]
    assert shown["further_member"]["judged_as"] == "create"


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("server", "Instance nothing could not be found."),
        ("group", "Instance group nothing could not be found."),
        ("move", "Move nothing could not be found."),
    ],
)
def test_what_is_not_there_is_said_not_to_be(
    berthold: Berthold, data: Path, what: str, sentence: str
) -> None:
    ran = berthold("explain", what, "nothing", "--data", data)
    assert (ran.status, ran.error.splitlines()[0]) == (1, sentence)
    assert "ids are shown by: " in ran.error


def test_what_would_help_on_several_hosts_is_said_once(berthold: Berthold, data: Path, world: World) -> None:
    world.add_host("node3")
    group = world.group("affinity")
    for name in ("w1", "w2", "w3"):
        world.boot(name, group, host="node1")
    ran = berthold("explain", "group", group, "--data", data)
    for host in ("node2", "node3"):
        assert ran.line(f"-> when the whole group has moved there: berthold group move {group} --to {host}")
    assert ran.line("-> node2, node3: when w1, w2 and w3 are deleted")
    assert ran.text.count("are deleted") == 1
