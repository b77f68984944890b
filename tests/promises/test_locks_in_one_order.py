"""Locks are taken in one order: move, group, server, project, hosts. Whoever meets waits; nobody is
stopped by a deadlock and begun anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from berthold.ledger import claims, group_moves, groups, servers
from berthold.ledger.store import Tx
from ledger_world import PROJECT, add_group, add_hosts, add_server, claim, violations
from races import Actor, processes


def cloud(tx: Tx) -> None:
    add_hosts(tx, 2)
    add_group(tx, "db", "affinity")
    for name in ("db-1", "db-2"):
        add_server(tx, name, "db")
        claim(tx, name, "h0")


def bury(tx: Tx, server: str) -> None:
    """As the last line of a delete does it."""
    servers.hold_bill(tx, server)
    for row in claims.standing_rows(tx, server):
        claims.release(tx, row["id"])
    servers.bury(tx, server)


def depart(tx: Tx) -> None:
    """As a whole-group move begins."""
    group_moves.begin(
        tx,
        group_id="db",
        source_id="h0",
        target_id="h1",
        request_id="req",
        user_id="u",
        project_id=PROJECT,
    )
    servers.hold_members(tx, "db")


@pytest.mark.parametrize(
    "other", [lambda tx: groups.delete_group(tx, "db"), depart], ids=["group deleted", "group moves"]
)
def test_a_member_is_buried_while_something_is_done_with_its_whole_group(
    postgresql_url: str, other: Callable[[Tx], Any]
) -> None:
    with processes(postgresql_url, 2) as (here, there):
        here.write_now(cloud)
        one = Actor(here, bury, "db-1", stop=r"SELECT (server_group|project).id").reached()
        two = Actor(there, other)
        two.waits()
        assert (one.end(), two.end()) == (None, None)
        assert (here.retries, there.retries) == (0, 0)
        assert violations(here, "C1", "G1", "Q1") == []


def test_who_comes_second_is_told_that_the_group_moves(postgresql_url: str) -> None:
    with processes(postgresql_url, 2) as (here, there):
        here.write_now(cloud)
        one = Actor(here, depart, stop="INSERT INTO group_move").reached()
        two = Actor(there, depart)
        assert two.waits()
        assert one.end() is None
        assert str(two.end()) == "group db is moving; try again when it has arrived"
