"""C-c11: parallel requests corrupt the scheduler's memory of hosts.

The story (Launchpad nova 1742827): the scheduler keeps one list of hosts for all requests. While
one request filters it, another one, interleaved, sees what is left and finds no valid host.

Right: a request that fits both hosts never fails, whatever a request that fits one host does
beside it. What prevents it: a supply is never changed once it is made, and its columns are
read-only; a request narrows a mask of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from berthold.lab.world import SMALL
from berthold.ledger import hosts, inventories
from berthold.ledger.store import Store, Tx
from berthold.moves.watch import Watch
from berthold.scheduler.candidates import rank
from berthold.scheduler.request import Request
from berthold.scheduler.view import View
from by_hand import Halfway, MakeWorld, shown, under_way
from races import race

PICKY = {**SMALL, "extra_specs": {"trait:CUSTOM_FAST": "required"}}


def introduce(tx: Tx, name: str, *traits: str) -> None:
    offers = {"VCPU": {"total": 100}, "MEMORY_MB": {"total": 100_000}}
    hosts.register(tx, name=name, key=name, offers=offers, traits=traits)


def test_fifty_threads_of_two_kinds(store: Store) -> None:
    watch = Watch(store, 10.0)
    store.write_now(introduce, "h1", "CUSTOM_FAST")
    store.write_now(introduce, "h2")

    def asking(number: int) -> Callable[[], object]:
        traits = frozenset({"CUSTOM_FAST"} if number % 2 else ())
        wish = Request({"VCPU": 1}, f"s{number}", "p", required_traits=traits)

        def ask() -> object:
            found = set()
            for again in range(5):
                if number % 10 == 0:  # news comes all the time
                    store.write_now(introduce, "h2")
                sight = View(store.read_now(watch.look), heard_since=watch.heard_since)
                found.add(tuple(sorted(h.name for h in rank(wish, sight, random.Random(again)))))
            return found

        return ask

    found = race([asking(number) for number in range(50)])
    assert found == [{("h1",)} if number % 2 else {("h1", "h2")} for number in range(50)]


def test_one_stops_in_the_middle_of_its_candidates(make_world: MakeWorld) -> None:
    world = make_world(node1=64, node2=4)
    (fast,) = [row["id"] for row in world.rows("host") if row["name"] == "node1"]
    world.store.write_now(_add_trait, fast)
    picky, easy = world.create("picky", flavor=PICKY), world.create("easy")
    turns = [Halfway(world, under_way(world, each)).until("place_line") for each in (picky, easy)]
    turns[1].end()
    turns[0].end()
    world.settle()
    assert [shown(world, each) for each in (picky, easy)] == [("ACTIVE", None)] * 2
    assert world.home(picky) == "node1"


def _add_trait(tx: Tx, host_id: str) -> None:
    hosts.lock(tx, host_id)
    inventories.set_traits(tx, host_id, ["CUSTOM_FAST"])
