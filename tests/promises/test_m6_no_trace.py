"""M6: what is undone leaves no trace: the ledger is as it was, but for what is counted and told."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import DBAPIError

from berthold.errors import Refused
from berthold.ledger import claims
from berthold.ledger.store import Store, Tx
from ledger_world import SMALL, add_group, add_hosts, add_server, claim, dump

# Generations only rise and the history is only added to.
TOLD = {"history", "provider"}


def cloud(tx: Tx, policy: str) -> None:
    add_hosts(tx, 3)
    add_group(tx, "web", policy)
    for name in ("a", "b"):
        add_server(tx, name, "web")
    claim(tx, "a", "h0")


@pytest.mark.parametrize("policy", ["anti-affinity", "soft-anti-affinity"])
def test_a_claim_that_is_released_leaves_everything_as_it_was(store: Store, policy: str) -> None:
    store.write_now(cloud, policy)
    before = dump(store)
    store.write_now(claims.release, store.write_now(claim, "a", "h1", "target"))
    after = dump(store)
    # A soft group's generation is what rankings have seen (G3).
    told = TOLD | {"server_group"} if policy.startswith("soft") else TOLD
    assert {name for name in after if after[name] != before[name]} <= told


def test_a_refusal_in_the_middle_of_a_list_undoes_what_was_granted_before_it(store: Store) -> None:
    store.write_now(cloud, "anti-affinity")
    before = dump(store)
    wants = [
        claims.Want("a", "h1", SMALL),
        claims.Want("b", "h2", SMALL, role="home"),
        claims.Want("b", "h0", SMALL),
    ]
    with pytest.raises(Refused) as refusal:
        store.write_now(claims.take, wants)
    assert refusal.value.rule == "G1"
    assert dump(store) == before


def test_a_bug_after_a_claim_undoes_it_too(store: Store) -> None:
    def faulty(tx: Tx) -> None:
        claim(tx, "b", "h1")
        tx.exec_driver_sql("SELECT no_such_column FROM claim")

    store.write_now(cloud, "anti-affinity")
    before = dump(store)
    with pytest.raises(DBAPIError, match="no_such_column"):
        store.write_now(faulty)
    assert dump(store) == before
