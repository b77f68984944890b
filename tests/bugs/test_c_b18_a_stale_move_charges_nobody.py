"""C-b18: a stale migration row is charged to a host.

The story (Launchpad nova 1600304): a migration of the server to a third host never came to an end;
its record still says so. The server is resized from the first host to the second. An audit of the
third finds the old record, takes it for the present one and charges that host for the server.

Right: the third host is charged nothing. What prevents it: use is what claims hold and never what
a record says; a server has one unfinished move at most, by a unique index (M3), so there is no
stale one: the next begins when the last has ended, and one that nobody works on is picked up (M4).
"""

from __future__ import annotations

import pytest
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError

from berthold.errors import WrongState
from berthold.ledger import audit, schema
from berthold.ledger.store import Tx
from by_hand import MakeWorld, ended, holds, shown, step_until, used


def test_a_migration_that_failed_is_closed_and_charges_nobody(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4, node3=4)
    one = world.boot("one", host="node1")
    world.faults_of["node3"].plan("refuse", verb="prepare")
    old = world.live_migrate(one, "node3")
    world.settle()
    assert (ended(world, old), used(world, "node3")) == ("error", 0)

    world.store.write_now(disable, world.host_id("node3"))
    resize = world.resize(one)
    world.settle()
    world.restart_agent("node3")
    assert holds(world, one) == {"node1": "source", "node2": "home"}
    assert used(world, "node3") == 0

    def revive(tx: Tx) -> None:
        tx.execute(update(schema.move).where(schema.move.c.id == old).values(state="running"))

    with pytest.raises(IntegrityError):
        world.store.write_now(revive)
    assert world.store.read_now(audit.audit) == []
    world.confirm(one)
    world.settle()
    assert (ended(world, resize), used(world, "node3")) == ("confirmed", 0)


def disable(tx: Tx, host: str) -> None:
    tx.execute(update(schema.host).where(schema.host.c.id == host).values(disabled=True))


def test_a_migration_whose_conductor_died_is_ended_before_the_next_begins(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node3=4)
    one = world.boot("one", host="node1")
    old = world.live_migrate(one, "node3")
    step_until(world, old, "prepare target")
    world.kill_conductor()
    with pytest.raises(WrongState, match="task_state migrating"):
        world.resize(one)
    assert [row["id"] for row in world.moves() if row["state"] in schema.UNFINISHED] == [old]
    world.settle()
    assert (ended(world, old), holds(world, one)) == ("completed", {"node3": "home"})
    world.resize(one)
    world.settle()
    assert shown(world, one) == ("VERIFY_RESIZE", None)
    world.revert(one)
    world.settle()
    assert holds(world, one) == {"node3": "home"}
