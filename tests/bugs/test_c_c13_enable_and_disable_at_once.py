"""C-c13: enabling and disabling a host lags behind, or fails on a conflict.

The story (Launchpad nova 1886418, 1805984): to disable a host a mark is set in a second service.
If the host's agent reports its inventory at that moment the two writers collide, the mark is lost,
and servers go on landing there until a task repeats it hours later; the same when it is enabled.

Right: once the call has returned nothing new lands on the host; once it is enabled again it is a
candidate, at the latest after `watch.SWEEP_S`, and neither call fails. What makes it so: the mark
is a column of the host's row, which every claim locks and reads (M5); both writers wait for that
lock; the change is announced, and generations are compared every few seconds in case nobody heard.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from berthold.errors import Refused
from berthold.ledger import hosts
from berthold.ledger.store import Store, Tx
from by_hand import MakeWorld, choosing, shown, under_way
from ledger_world import add_server, claim
from races import race

OFFERS = {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 8192}}


def register(tx: Tx) -> str:
    return hosts.register(tx, name="h1", key="h1", offers=OFFERS).id


@pytest.mark.parametrize("disabled", [True, False])
def test_an_inventory_comes_at_the_same_moment(store: Store, disabled: bool) -> None:
    host = store.write_now(register)
    store.write_now(hosts.set_disabled, host, not disabled)
    store.write_now(add_server, "one")
    reports: list[Callable[[], object]] = [lambda: store.write_now(register) for _ in range(4)]
    results = race([*reports, lambda: store.write_now(hosts.set_disabled, host, disabled)])
    assert results == [host] * 4 + [None]
    if disabled:
        with pytest.raises(Refused, match="disabled"):
            store.write_now(claim, "one", host)
    else:
        store.write_now(claim, "one", host)


def test_one_that_had_chosen_the_host_goes_elsewhere(make_world: MakeWorld) -> None:
    world = make_world(node1=64, node2=4)
    one = world.create("one")
    turn = choosing(world, under_way(world, one))
    world.store.write_now(hosts.set_disabled, world.host_id("node1"), True)
    turn.end()
    world.settle()
    assert world.home(one) == "node2"


def test_enabled_again_it_is_used_at_once(make_world: MakeWorld) -> None:
    world = make_world(node1=64, node2=1)
    world.boot("filler", host="node2")
    node1 = world.host_id("node1")
    world.store.write_now(hosts.set_disabled, node1, True)
    assert shown(world, world.boot("early")) == ("ERROR", None)
    world.store.write_now(hosts.set_disabled, node1, False)
    assert world.home(world.boot("one")) == "node1"
