"""A server that exists is given a port, or gives one up: once for each move, counted, and never too late."""

from __future__ import annotations

from pathlib import Path

import pytest

from berthold.companions import interfaces, network, ports, quotas
from berthold.companions.quotas import OverQuota
from berthold.errors import Malformed, NotFound, WrongState
from berthold.ledger.store import Store, Tx
from berthold.neighbours import Port, port_id
from races import processes, race, writing


@pytest.fixture
def on(store: Store) -> str:
    return store.write_now(a_network)


def a_network(tx: Tx) -> str:
    """A network on which the servers s1 and s2 have no ports yet."""
    made = network.make_network(tx, "p1", name="n", shared=False)
    network.make_subnet(tx, "p1", made.id, "10.0.0.0/24")
    for server in ("s1", "s2"):
        ports.plug(tx, "p1", server, [])
    return str(made.id)


def attach(store: Store, move: str, wish: dict[str, str], server: str = "s1") -> Port:
    return store.write_now(interfaces.attach, "p1", server, move, wish, "node1")


def has(store: Store, server: str = "s1") -> list[str]:
    return [port.id for port in store.read_now(ports.server_ports, server)]


def used(store: Store) -> int:
    return store.read_now(quotas.of, "p1", ["port"])["port"].used


def of_the_owner(store: Store, on: str) -> str:
    return store.write_now(lambda tx: ports.make_port(tx, "p1", on))


def test_a_port_is_made_once_for_a_move_and_comes_after_the_others(store: Store, on: str) -> None:
    one = attach(store, "m1", {"uuid": on})
    assert one.id == port_id("m1")
    assert attach(store, "m1", {"uuid": on}) == one
    two = attach(store, "m2", {"uuid": on, "fixed_ip": "10.0.0.77"})
    assert [address["ip_address"] for address in two.addresses] == ["10.0.0.77"]
    assert has(store) == [one.id, two.id]
    assert used(store) == 2
    store.write_now(interfaces.detach, "s1", one.id, "m3")
    three = attach(store, "m4", {"uuid": on})
    assert has(store) == [two.id, three.id]
    store.write_now(ports.unplug, "s1")
    assert (has(store), used(store)) == ([], 0)


def test_what_is_undone_leaves_nothing_and_is_not_given_late(store: Store, on: str) -> None:
    lent = of_the_owner(store, on)
    before = store.read_now(ports.ports_where)
    for move, wish in (("m1", {"uuid": on}), ("m2", {"port": lent})):
        attach(store, move, wish)
        for _ in range(2):
            store.write_now(interfaces.undo_attach, "s1", move, wish)
        now = store.read_now(ports.ports_where)
        assert [(row.id, row.server_id, row.device_owner, row.position, row.host) for row, _ in now] == [
            (row.id, row.server_id, row.device_owner, row.position, row.host) for row, _ in before
        ]
        with pytest.raises(WrongState, match="was taken back"):
            attach(store, move, wish)
    assert used(store) == 1


def test_what_was_never_done_is_undone_for_good(store: Store, on: str) -> None:
    """The owner has lent the port by another move meanwhile: that stays."""
    lent = of_the_owner(store, on)
    attach(store, "m1", {"port": lent})
    store.write_now(interfaces.undo_attach, "s1", "m2", {"port": lent})
    assert has(store) == [lent]
    with pytest.raises(WrongState, match="was taken back"):
        attach(store, "m2", {"uuid": on})


def test_a_late_detach_takes_nothing_that_was_attached_since(store: Store, on: str) -> None:
    lent = of_the_owner(store, on)
    attach(store, "m1", {"port": lent})
    store.write_now(interfaces.detach, "s1", lent, "m2")
    assert has(store) == []
    attach(store, "m3", {"port": lent})
    store.write_now(interfaces.detach, "s1", lent, "m2")
    assert has(store) == [lent]
    store.write_now(interfaces.detach, "s2", lent, "m4")
    assert has(store) == [lent], "another server's"


def test_a_server_that_is_gone_gets_nothing(store: Store, on: str) -> None:
    attach(store, "m1", {"uuid": on})
    store.write_now(ports.unplug, "s1")
    for move, server in (("m1", "s1"), ("m2", "s1"), ("m3", "never")):
        with pytest.raises(WrongState, match="was unplugged"):
            attach(store, move, {"uuid": on}, server)
    store.write_now(interfaces.undo_attach, "s1", "m1", {"uuid": on})
    assert (has(store), used(store)) == ([], 0)


def test_what_cannot_be_given_is_refused_and_nothing_is_kept_of_it(store: Store, on: str) -> None:
    mine = of_the_owner(store, on)
    attach(store, "m1", {"port": mine}, "s2")
    theirs = store.write_now(lambda tx: ports.make_port(tx, "p2", on))
    store.write_now(quotas.set_limits, "p1", {"port": 1})
    for wish, error in (
        ({"port": mine}, WrongState),
        ({"port": theirs}, NotFound),
        ({"port": "nothing"}, NotFound),
        ({"uuid": "nowhere"}, NotFound),
        ({"uuid": on}, OverQuota),
        ({"uuid": on, "fixed_ip": "192.168.0.1"}, OverQuota),
    ):
        with pytest.raises(error):
            attach(store, "m2", wish)
    store.write_now(quotas.set_limits, "p1", {"port": 2})
    with pytest.raises(Malformed, match="belongs to no subnet"):
        attach(store, "m2", {"uuid": on, "fixed_ip": "192.168.0.1"})
    assert (has(store), used(store)) == ([], 1)
    assert attach(store, "m2", {"uuid": on}).id == port_id("m2")


def test_a_port_that_a_server_has_is_not_free(store: Store, on: str) -> None:
    lent = of_the_owner(store, on)
    free = store.read_now(interfaces.free_port, "p1", lent)
    assert (free.id, free.network_name, len(free.addresses)) == (lent, "n", 1)
    attach(store, "m1", {"port": lent})
    with pytest.raises(WrongState, match="in use by s1"):
        store.read_now(interfaces.free_port, "p1", lent)
    with pytest.raises(NotFound):
        store.read_now(interfaces.free_port, "p2", lent)


def test_one_move_on_many_threads_makes_one_port_and_its_undo_leaves_none(
    database_url: str, tmp_path: Path
) -> None:
    with processes(database_url) as stores:
        on = stores[0].write_now(a_network)
        wish = {"uuid": on}
        call = ("p1", "s1", "m1", wish, "node1")
        made = race([writing(stores[n % 4], interfaces.attach, *call) for n in range(8)])
        assert len({getattr(port, "id", port) for port in made}) == 1
        assert (len(has(stores[0])), used(stores[0])) == (1, 1)
        calls = [writing(stores[n % 4], interfaces.attach, *call[:2], f"m{n}", wish, "node1") for n in (2, 3)]
        undone = [writing(stores[n % 4], interfaces.undo_attach, "s1", f"m{n}", wish) for n in (1, 2, 3)]
        race([*calls, *undone])
        assert (has(stores[0]), used(stores[0])) == ([], 0)


def test_a_server_that_is_unplugged_meanwhile_keeps_nothing(database_url: str) -> None:
    with processes(database_url) as stores:
        on = stores[0].write_now(a_network)
        calls = [
            writing(stores[n % 4], interfaces.attach, "p1", "s1", f"m{n}", {"uuid": on}, "node1")
            for n in range(6)
        ]
        race([*calls, writing(stores[3], ports.unplug, "s1")])
        assert (has(stores[0]), used(stores[0])) == ([], 0)
        assert stores[0].read_now(quotas.miscounted) == []
