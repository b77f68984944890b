"""The real client takes servers to every state there is, and back; what it shows on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from berthold.agent.ground import Ground
from client_rows import (
    ACTIVE,
    CIRROS,
    FLAVOR,
    HOSTS,
    ON_VOLUME,
    RESCUED,
    SHELVED,
    STOPPED,
    SUSPENDED,
    migration,
    service,
    short,
)
from client_steps import FILLED, UUID, Like, Refusal, Walk, step
from running import Running

if TYPE_CHECKING:
    from openstack_client import Said

BEGINNING = [
    step("flavor create --vcpus 1 --ram 1024 --disk 1 --id 100 test-flavor", {**FLAVOR, "disk": 1}),
    step(
        "server create --host node1 --image cirros --flavor 100 --wait s1",
        {**ACTIVE, "OS-EXT-SRV-ATTR:host": "node1", "image": CIRROS},
        s1="id",
    ),
    step(
        "server create --boot-from-volume 1 --image cirros --flavor 100 --wait sv",
        {**ACTIVE, "image": ON_VOLUME},
    ),
]

AT_HOME = [
    step("server suspend s1"),
    step("server show s1", SUSPENDED),
    step("server list --status SUSPENDED", [short("s1", "SUSPENDED", Image="cirros")]),
    step("server start s1", Refusal("409.*Cannot 'start' instance {s1} while it is in vm_state suspended")),
    step("server resume s1"),
    step("server show s1", ACTIVE),
    step("server rescue --password x s1"),
    step("server show s1", RESCUED),
    step("server unrescue s1"),
    step("server show s1", ACTIVE),
    step("server rescue --image cirros sv"),
    step("server show sv", RESCUED),
    step("server unrescue sv"),
    step("server show sv", ACTIVE),
    step("server image create --name snap --property a=b --wait s1", {"name": "snap", "status": "active"}),
    step("server image create --name second s1", {"id": UUID, "name": "second"}),
    step("image show snap", {"status": "active", "size": FILLED, "visibility": "private"}),
    # The image of a server on volumes holds no bytes: it names snapshots of them.
    step("server image create --name volumes --wait sv", {"name": "volumes", "status": "active", "size": 0}),
    step("volume snapshot list -c Name -c Status -f value", "volumes /dev/vda available"),
    step("server create --image volumes --flavor 100 --wait sw", {**ACTIVE, "image": ON_VOLUME}),
    step("server delete --wait sw"),
    step(
        "server rebuild --image snap --name renamed --property tier=gold --wait s1",
        {"id": UUID, "name": "renamed", "image": Like(r"snap \([0-9a-f-]{36}\)"), "adminPass": FILLED},
    ),
    step("server show renamed", {**ACTIVE, "name": "renamed", "properties": {"tier": "gold"}}),
    step("server rebuild --name s1 --wait renamed", {"id": UUID, "name": "s1"}),
    step("server rebuild --reimage-boot-volume --image cirros sv", Refusal("400.*starts from a volume")),
]

ON_THE_SHELF = [
    step("server shelve s1"),
    step("server show s1", SHELVED),
    step("server list --status SHELVED_OFFLOADED", [short("s1", "SHELVED_OFFLOADED", Image="snap")]),
    step("image list --name s1-shelved", [{"ID": UUID, "Name": "s1-shelved", "Status": "active"}]),
    step("server shelve s1"),  # the client itself lets be what is shelved
    step("server unshelve --wait s1"),
    step("server show s1", ACTIVE),
    step("image list --name s1-shelved", []),
    step("server shelve --offload --wait s1"),
    step("server unshelve --host node9 s1", Refusal("400.*node9")),
    step("server unshelve --availability-zone nowhere s1", Refusal("400.*availability zone")),
    step("server unshelve --host node3 --wait s1"),
    step("server show s1", {**ACTIVE, "OS-EXT-SRV-ATTR:host": "node3", "pinned_availability_zone": None}),
    step("server shelve --wait s1"),
    step("server unshelve --availability-zone nova --host node1 --wait s1"),
    step("server show s1", {**ACTIVE, "OS-EXT-SRV-ATTR:host": "node1", "pinned_availability_zone": "nova"}),
    step("server shelve --wait sv s1"),
    step("server unshelve --no-availability-zone --host node1 --wait s1"),
    step("server show s1", {"pinned_availability_zone": None}),
    step("server unshelve --wait sv"),
    step("server show sv", ACTIVE),
]

# `evacuate --wait` is left out: the client waits for "ACTIVE" among small letters, without end.
FROM_A_HOST_THAT_LIVES = [
    step("server evacuate s1", Refusal("400.*node1 is still in use")),
]

FROM_A_DEAD_HOST = [
    step("compute service set --down node1 nova-compute"),
    step("server evacuate --host node1 s1", Refusal("400.*target host can't be the same one")),
    step("server evacuate --host node9 s1", Refusal("404.*node9 not found")),
    step("server evacuate --host node2 s1", {"id": UUID, "name": "s1"}),
    # Since 2.95 it waits there for its owner to look at it.
    step("server show s1", {**STOPPED, "OS-EXT-SRV-ATTR:host": "node2"}),
    step("server start s1"),
    step("server show s1", {**ACTIVE, "OS-EXT-SRV-ATTR:host": "node2"}),
    step("server migration list --server s1", [migration("evacuation", Like("done|completed"))]),
    step(
        "server event list s1 -c Action -f value",
        Like("start\\nevacuate\\n(unshelve\\nshelve\\n){4}rebuild\\nrebuild\\n.*create"),
    ),
]

FROM_ANOTHER = [
    step("compute service list", [service(host) for host in HOSTS]),
    step("compute service set --down node2 nova-compute"),
    step("--os-compute-api-version 2.68 server evacuate s1", {"id": UUID}),
    step("server show s1", ACTIVE),
]

END = [
    step("server restore s1", Refusal("409.*Cannot 'restore' instance")),
    step("server delete --wait s1 sv"),
    step("server list", []),
    step("image delete snap second volumes"),
    step("image list", [{"ID": UUID, "Name": "cirros", "Status": "active"}]),
]


def test_the_client_takes_servers_to_every_state_and_back(
    walk: Walk, cloud: Running, by_token: Callable[[str], Said]
) -> None:
    for session in (BEGINNING, AT_HOME, ON_THE_SHELF, FROM_A_HOST_THAT_LIVES):
        walk.through(session)
    power_fails(cloud, "node1")
    walk.through(FROM_A_DEAD_HOST)
    comes_back(by_token, "node1")
    power_fails(cloud, "node2")
    walk.through(FROM_ANOTHER)
    walk.through(END)


def power_fails(cloud: Running, host: str) -> None:
    """Its guests stop. (Its agent goes on: it is simulated in the same process as all others.)"""
    ground = Ground(cloud.home.ground)
    ground.power_off(host)
    ground.close()


def comes_back(openstack: Callable[[str], Said], host: str) -> None:
    """It may act again as soon as it has removed what evacuated servers left behind on it."""
    for _ in range(100):
        if openstack(f"compute service set --up {host} nova-compute").code == 0:
            return
    raise AssertionError(f"{host} never comes back")
