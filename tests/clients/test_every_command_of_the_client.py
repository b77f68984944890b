"""What the real client can be asked for, and what it then shows: rc 0, every column filled, right states.

Each session is a table that reads as a terminal would, one after another on one cloud.
"""

from __future__ import annotations

from client_rows import (
    ACTIVE,
    CIRROS,
    FLAVOR,
    FLAVOR_ROW,
    GROUP,
    HOSTS,
    HYPERVISORS,
    ON_VOLUME,
    PAUSED,
    PRIVATE,
    STOPPED,
    VERIFY,
    event,
    long,
    migration,
    service,
    short,
    volume,
    zone,
)
from client_steps import FILLED, MOMENT, NODE, UUID, Like, Refusal, Walk, step

BEGINNING = [
    step("server group create anti-aff --policy anti-affinity", {**GROUP, "members": []}),
    step("server group show anti-aff -c id -f value", UUID, group=""),
    # Short for --vcpus, as the bug report has it.
    step("flavor create --vcpu 1 --ram 1024 --disk 0 --id 100 test-flavor", FLAVOR),
    step(
        "volume create --image cirros --size 1 vol1",
        {"id": UUID, "name": "vol1", "size": 1, "volume_image_metadata": FILLED},
    ),
    step(
        "volume create --source vol1 --size 1 vol2",
        {"id": UUID, "name": "vol2", "size": 1, "source_volid": UUID},
    ),
    step(
        "server create --network private --volume vol1 --flavor 100 --hint group={group} ins1",
        # Not waited for: a cloud this quick may have it already.
        {"id": UUID, "name": "ins1", "status": Like("BUILD|ACTIVE"), "adminPass": FILLED, "image": ON_VOLUME},
        ins1="id",
    ),
    step(
        "server create --network private --volume vol2 --flavor 100 --hint group={group} --wait ins2",
        {**ACTIVE, "id": UUID, "name": "ins2", "addresses": PRIVATE, "image": ON_VOLUME},
    ),
    step("server list --long", [long("ins2"), long("ins1")]),
    step("server list", [short("ins2"), short("ins1")]),
    step(
        "server show ins1",
        {
            **ACTIVE,
            "id": UUID,
            "OS-EXT-SRV-ATTR:hypervisor_hostname": NODE,
            "OS-EXT-SRV-ATTR:instance_name": FILLED,
            "OS-SRV-USG:launched_at": MOMENT,
            "created": MOMENT,
            "updated": MOMENT,
            "hostId": FILLED,
            "host_status": "UP",
            "flavor": FILLED,
            "image": ON_VOLUME,
            "locked": False,
            "volumes_attached": [{"id": UUID, "delete_on_termination": False}],
            "properties": {},
        },
    ),
    step("server group show anti-aff", {**GROUP, "members": [UUID, UUID]}),
    step("hypervisor list", HYPERVISORS),
    step(
        "hypervisor show node1",
        {
            "id": UUID,
            "hypervisor_hostname": "node1",
            "hypervisor_type": "simulated",
            "hypervisor_version": FILLED,
            "state": "up",
            "status": "enabled",
            "service_host": "node1",
            "service_id": UUID,
            "host_time": Like(r"\d\d:\d\d:\d\d"),
            "uptime": Like(r"\d+ min"),
            "aggregates": [],
        },
    ),
    step("compute service list", [service(host) for host in HOSTS]),
]

