"""C-c04, C-c10: nothing tells that a move could not be scheduled, or why.

The stories (Launchpad nova 1297052, 1417667: a resize without a host ends in silence, its action
reads like a success; nova 1336977, 1488332, cluster-api-provider-openstack issue 1506,
cloudify-openstack-plugin issue 283: "No valid host was found" and not a word about the cause).

Right: whoever polls the action, the migration or the server learns that it failed, and of which
class the cause is, for how many hosts. Owners are not told the names of hosts; operators are told
the reason of each. What makes it so: an event for every line, a reason for every host.
"""

from __future__ import annotations

import pytest

from berthold.ledger import hosts
from by_hand import MakeWorld, ended, events, outcome, shown, told, why


@pytest.mark.parametrize(
    ("kind", "event", "action"),
    [
        ("resize", "conductor_migrate_server", "resize"),
        ("migrate", "conductor_migrate_server", "migrate"),
        ("live_migrate", "conductor_live_migrate_instance", "live-migration"),
    ],
)
def test_who_polls_learns_it(make_world: MakeWorld, kind: str, event: str, action: str) -> None:
    world = make_world(node1=4, node2=1)
    world.boot("filler", host="node2")
    one = world.boot("one", host="node1")
    move = getattr(world, kind)(one)
    world.settle()
    assert shown(world, one) == ("ACTIVE", None)
    assert ended(world, move) == "error"
    assert events(world, move) == [(event, "Error")]
    assert outcome(world, move) == "Error"
    assert [row["action"] for row in world.rows("action") if row["move_id"] == move] == [action]
    reason = "No valid host was found. 1 host: capacity, 1 host: source host"
    assert told(world, move) == [reason]
    assert why(world, move) == reason


def test_the_owner_reads_causes_and_the_operator_hosts(make_world: MakeWorld) -> None:
    world = make_world(node1=1, node2=4, node3=4)
    group = world.group("anti-affinity", name="secret")
    world.boot("filler", host="node1")
    world.boot("one", group, host="node3")
    world.store.write_now(hosts.set_disabled, world.host_id("node2"), True, "a fan is broken")
    two = world.boot("two", group)
    assert shown(world, two) == ("ERROR", None)
    fault = world.server(two)["fault"]
    assert fault["message"] == (
        "No valid host was found. 1 host: capacity,"
        " 1 host: group rule (Anti-affinity instance group policy was violated), 1 host: host state"
    )
    assert "  node1: capacity: not enough VCPU: wanted 1, free 0 of 1" in fault["details"].splitlines()
    assert "  node2: host state: the host was disabled by an operator" in fault["details"].splitlines()
    assert "  node3: group rule: Anti-affinity" in fault["details"]


def test_two_hosts_fail_the_build_and_operators_are_told_the_real_cause_of_each(
    make_world: MakeWorld,
) -> None:
    world = make_world(node1=64, node2=4)
    world.faults_of["node1"].plan("refuse", verb="spawn", reason="qemu: cannot allocate memory")
    world.faults_of["node2"].plan("refuse", verb="spawn", reason="image is corrupt")
    one = world.boot("one")
    fault = world.server(one)["fault"]
    assert fault["message"] == (
        "No valid host was found. 2 hosts: already refused. In the last try a host could not start the server"
    )
    assert "  node1: already refused: qemu: cannot allocate memory" in fault["details"].splitlines()
    assert "  node2: already refused: image is corrupt" in fault["details"].splitlines()
