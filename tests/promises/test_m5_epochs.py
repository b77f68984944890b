"""M5: a fenced host cannot act: asks and answers of an older epoch are refused, and answers are
recorded once and change nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from berthold.errors import Refused
from berthold.ledger import claims, hosts, moves, outbox, schema
from berthold.ledger.store import Store, Tx
from berthold.moves import left
from ledger_world import add_hosts, add_move, add_server, claim, dump, fence_and_leave
from races import Actor, processes, race, writing

DONE = {"ok": True}
OFFERS = {"VCPU": {"total": 64}, "MEMORY_MB": {"total": 65536}}


def cloud(tx: Tx) -> str:
    """A move that has asked h0 for something; the move's id."""
    add_hosts(tx, 2)
    add_server(tx, "s")
    move_id = add_move(tx, "s")
    claim(tx, "s", "h0", "target", move_id=move_id)
    ask(tx, move_id, "1")
    return move_id


def ask(tx: Tx, move_id: str, slot: str) -> None:
    outbox.send(tx, move_id=move_id, slot=slot, server_id="s", host_id="h0", verb="prepare", args={})


def asked(tx: Tx) -> dict[str, Any]:
    """The only ask."""
    return dict(tx.execute(select(schema.ask)).mappings().one())


def answer(tx: Tx, ask_id: str, epoch: int) -> bool:
    """What the agents' door does with an answer."""
    hosts.check_epoch(tx, "h0", epoch)
    return outbox.record_answer(tx, ask_id, "h0", DONE) is not None


def register(tx: Tx, key: str = "h0") -> int:
    return hosts.register(tx, name="h0", key=key, offers=OFFERS).epoch


def test_twenty_equal_answers_are_recorded_once(database_url: str) -> None:
    with processes(database_url) as stores:
        stores[0].write_now(cloud)
        open_ask = stores[0].read_now(asked)
        results = race([writing(stores[n % 4], answer, open_ask["id"], 1) for n in range(20)])
        assert sorted(map(repr, results)) == ["False"] * 19 + ["True"]
        after = stores[0].read_now(asked)
        assert (after["state"], after["answer"]) == ("done", DONE)


def test_an_answer_changes_nothing_but_the_ask(store: Store) -> None:
    store.write_now(cloud)
    before = dump(store)
    store.write_now(answer, store.read_now(asked)["id"], 1)
    after = dump(store)
    assert {name for name in after if after[name] != before[name]} == {"ask"}


def test_an_answer_of_an_older_epoch_is_refused(store: Store) -> None:
    store.write_now(cloud)
    old = store.read_now(asked)["id"]
    store.write_now(hosts.fence, "h0")
    before = dump(store)
    with pytest.raises(Refused) as refusal:
        store.write_now(answer, old, 1)
    assert refusal.value.rule == "M5"
    assert dump(store) == before


def test_of_two_agents_with_one_name_the_older_is_refused(store: Store) -> None:
    store.write_now(cloud)
    first, second = store.write_now(register), store.write_now(register)
    assert second == first + 1
    with pytest.raises(Refused, match="register anew"):
        store.write_now(hosts.check_epoch, "h0", first)
    store.write_now(hosts.check_epoch, "h0", second)


def test_another_machine_cannot_take_the_name_of_a_host_that_holds_servers(store: Store) -> None:
    store.write_now(cloud)
    before = dump(store)
    with pytest.raises(Refused, match="another machine"):
        store.write_now(register, "another")
    assert dump(store) == before


def test_agents_that_introduce_one_new_host_at_once_make_one(database_url: str) -> None:
    def introduce(tx: Tx) -> int:
        return hosts.register(tx, name="new", key="new", offers=OFFERS).epoch

    with processes(database_url) as stores:
        results = race([writing(stores[n % 4], introduce) for n in range(8)])
        assert sorted(results) == list(range(1, 9))  # type: ignore[type-var]