MOVING = [
    step("server migrate ins1 --live-migration"),
    step("server migration list", [migration("live-migration", "completed")]),
    step("server migration list --server ins1", [migration("live-migration", "completed")], uuid="UUID"),
    step("server migration list -f value -c UUID", UUID),
    # Only what is in progress can be shown or aborted: see the session with a migration under way.
    step("server migration show ins1 {uuid}", Refusal("In-progress live migration {uuid} is not found")),
    step("server migration abort ins1 {uuid}", Refusal("In-progress live migration {uuid} is not found")),
    step("server migrate ins1"),
    step("server show ins1", VERIFY),
    step("server resize confirm ins1"),
    step("server show ins1", ACTIVE),
    step("server migrate --wait ins1", Like("Complete.*")),
    step("server show ins1", VERIFY),
    step("server migration confirm ins1"),
    step(
        "server migration list --server ins1",
        [
            migration("migration", "confirmed"),
            migration("migration", "confirmed"),
            migration("live-migration", "completed"),
        ],
    ),
    step("flavor create --vcpus 2 --ram 2048 --disk 0 --id 101 big", {"id": "101", "name": "big"}),
    step("server resize --flavor 101 ins1"),
    step("server show ins1", VERIFY),
    step("server list --name ins1", [short("ins1", "VERIFY_RESIZE", Flavor="big")]),
    step("server resize revert ins1"),
    step("server list --name ins1", [short("ins1")]),
    step("server resize --flavor big --wait ins1", "Complete"),
    step("server show ins1", VERIFY),
    step("server resize confirm ins1"),
    step("server show ins1", ACTIVE),
    step("server resize --flavor 100 --wait ins1", "Complete"),
    step("server migration revert ins1"),
    step("server list --name ins1", [short("ins1", Flavor="big")]),
    step("server migration revert ins1", Refusal("409.*Cannot 'revertResize' instance {ins1}")),
]

RUNNING = [
    # The client itself lets be what is not shelved.
    step("server unshelve ins1"),
    step(
        "server event list ins1",
        [
            event(action)
            for action in (
                "revertResize",
                "resize",
                "confirmResize",
                "resize",
                "revertResize",
                "resize",
                "confirmResize",
                "migrate",
                "confirmResize",
                "migrate",
                "live-migration",
                "create",
            )
        ],
        request="Request ID",
    ),
    step(
        "server event show ins1 {request}",
        {
            "action": "revertResize",
            "request_id": Like("req-.*"),
            "start_time": MOMENT,
            "project_id": UUID,
            "user_id": UUID,
            "events": FILLED,
            "message": None,
        },
    ),
    step("server stop ins1"),
    step("server show ins1", STOPPED),
    step("server start ins1"),
    step("server show ins1", ACTIVE),
    step("server reboot ins1"),
    step("server show ins1", ACTIVE),
    step("server reboot --hard --wait ins1", "Complete"),
    step("server show ins1", ACTIVE),
    step("server add volume ins1 vol2", Refusal("must be 'available'. Currently in 'in-use'")),
    step("volume create --size 1 vol3", {"id": UUID, "name": "vol3"}),
    step("server add volume ins1 vol3", {"Device": "/dev/vdb", "Volume ID": UUID, "Server ID": UUID}),
    step("server volume list ins1", [volume("/dev/vda"), volume("/dev/vdb")]),
    step("volume show vol3", {"status": "in-use", "attachments": FILLED}),
    step("server remove volume ins1 vol3"),
    step("server volume list ins1", [volume("/dev/vda")]),
    step("volume show vol3", {"status": "available", "attachments": []}),
    step("console log show ins1", Like(r".*Simulated guest ins1\n.*ins1 login:")),
    step("console log show --lines 1 ins1", "ins1 login:"),
    step("server migrate --live-migration --host {free} --os-compute-api-version 2.30 ins1"),
    step("server list --host {picked}", [short("ins1", Flavor="big")]),
]

END = [
    step("server delete ins1"),
    step("server delete --wait ins2"),
    step("server list", []),
    step("server show ins1", Refusal("No Server found for ins1")),
    step("server group show anti-aff", {**GROUP, "members": []}),
    step("server group delete anti-aff"),
    step("server group list", []),
    step("volume delete vol1 vol2 vol3"),
    step("volume list", []),
    step("flavor delete 100 101"),
]

