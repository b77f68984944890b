"""C-c15: a node that another agent has taken over is deleted by the agent that had it.

The story (Launchpad nova 1853009): agents own compute nodes. One hands a node over to another, and then,
with an old list in its hands, deletes what it does not manage any more.

Right: the node stays, with its inventory, and belongs to the second. What makes it so: no agent can
delete a host, there is no word for it in their protocol; and whatever the first agent still says carries
an epoch that ended when the second registered (M5). Operators delete hosts, under the host's lock, and
not while anything is claimed there.
"""

from __future__ import annotations

import msgspec
import pytest

from berthold.agent import protocol
from berthold.agent.protocol import Answer, Beat, Fenced, Report, Take, Welcome
from berthold.errors import WrongState
from berthold.lab.world import World, now
from berthold.ledger import hosts
from by_hand import MakeWorld, host_status


def taken_over(world: World) -> tuple[Welcome, Welcome]:
    """node1 is first one machine's, then another's: what each was told."""
    first = world.agents["node1"].welcome
    assert first is not None
    hello = world.agents["node1"].driver.hello()
    second = now(world.door.register(msgspec.structs.replace(hello, key="another machine")))
    return first, second


def test_the_first_agent_is_not_heard_any_more(make_world: MakeWorld) -> None:
    world = make_world(node1=4)
    first, second = taken_over(world)
    assert (second.host, second.epoch) == (first.host, first.epoch + 1)
    for said in (
        world.door.take(Take(first.host, first.epoch, wait=0.0)),
        world.door.heartbeat(Beat(first.host, first.epoch)),
        world.door.answer(Answer(first.host, first.epoch, "some ask", True)),
    ):
        with pytest.raises(Fenced):
            now(said)
    now(world.door.report(Report(first.host, first.epoch, [])))
    assert host_status(world, "node1") == "up"
    assert {row["class"] for row in world.rows("inventory")} >= {"VCPU", "MEMORY_MB"}


def test_agents_have_no_word_for_removing_a_host(make_world: MakeWorld) -> None:
    assert {name for name in vars(protocol.Door) if not name.startswith("_")} == {
        *("register", "heartbeat", "take", "answer", "report"),
    }


def test_an_operator_removes_it_only_while_nothing_is_there_and_it_may_come_again(
    make_world: MakeWorld,
) -> None:
    world = make_world(node1=4)
    world.boot("one", host="node1")
    with pytest.raises(WrongState, match="still has servers"):
        world.store.write_now(hosts.remove, world.host_id("node1"))
    node2 = world.add_host("node2")
    world.store.write_now(hosts.remove, node2)
    world.restart_agent("node2")
    assert host_status(world, "node2") == "up"