def test_what_was_not_answered_is_asked_again_at_the_new_epoch(store: Store) -> None:
    store.write_now(cloud)
    epoch = store.write_now(register)
    assert store.read_now(asked)["host_epoch"] == epoch
    assert store.write_now(answer, store.read_now(asked)["id"], epoch)


def test_an_answer_to_what_nobody_waits_for_any_more_is_not_recorded(store: Store) -> None:
    move_id = store.write_now(cloud)
    store.write_now(outbox.void, move_id)
    assert store.write_now(answer, store.read_now(asked)["id"], 1) is False
    assert store.read_now(asked)["state"] == "void"


def test_a_repeated_line_asks_once_and_every_ask_has_its_number(store: Store) -> None:
    move_id = store.write_now(cloud)
    store.write_now(ask, move_id, "1")
    store.write_now(ask, move_id, "2")
    numbers = store.read_now(lambda tx: [each["seq"] for each in outbox.open_for(tx, "h0")])
    assert numbers == [1, 2]


def test_asks_sent_at_once_to_one_host_have_different_numbers(database_url: str) -> None:
    with processes(database_url) as stores:
        move_id = stores[0].write_now(cloud)
        results = race([writing(stores[n % 4], ask, move_id, f"line {n}") for n in range(12)])
        assert results == [None] * 12
        numbers = stores[0].read_now(lambda tx: [each["seq"] for each in outbox.open_for(tx, "h0")])
        assert numbers == list(range(1, 14))


def test_a_claim_that_rests_on_an_older_view_of_the_host_is_refused(store: Store) -> None:
    store.write_now(cloud)
    store.write_now(register)
    want = claims.Want("s", "h0", {"VCPU": 1}, role="source", host_epoch=1)
    before = dump(store)
    with pytest.raises(Refused) as refusal:
        store.write_now(claims.take, [want])
    assert (refusal.value.rule, refusal.value.why) == ("M5", "host h0 is at epoch 2, not 1")
    assert dump(store) == before


def test_a_fence_waits_for_an_answer_that_is_being_recorded(postgresql_url: str) -> None:
    with processes(postgresql_url, 2) as (one, two):
        one.write_now(cloud)
        open_ask = one.read_now(asked)
        answerer = Actor(one, answer, open_ask["id"], 1, stop="UPDATE ask").reached()
        fencer = Actor(two, hosts.fence, "h0")
        assert fencer.waits()
        assert answerer.end() is True
        assert fencer.end() is None


def test_an_answer_that_waits_for_a_fence_is_refused(postgresql_url: str) -> None:
    with processes(postgresql_url, 2) as (one, two):
        one.write_now(cloud)
        open_ask = one.read_now(asked)
        fencer = Actor(one, hosts.fence, "h0", stop="UPDATE host").reached()
        answerer = Actor(two, answer, open_ask["id"], 1)
        assert answerer.waits()
        assert fencer.end() is None
        assert isinstance(answerer.end(), Refused)


def test_of_two_reports_of_one_host_one_asks_again_for_what_was_left(postgresql_url: str) -> None:
    """Both looked, both sent the same ask, and the second API process answered 500."""

    def flown(tx: Tx) -> None:
        add_hosts(tx, 1)
        add_server(tx, "s")
        fence_and_leave(tx, claim(tx, "s", "h0"), "h0")

    with processes(postgresql_url, 2) as (one, two):
        one.write_now(flown)
        first = Actor(one, left.ask_again, "h0", stop="INSERT INTO ask").reached()
        second = Actor(two, left.ask_again, "h0")
        assert second.waits()
        assert (first.end(), second.end()) == (None, None)
        assert one.read_now(asked)["slot"] == "left/0"


def test_a_superseded_moves_asks_are_void(store: Store) -> None:
    store.write_now(cloud)
    store.write_now(moves.supersede, "s")
    assert store.read_now(asked)["state"] == "void"