SERVERS = [
    step("flavor create --vcpus 1 --ram 1024 --disk 0 --id 100 test-flavor", FLAVOR),
    step("flavor list", [FLAVOR_ROW]),
    step("flavor show test-flavor", FLAVOR),
    step(
        "server create --availability-zone nova:node2 --image cirros --flavor 100 --nic none --wait s2",
        {**ACTIVE, "OS-EXT-SRV-ATTR:host": "node2", "addresses": {}, "image": CIRROS},
    ),
    step(
        "server create --host node4 --image cirros --flavor 100 --wait s4",
        {**ACTIVE, "OS-EXT-SRV-ATTR:host": "node4", "addresses": PRIVATE, "image": CIRROS},
    ),
    step(
        "server create --boot-from-volume 1 --image cirros --flavor 100 --wait sv",
        {**ACTIVE, "image": ON_VOLUME, "volumes_attached": FILLED},
    ),
    step("server create --host node9 --image cirros --flavor 100 s9", Refusal("node9 could not be found")),
    step(
        "server list --all-projects --host node2",
        [short("s2", Networks={}, Image="cirros", **{"Project ID": FILLED})],
    ),
    step("server list --name s4 --status ACTIVE", [short("s4", Image="cirros")]),
    step("server list --status SHUTOFF", []),
    step("server list -n --name s4", [short("s4", Image=UUID)]),
    step("server migrate --host node3 --wait s2", Like("Complete.*")),
    step("server show s2", {**VERIFY, "OS-EXT-SRV-ATTR:host": "node3"}),
    step("server migration revert s2"),
    step("server show s2", {**ACTIVE, "OS-EXT-SRV-ATTR:host": "node2"}),
    step("server set --property tier=gold --description words --tag blue s2"),
    step("server show s2", {"properties": {"tier": "gold"}, "description": "words", "tags": ["blue"]}),
    step("server unset --property tier --tag blue s2"),
    step("server show s2", {"properties": {}, "tags": []}),
    step("server add network s2 private"),
    step("server show s2", {"addresses": PRIVATE}),
    step("server remove network s2 private"),
    step("server show s2", {"addresses": {}}),
    step("server add fixed ip --tag nic s2 private", {"Network ID": UUID, "Port ID": UUID, "Tag": "nic"}),
    # The client shows what it saw before it waited.
    step("server backup create --name b1 --type daily --rotate 1 --wait s2", {"name": "b1"}),
    step("image show b1", {"status": "active"}),
    step("server backup create --name b2 --type daily --rotate 1 --wait s2", {"name": "b2"}),
    step("image show b2", {"status": "active"}),
    step("image list --name b1", []),
    step("image delete b2"),
    step("port create --network private p1", {"id": UUID, "name": "p1", "status": "DOWN"}),
    step("server add port s2 p1"),
    step("server show s2", {"addresses": {"private": [FILLED, FILLED]}}),
    step("port show p1", {"status": "ACTIVE", "device_id": UUID}),
    step("server remove port s2 p1"),
    step("port show p1", {"status": "DOWN", "device_id": ""}),
    step("port delete p1"),
    step("server remove network s2 private"),
    step("server show s2", {"addresses": {}}),
    step("server set --name renamed s2"),
    step("server set --name s2 renamed"),
    step("server lock --reason audit s2"),
    step("server show s2", {"locked": True, "locked_reason": "audit"}),
    step("server unlock s2"),
    step("server show s2", {"locked": False, "locked_reason": None}),
    step("server pause s2"),
    step("server show s2", PAUSED),
    step("server unpause s2"),
    step("server show s2", ACTIVE),
    step("console url show s2", Refusal("this cloud has no console proxy")),
    step("server set --state error --auto-approve s2"),
    step("server show s2", {"status": "ERROR"}),
    step("server set --state active --auto-approve s2"),
]

