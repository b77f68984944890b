"""The judge on histories written by hand: it finds what is broken, names it, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from berthold.lab.judge import judge

Row = dict[str, Any]
ROOM = {"VCPU": 4}


def history(*rows: Row) -> list[Row]:
    """Events in order; what a row does not say is as for a server without a group."""
    plain: Row = {
        "claim_id": None, "server_id": None, "host_id": None, "move_id": None, "group_id": None,
        "policy": "none", "per_host": 1, "amounts": {},
    }  # fmt: skip
    return [{**plain, "number": number, "at": float(number), **row} for number, row in enumerate(rows, 1)]


def offered(host: str, vcpus: int = 4) -> Row:
    return {"event": "offered", "host_id": host, "amounts": {"VCPU": vcpus}}


def claimed(
    claim: str, server: str, host: str, policy: str = "none", vcpus: int = 1, per_host: int = 1
) -> Row:
    group = None if policy == "none" else "web"
    return {
        "event": "claimed", "claim_id": claim, "server_id": server, "host_id": host, "policy": policy,
        "group_id": group, "per_host": per_host, "amounts": {"VCPU": vcpus},
    }  # fmt: skip


def told(event: str, claim: str, server: str, host: str) -> Row:
    return {"event": event, "claim_id": claim, "server_id": server, "host_id": host}


HOSTS = (offered("h1"), offered("h2"), offered("h3"))
APART, TOGETHER = "anti-affinity", "affinity"


def promises(*rows: Row) -> list[str]:
    return [finding.promise for finding in judge(history(*HOSTS, *rows))]


def test_a_live_migration_is_in_order() -> None:
    rows = (
        claimed("1", "a", "h1", APART),
        told("home", "1", "a", "h1"),
        claimed("2", "a", "h2", APART),
        told("home", "2", "a", "h2"),
        told("freed", "1", "a", "h1"),
        claimed("3", "b", "h1", APART),
    )
    assert judge(history(*HOSTS, *rows)) == []


def test_a_second_member_on_a_host_is_found_with_both_servers_and_the_host() -> None:
    rows = (claimed("1", "a", "h1", APART), claimed("2", "b", "h1", APART), told("freed", "1", "a", "h1"))
    (finding,) = judge(history(*HOSTS, *rows))
    assert (finding.promise, finding.rule, finding.group) == ("G1", APART, "web")
    assert (finding.servers, finding.host, finding.number) == (("b", "a"), "h1", 5)
    assert "server b joins a" in str(finding)


def test_the_order_is_that_of_the_numbers() -> None:
    rows = history(*HOSTS, claimed("1", "a", "h1", APART), told("freed", "1", "a", "h1"))
    rows += [{**history(claimed("2", "b", "h1", APART))[0], "number": 6}]
    assert judge(reversed(rows)) == []


def test_several_claims_of_one_member_count_once_and_per_host_is_obeyed() -> None:
    assert promises(claimed("1", "a", "h1", APART), claimed("2", "a", "h1", APART)) == ["M2"]
    home = told("home", "1", "a", "h1")
    assert promises(claimed("1", "a", "h1", APART), home, claimed("2", "a", "h1", APART)) == []
    two = [claimed(name, name, "h1", APART, per_host=2) for name in ("a", "b")]
    assert promises(*two) == []
    assert promises(*two, claimed("c", "c", "h1", APART, per_host=2)) == ["G1"]


def test_what_was_left_behind_keeps_its_seat_and_not_its_place() -> None:
    left = (claimed("1", "a", "h1", APART), told("home", "1", "a", "h1"), told("left", "1", "a", "h1"))
    assert promises(*left, claimed("2", "b", "h1", APART)) == ["G1"]
    left = (claimed("1", "a", "h1", TOGETHER), told("home", "1", "a", "h1"), told("left", "1", "a", "h1"))
    assert promises(*left, claimed("2", "a", "h2", TOGETHER), claimed("3", "b", "h2", TOGETHER)) == []


def test_an_affinity_group_is_on_one_host_or_its_one_member_moves() -> None:
    one = (claimed("1", "a", "h1", TOGETHER), told("home", "1", "a", "h1"))
    assert promises(*one, claimed("2", "b", "h1", TOGETHER)) == []
    assert promises(*one, claimed("2", "a", "h2", TOGETHER)) == []
    assert promises(*one, claimed("2", "b", "h2", TOGETHER)) == ["G2"]
    assert promises(*one, claimed("2", "a", "h2", TOGETHER), claimed("3", "b", "h2", TOGETHER)) == ["G2"]
    assert promises(*one, claimed("2", "b", "h1", TOGETHER), claimed("3", "a", "h2", TOGETHER)) == ["G2"]


def test_a_group_that_is_gone_rules_no_more() -> None:
    gone = {"event": "ungrouped", "server_id": "a", "group_id": "web"}
    assert promises(claimed("1", "a", "h1", APART), gone, claimed("2", "b", "h1", APART)) == []


def test_capacity_is_broken_by_a_claim_that_raises_and_not_by_a_shrink() -> None:
    full = claimed("1", "a", "h1", vcpus=4)
    assert promises(full, offered("h1", 2)) == []
    assert promises(full, offered("h1", 2), claimed("2", "b", "h1")) == ["C1"]
    (finding,) = judge(history(*HOSTS, full, claimed("2", "b", "h1")))
    assert (finding.servers, finding.host, finding.rule) == (("b", "a"), "h1", "VCPU")
    assert promises(claimed("1", "a", "unknown")) == ["C1"]


def test_what_was_never_claimed_is_neither_freed_nor_a_home() -> None:
    assert promises(told("freed", "1", "a", "h1")) == ["M1"]
    assert promises(told("home", "1", "a", "h1")) == ["M1"]
    once = (claimed("1", "a", "h1"), told("freed", "1", "a", "h1"))
    assert promises(*once, told("freed", "1", "a", "h1")) == ["M1"]
    assert promises(*once, claimed("1", "a", "h1")) == ["M1"]
    assert promises(claimed("1", "a", "h1"), told("home", "1", "b", "h1")) == ["M2"]


def test_a_server_has_one_home_and_goes_to_one_host() -> None:
    moving = (claimed("1", "a", "h1"), told("home", "1", "a", "h1"), claimed("2", "a", "h2"))
    assert promises(*moving) == []
    assert promises(*moving, claimed("3", "a", "h3")) == ["M2"]


def test_the_judge_shares_nothing_with_the_ledger() -> None:
    script = "import sys, berthold.lab.judge; sys.exit(any('ledger' in name for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
