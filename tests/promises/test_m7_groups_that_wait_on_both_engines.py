"""M7, G2: group moves that wait, as rows in a real database: one for a group, and nothing is held for it."""

from __future__ import annotations

import pytest

from berthold.errors import Refused
from berthold.ledger import group_moves
from berthold.ledger.store import Store, Tx
from ledger_world import PROJECT, add_group, add_hosts, add_server, claim, violations
from races import race, writing

WHO = {"group_id": "db", "source_id": "h0", "request_id": "req-1", "user_id": "u", "project_id": PROJECT}


def cloud(tx: Tx) -> None:
    """A group of one at home on h0."""
    add_hosts(tx, 2)
    add_group(tx, "db", "affinity")
    add_server(tx, "m0", "db")
    claim(tx, "m0", "h0")


def wait(tx: Tx) -> str:
    return group_moves.wait(tx, wish={"host": None, "wait_s": 60, "admin": True}, **WHO)


def begin(tx: Tx, waited: str | None = None) -> str:
    whole = group_moves.begin(tx, target_id="h1", waited=waited, **WHO)
    claim(tx, "m0", "h1", "target", move_id="part", group_move=whole)
    return whole


def test_of_requests_that_race_one_waits_or_goes(store: Store) -> None:
    store.write_now(cloud)
    results = race([writing(store, f) for f in (wait, wait, begin)])
    refused = [each for each in results if isinstance(each, Refused)]
    assert [each.rule for each in refused] == ["G2"] * 2
    assert len([each for each in results if isinstance(each, str)]) == 1
    assert violations(store, "C1", "G1", "G2", "M7") == []


def test_while_it_waits_its_group_is_open_and_it_goes_once(store: Store) -> None:
    store.write_now(cloud)
    whole = store.write_now(wait)
    store.write_now(add_server, "late", "db")
    store.write_now(claim, "late", "h0")
    assert store.write_now(begin, whole) == whole
    with pytest.raises(Refused, match="does not wait any more"):
        store.write_now(begin, whole)
    assert store.read_now(group_moves.find, whole)["target_id"] == "h1"
    assert violations(store, "C1", "G1", "G2", "M7") == []
