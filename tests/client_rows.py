"""What the client shows of each thing, column by column, with what differs each time left open."""

from __future__ import annotations

from typing import Any

from client_steps import FILLED, MOMENT, NODE, UUID, Like

HOSTS = [f"node{number}" for number in range(1, 6)]
ON_VOLUME = "N/A (booted from volume)"
PRIVATE = {"private": [Like(r"10\.0\.0\.\d+")]}
CIRROS = Like(r"cirros \([0-9a-f-]{36}\)")


def short(name: str, status: str = "ACTIVE", /, **other: Any) -> dict[str, Any]:
    """A row of `server list`."""
    row = {"ID": UUID, "Name": name, "Status": status, "Networks": PRIVATE, "Image": ON_VOLUME}
    return {**row, "Flavor": "test-flavor", **other}


def long(name: str) -> dict[str, Any]:
    """A row of `server list --long`."""
    return {
        "ID": UUID,
        "Name": name,
        "Status": "ACTIVE",
        "Task State": None,
        "Power State": 1,
        "Networks": PRIVATE,
        "Image Name": ON_VOLUME,
        "Image ID": ON_VOLUME,
        "Flavor": "test-flavor",
        "Availability Zone": "nova",
        "Host": NODE,
        "Properties": {},
        "Pinned Availability Zone": None,
        "Host Status": "UP",
    }


def state(status: str, vm: str, power: int, **other: Any) -> dict[str, Any]:
    """What `server show` says of a server at rest."""
    return {
        "status": status,
        "OS-EXT-STS:vm_state": vm,
        "OS-EXT-STS:power_state": power,
        "OS-EXT-STS:task_state": None,
        "OS-EXT-SRV-ATTR:host": NODE,
        **other,
    }


ACTIVE = state("ACTIVE", "active", 1)
VERIFY = state("VERIFY_RESIZE", "resized", 1)
STOPPED = state("SHUTOFF", "stopped", 4)
PAUSED = state("PAUSED", "paused", 3)
SUSPENDED = state("SUSPENDED", "suspended", 4)
RESCUED = state("RESCUE", "rescued", 1)
SHELVED = state(
    "SHELVED_OFFLOADED", "shelved_offloaded", 0, **{"OS-EXT-SRV-ATTR:host": None, "host_status": ""}
)


def volume(device: str) -> dict[str, Any]:
    """A row of `server volume list`."""
    return {
        "Device": device,
        "Server ID": UUID,
        "Volume ID": UUID,
        "Tag": None,
        "Delete On Termination?": False,
        "Attachment ID": UUID,
        "BlockDeviceMapping UUID": UUID,
    }


def migration(kind: str, status: str | Like) -> dict[str, Any]:
    """A row of `server migration list`."""
    return {
        "Id": FILLED,
        "UUID": UUID,
        "Source Node": NODE,
        "Dest Node": NODE,
        "Source Compute": NODE,
        "Dest Compute": NODE,
        "Dest Host": "127.0.0.1",
        "Status": status,
        "Server UUID": UUID,
        "Old Flavor": FILLED,
        "New Flavor": FILLED,
        "Type": kind,
        "Created At": MOMENT,
        "Updated At": MOMENT,
    }


def service(host: str, **other: Any) -> dict[str, Any]:
    """A row of `compute service list`."""
    row = {"ID": UUID, "Binary": "nova-compute", "Host": host, "Zone": "nova", "Status": "enabled"}
    return {**row, "State": "up", "Updated At": MOMENT, **other}


def event(action: str) -> dict[str, Any]:
    """A row of `server event list`."""
    return {"Request ID": Like("req-.*"), "Server ID": UUID, "Action": action, "Start Time": MOMENT}


HYPERVISORS = [
    {
        "ID": UUID,
        "Hypervisor Hostname": host,
        "Hypervisor Type": "simulated",
        "Host IP": "127.0.0.1",
        "State": "up",
    }
    for host in HOSTS
]
FLAVOR = {"id": "100", "name": "test-flavor", "vcpus": 1, "ram": 1024, "disk": 0}
FLAVOR_ROW = {
    "ID": "100",
    "Name": "test-flavor",
    "RAM": 1024,
    "Disk": 0,
    "Ephemeral": 0,
    "VCPUs": 1,
    "Is Public": True,
}
GROUP = {"name": "anti-aff", "policy": "anti-affinity", "rules": {}, "id": UUID, "project_id": FILLED}


def zone(host: str, name: str = "nova") -> dict[str, Any]:
    """A row of `availability zone list --long`."""
    return {
        "Zone Name": name,
        "Zone Status": "available",
        "Zone Resource": "",
        "Host Name": host,
        "Service Name": "nova-compute",
        "Service Status": Like(r"enabled :-\) 20.*"),
    }
