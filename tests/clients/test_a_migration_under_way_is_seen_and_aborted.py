"""What the client shows and does while a live migration is under way."""

from __future__ import annotations

import time

from client_rows import ACTIVE, FLAVOR, migration
from client_steps import FILLED, MOMENT, UUID, Refusal, Walk, step
from running import Running

BEFORE = [
    step("flavor create --vcpus 1 --ram 1024 --disk 0 --id 100 test-flavor", FLAVOR),
    step(
        "server create --boot-from-volume 1 --image cirros --flavor 100 --host node1 --wait ins1",
        ACTIVE,
        ins1="id",
    ),
]
WHILE_UNDER_WAY = [
    step("server show ins1", {"status": "MIGRATING", "OS-EXT-STS:task_state": "migrating"}),
    step(
        "server migration list --server ins1 --status running",
        [{**migration("live-migration", "running"), "Source Node": "node1", "Dest Node": "node2"}],
        uuid="UUID",
        number="Id",
    ),
    step(
        "server migration show ins1 {uuid}",
        {
            "ID": FILLED,
            "UUID": UUID,
            "Status": "running",
            "Server UUID": UUID,
            "Source Node": "node1",
            "Dest Node": "node2",
            "Memory Total Bytes": 1 << 30,
            "Disk Total Bytes": 0,
            "Created At": MOMENT,
            "User ID": FILLED,
            "Project ID": FILLED,
        },
    ),
    # The client puts the two ids of this request in each other's place.
    step("server migration show ins1 {number}", Refusal("servers/{number}/migrations/{ins1}, Instance")),
    step("server migration force complete ins1 {number}", Refusal("cannot be forced to complete")),
    step(
        "server stop ins1", Refusal("409.*Cannot 'stop' instance {ins1} while it is in task_state migrating")
    ),
]
ABORTED = [
    step("server show ins1", {**ACTIVE, "OS-EXT-SRV-ATTR:host": "node1"}),
    step("server migration list --status running", []),
    step("server migration abort ins1 {number}", Refusal("409.*Cannot 'abort live migration'")),
]


def test_a_live_migration_under_way_is_shown_and_aborted_by_either_of_its_names(
    walk: Walk, cloud: Running
) -> None:
    walk.through(BEFORE)
    server = cloud.api.servers()["ins1"]["id"]
    (cloud.home.path / "hold").touch()
    for name in ("{uuid}", "{number}"):
        walk.take(step("server migrate ins1 --live-migration --host node2"))
        while not _sent(cloud, server):
            time.sleep(0.02)
        walk.through(WHILE_UNDER_WAY, resting=False)
        walk.take(step(f"server migration abort ins1 {name}"))
        walk.rest()
        walk.through(ABORTED)


def _sent(cloud: Running, server: str) -> int:
    """How much memory has gone over, as the host has told."""
    migrations = cloud.api.get(f"/servers/{server}/migrations")["migrations"]
    return sum(each["memory_processed_bytes"] for each in migrations)
