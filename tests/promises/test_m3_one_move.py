"""M3: a server has at most one unfinished move; a delete takes its place in one transaction."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from berthold.errors import Stale, WrongState
from berthold.ledger import moves, outbox, schema, servers
from berthold.ledger.store import Store, Tx
from ledger_world import PROJECT, add_hosts, add_move, add_server, claim, violations
from races import Actor, processes, race, writing

LEASE_S = 5.0


def cloud(tx: Tx) -> None:
    add_hosts(tx, 2)
    add_server(tx, "s", condition="active")
    claim(tx, "s", "h0")


def delete(tx: Tx) -> str:
    """What the API does: supersede what stands, unless it is a delete."""
    servers.hold(tx, "s")
    standing = moves.unfinished(tx, "s")
    if standing and standing["kind"] == "delete":
        return "already"
    moves.supersede(tx, "s")
    return moves.begin(
        tx,
        server_id="s",
        kind="delete",
        playbook="delete",
        wish={},
        request_id="req-2",
        user_id="u",
        project_id=PROJECT,
    )


def unfinished(tx: Tx) -> list[str]:
    m = schema.move.c
    return list(tx.execute(select(m.kind).where(m.state.in_(schema.UNFINISHED))).scalars())


def leased(store: Store) -> moves.Lease:
    store.write_now(add_move, "s")
    (lease,) = store.write_now(moves.take, "conductor", LEASE_S)
    return lease


def claim_line(tx: Tx, lease: moves.Lease) -> None:
    """A line of a playbook: progress, claim and ask in one transaction."""
    moves.hold(tx, lease)
    claim(tx, "s", "h1", "target", move_id=lease.move_id)
    outbox.send(tx, move_id=lease.move_id, slot="1", server_id="s", host_id="h1", verb="prepare", args={})
    servers.change(tx, "s", details={"seen": True})
    moves.write(tx, lease, line=1)


def test_of_two_moves_begun_at_once_one_is(database_url: str) -> None:
    with processes(database_url) as stores:
        stores[0].write_now(cloud)
        results = race([writing(stores[n % 4], add_move, "s") for n in range(8)])
        assert sorted(type(each).__name__ for each in results) == ["WrongState"] * 7 + ["str"]
        assert violations(stores[0], "M3") == []


def test_a_delete_ends_the_move_and_voids_what_it_asked(store: Store) -> None:
    store.write_now(cloud)
    lease = leased(store)
    store.write_now(claim_line, lease)
    store.write_now(delete)
    assert store.read_now(unfinished) == ["delete"]
    assert store.read_now(outbox.of_slot, lease.move_id, ["1"])[0].state == "void"
    with pytest.raises(Stale):
        store.write_now(claim_line, lease)


def test_nothing_begins_on_a_server_that_is_being_deleted(store: Store) -> None:
    store.write_now(cloud)
    store.write_now(delete)
    with pytest.raises(WrongState):
        store.write_now(add_move, "s")
    assert store.write_now(delete) == "already"


def test_moves_and_deletes_racing_leave_one_delete(database_url: str) -> None:
    with processes(database_url) as stores:
        stores[0].write_now(cloud)
        calls = [writing(stores[n % 4], delete) for n in range(5)]
        calls += [writing(stores[n % 4], add_move, "s") for n in range(15)]
        results = race(calls)
        assert all(isinstance(each, str | WrongState) for each in results), results
        assert sum(isinstance(each, str) and each != "already" for each in results[:5]) == 1
        assert stores[0].read_now(unfinished) == ["delete"]
        assert violations(stores[0], "M3") == []


@pytest.mark.parametrize("standing", [False, True], ids=["nothing stands", "a move stands"])
@pytest.mark.parametrize("stop", ["SELECT move.number, move.id", "INSERT INTO move"])
def test_no_move_slips_in_while_a_delete_begins(postgresql_url: str, stop: str, standing: bool) -> None:
    with processes(postgresql_url, 2) as (one, two):
        one.write_now(cloud)
        if standing:
            one.write_now(add_move, "s", "resize")
        deleter = Actor(one, delete, stop=stop).reached()
        mover = Actor(two, add_move, "s")
        assert mover.waits()
        assert isinstance(deleter.end(), str)
        assert isinstance(mover.end(), WrongState)
        assert one.read_now(unfinished) == ["delete"]


@pytest.mark.parametrize("stop", ["INSERT INTO claim", "INSERT INTO ask", "UPDATE server SET", "UPDATE move"])
def test_a_delete_over_a_line_in_flight_waits_for_it_without_a_deadlock(
    postgresql_url: str, stop: str
) -> None:
    with processes(postgresql_url, 2) as (one, two):
        one.write_now(cloud)
        lease = leased(one)
        line = Actor(one, claim_line, lease, stop=stop).reached()
        deleter = Actor(two, delete)
        assert deleter.waits()
        assert line.end() is None
        assert isinstance(deleter.end(), str)
        assert (one.retries, two.retries) == (0, 0)
        assert one.read_now(unfinished) == ["delete"]
        assert one.read_now(outbox.of_slot, lease.move_id, ["1"])[0].state == "void"
        assert violations(one, "M3", "M1", "C1") == []