OPERATOR = [
    step("hypervisor stats show", {"count": 5, "running_vms": 3, "vcpus": 20, "vcpus_used": 3}),
    # What each host still has is in the list until 2.87.
    step(
        "--os-compute-api-version 2.87 hypervisor list --long",
        [
            {**row, "vCPUs Used": FILLED, "vCPUs": 4, "Memory MB Used": FILLED, "Memory MB": 4096}
            for row in HYPERVISORS
        ],
    ),
    step("compute service set --disable --disable-reason x node1 nova-compute"),
    step(
        "compute service list --long",
        [
            service("node1", Status="disabled", **{"Disabled Reason": "x", "Forced Down": False}),
            *[service(host, **{"Disabled Reason": None, "Forced Down": False}) for host in HOSTS[1:]],
        ],
    ),
    step("compute service set --enable node1 nova-compute"),
    step("compute service set --down node1 nova-compute"),
    step("compute service list --host node1", [service("node1", State="down")]),
    step("compute service set --up node1 nova-compute"),
    step("compute service list", [service(host) for host in HOSTS]),
    # One of the compute service, one of the volumes.
    step("availability zone list", [{"Zone Name": "nova", "Zone Status": "available"}] * 2),
    step("aggregate create --zone east racks", {"id": 1, "name": "racks", "availability_zone": "east"}),
    step("aggregate add host racks node5", {"hosts": ["node5"]}),
    step("aggregate set --property power=b racks"),
    step("aggregate show racks", {"hosts": ["node5"], "properties": {"power": "b"}, "uuid": UUID}),
    step("aggregate list", [{"ID": 1, "Name": "racks", "Availability Zone": "east", "UUID": UUID}]),
    step("hypervisor show node5", {"aggregates": ["racks"]}),
    step(
        "availability zone list --compute --long",
        [zone("node5", "east"), *[zone(host) for host in HOSTS[:4]]],
    ),
    step("aggregate remove host racks node5", {"hosts": []}),
    step("aggregate delete racks"),
    step("aggregate list", []),
    step("usage show", {"Project": UUID, "Servers": FILLED, "CPU Hours": FILLED, "RAM MB-Hours": FILLED}),
    # As a table, in which it has to be numbers: in JSON the client shows what it was given.
    step(
        "usage show --start 2001-01-01 --end 2001-01-02 -f table",
        Like(r".*\| Servers +\| 0 +\|\n\| RAM MB-Hours +\| 0.00 +\|\n\| CPU Hours +\| 0.00 +\|.*"),
    ),
    step("quota set --instances 50 admin"),
    step("quota show --compute -c Resource -c Limit -f value", Like(r"instances 50\ncores \d+\nram \d+\n.*")),
    step("quota show -f value", Like(r"instances 50\n.*per-volume-gigabytes -1")),
    step("limits show --absolute -f value", Like(r".*\ninstances 50\ninstances_used 3\n.*")),
    step("limits show --rate", []),
]

OTHERS = [
    step("keypair create k1", Like("-----BEGIN OPENSSH PRIVATE KEY-----.*")),
    step("keypair list", [{"Name": "k1", "Fingerprint": FILLED, "Type": "ssh"}]),
    step("keypair show k1", {"name": "k1", "fingerprint": FILLED, "type": "ssh", "created_at": MOMENT}),
    step("keypair delete k1"),
    step("keypair list", []),
    step("image list", [{"ID": UUID, "Name": "cirros", "Status": "active"}]),
    step("network list", [{"ID": UUID, "Name": "private", "Subnets": [UUID]}]),
    step(
        "token issue",
        {"id": FILLED, "expires": FILLED, "project_id": FILLED, "user_id": FILLED},
    ),
    step("project list", [{"ID": FILLED, "Name": "admin"}]),
    step("server delete --wait s2 s4 sv"),
    step("server list", []),
]


def test_the_client_gets_the_right_answer_to_each_command(walk: Walk) -> None:
    for session in (BEGINNING, MOVING, RUNNING, END, SERVERS, OPERATOR, OTHERS):
        walk.through(session)
