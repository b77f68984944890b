"""C-c01: a retry is judged with the operator's identity.

The story (Launchpad nova 1774205): hosts are reserved for projects. An admin cold-migrates a user's
server; the first destination fails, and the retry asks for hosts of the admin's own project. The
server ends on a host that is reserved for others.

Right: the second try takes the user's host too. What makes it so: a move knows its server, and a
request is made from the server's owner at every try; who asked for the move is not part of it.
"""

from __future__ import annotations

from berthold.lab.world import PROJECT, World
from berthold.moves import begin
from berthold.records import aggregates
from by_hand import MakeWorld, ended, holds, preferred, shown, why


def reserve(world: World, host: str, **metadata: str) -> None:
    key = world.store.write_now(aggregates.create, f"of {host}", None)["id"]
    world.store.write_now(aggregates.set_metadata, key, metadata)
    world.store.write_now(aggregates.add_host, key, host)


ADMIN = begin.By("root", "admins", "req-1", is_admin=True)


def test_every_try_asks_for_hosts_of_the_owner(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=64, node3=16, node4=8)
    reserve(world, "node2", filter_tenant_id="admins")
    reserve(world, "node3", filter_tenant_id="others", filter_tenant_id2=f"more, {PROJECT}")
    reserve(world, "node4", filter_tenant_id_1=PROJECT)
    one = world.boot("one", host="node1")
    world.faults_of["node3"].plan("refuse", verb="prepare", reason="no disk")
    move = world.store.write_now(begin.begin, "migration", one, ADMIN, {"host": None})
    assert preferred(world, move) == ["node3", "node4"]
    world.settle()
    assert shown(world, one) == ("VERIFY_RESIZE", None)
    assert holds(world, one) == {"node4": "home", "node1": "source"}
    assert ended(world, move) == "finished"


def test_a_host_of_others_is_refused_with_its_cause_and_without_their_names(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=64)
    reserve(world, "node2", filter_tenant_id="admins")
    one = world.boot("one", host="node1")
    move = world.store.write_now(begin.begin, "live-migration", one, ADMIN, {"host": "node2"})
    world.settle()
    assert world.home(one) == "node1"
    assert why(world, move) == "No valid host was found. 1 host: reserved host"


def test_a_reservation_that_ends_opens_the_host_at_once(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=64)
    reserve(world, "node2", filter_tenant_id="admins")
    assert world.home(world.boot("one")) == "node1"
    (row,) = world.rows("aggregate")
    world.store.write_now(aggregates.set_metadata, row["id"], {"filter_tenant_id": None})
    assert world.home(world.boot("two")) == "node2"


def test_an_aggregate_makes_its_hosts_a_zone(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=64)
    reserve(world, "node1", availability_zone="east")
    assert world.home(world.boot("one", zone="east")) == "node1"
    assert world.home(world.boot("two", zone="nova")) == "node2"
