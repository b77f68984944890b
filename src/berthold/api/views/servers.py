"""How servers are shown."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from berthold.api.call import Call
from berthold.api.microversions import Version
from berthold.api.views import hosts
from berthold.api.views.fields import Field, column, constant, iso, iso_long
from berthold.moves.status import Status, fault_of, status_of

Record = Mapping[str, Any]
ATTRIBUTES = "os_compute_api:os-extended-server-attributes"
HOST_STATUS = "os_compute_api:servers:show:host_status"
SPECS = "os_compute_api:servers:show:flavor-extra-specs"
WITH_PROGRESS = {"ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING"}
FLAVOR_AS_IT_WAS = Version(2, 47)
ROOT_DEVICE = "/dev/vda"
ALIKE = Version(2, 75)  # from then on a changed server is shown as any other is


def host_id(project_id: str, host: str | None) -> str:
    """What a project sees instead of a host's name: the same for two servers of its on one host."""
    return hashlib.sha224((project_id + host).encode()).hexdigest() if host else ""


def status(server: Record) -> Status:
    """Derived from the server and its move."""
    return status_of(server, server["move"])


def _image(server: Record, call: Call) -> Any:
    image = server["image_id"]
    if not image:
        return ""
    return {"id": image, "links": [{"rel": "bookmark", "href": call.bookmark("images", image)}]}


def _flavor(server: Record, call: Call) -> dict[str, Any]:
    flavor = server["flavor"]
    if call.version < FLAVOR_AS_IT_WAS:
        link = {"rel": "bookmark", "href": call.bookmark("flavors", flavor["id"])}
        return {"id": flavor["id"], "links": [link]}
    shown = {name: flavor.get(name, 0) for name in ("vcpus", "ram", "disk", "ephemeral", "swap")}
    shown["original_name"] = flavor["name"]
    if call.may(SPECS):
        shown["extra_specs"] = flavor.get("extra_specs", {})
    return shown


def _addresses(server: Record, call: Call) -> dict[str, list[dict[str, Any]]]:
    return _by_network(server, in_full=True)


def addresses_in_brief(server: Record, call: Call) -> dict[str, list[dict[str, Any]]]:
    """Addresses by network, without what extensions add."""
    return _by_network(server, in_full=False)


def _by_network(server: Record, *, in_full: bool) -> dict[str, list[dict[str, Any]]]:
    networks: dict[str, list[dict[str, Any]]] = {}
    for port in server["ports"]:
        for address in port["addresses"]:
            shown = {"addr": address["ip_address"], "version": address.get("version", 4)}
            if in_full:
                shown["OS-EXT-IPS-MAC:mac_addr"] = port["mac_address"]
                shown["OS-EXT-IPS:type"] = "fixed"
            networks.setdefault(port["network_name"], []).append(shown)
    return networks


def _volumes(server: Record, call: Call) -> list[dict[str, Any]]:
    with_fate = call.version >= Version(2, 3)
    return [
        {"id": volume["volume_id"]}
        | ({"delete_on_termination": bool(volume.get("delete_on_termination"))} if with_fate else {})
        for volume in server["volumes"]
        if volume.get("volume_id")
    ]


def _host_name(server: Record, call: Call) -> str | None:
    return server["host"]["name"] if server["host"] else None


def _zone(server: Record, call: Call) -> str:
    zone: str | None = server["host"]["zone"] if server["host"] else server["zone"]
    return zone or ""


def _detail(name: str, default: Any = None) -> Any:
    return lambda server, call: server["details"].get(name, default)


def fault(server: Record, call: Call) -> dict[str, Any] | None:
    """Why the server is in error; what only operators may read is left out for others."""
    known = fault_of(server, server["move"])
    if not known or status(server).status not in ("ERROR", "DELETED"):
        return None
    shown = {
        "code": known.get("code", 500),
        "message": known.get("message", ""),
        "created": iso(known["created"]) if isinstance(known.get("created"), float) else known.get("created"),
    }
    if known.get("details") and (call.is_admin or shown["code"] != 500):
        shown["details"] = known["details"]
    return shown


ID_AND_NAME: list[Field[Record]] = [
    Field("id", column("id")),
    Field("name", column("name")),
    Field("links", lambda server, call: call.links("servers", server["id"])),
]

# What every answer about a server has, beside its addresses.
COMMON: list[Field[Record]] = [
    *ID_AND_NAME,
    Field("tenant_id", column("project_id")),
    Field("user_id", column("user_id")),
    Field("created", lambda server, call: iso(server["created_at"])),
    Field("updated", lambda server, call: iso(server["updated_at"])),
    Field("status", lambda server, call: status(server).status),
    Field("metadata", column("metadata")),
    Field("hostId", lambda server, call: host_id(server["project_id"], _host_name(server, call))),
    Field("image", _image),
    Field("flavor", _flavor),
    Field("accessIPv4", _detail("access_ip_v4", "")),
    Field("accessIPv6", _detail("access_ip_v6", "")),
    Field("OS-DCF:diskConfig", _detail("disk_config", "MANUAL")),
    Field("locked", column("locked"), when="2.9"),
    Field("description", column("description"), when="2.19"),
    Field("tags", _detail("tags", []), when="2.26"),
    Field("trusted_image_certificates", _detail("trusted_image_certificates"), when="2.63"),
    Field("locked_reason", column("locked_reason"), when="2.73"),
    Field("pinned_availability_zone", column("zone"), when="2.96"),
]

# What an update did not show before 2.75.
MORE: list[Field[Record]] = [
    Field("addresses", _addresses),
    Field("key_name", column("key_name")),
    Field("config_drive", lambda server, call: "True" if server["details"].get("config_drive") else ""),
    Field("security_groups", lambda server, call: [{"name": "default"}]),
    Field("OS-EXT-AZ:availability_zone", _zone),
    Field("OS-EXT-STS:vm_state", lambda server, call: status(server).vm_state),
    Field("OS-EXT-STS:task_state", lambda server, call: status(server).task_state),
    Field("OS-EXT-STS:power_state", lambda server, call: status(server).power_state),
    Field("OS-SRV-USG:launched_at", lambda server, call: iso_long(server["launched_at"])),
    Field("OS-SRV-USG:terminated_at", lambda server, call: iso_long(server["deleted_at"])),
    Field("os-extended-volumes:volumes_attached", _volumes),
    Field("OS-EXT-SRV-ATTR:host", _host_name, rule=ATTRIBUTES),
    Field("OS-EXT-SRV-ATTR:hypervisor_hostname", _host_name, rule=ATTRIBUTES),
    Field(
        "OS-EXT-SRV-ATTR:instance_name", lambda server, call: f"instance-{server['id'][:8]}", rule=ATTRIBUTES
    ),
    Field("OS-EXT-SRV-ATTR:reservation_id", _detail("reservation_id"), when="2.3", rule=ATTRIBUTES),
    Field("OS-EXT-SRV-ATTR:launch_index", _detail("launch_index", 0), when="2.3", rule=ATTRIBUTES),
    Field("OS-EXT-SRV-ATTR:hostname", _detail("hostname"), when="2.3-2.89", rule=ATTRIBUTES),
    Field("OS-EXT-SRV-ATTR:hostname", _detail("hostname"), when="2.90"),
    Field("OS-EXT-SRV-ATTR:kernel_id", constant(""), when="2.3", rule=ATTRIBUTES),
    Field("OS-EXT-SRV-ATTR:ramdisk_id", constant(""), when="2.3", rule=ATTRIBUTES),
    Field("OS-EXT-SRV-ATTR:root_device_name", constant(ROOT_DEVICE), when="2.3", rule=ATTRIBUTES),
    Field("OS-EXT-SRV-ATTR:user_data", _detail("user_data"), when="2.3", rule=ATTRIBUTES),
    Field(
        "host_status",
        lambda server, call: hosts.status_for_servers(server["host"], call),
        when="2.16",
        rule=HOST_STATUS,
    ),
]

GROUPS: list[Field[Record]] = [
    Field(
        "server_groups", lambda server, call: [server["group_id"]] if server["group_id"] else [], when="2.71"
    )
]


DETAIL = [*COMMON, *MORE]
SHOW = [*DETAIL, *GROUPS]
UPDATED = [*COMMON, *GROUPS, Field("addresses", addresses_in_brief)]
# What an update shows: since 2.75 everything, before that what `UPDATED` has.
SHOW_OR_UPDATED = [*UPDATED, *(Field(f.name, f.value, "2.75", f.rule) for f in [*MORE[1:]])]
# What a rebuild shows, before 2.75 and since; `user_data` stands here under a shorter name.
USER_DATA = Field[Record]("user_data", _detail("user_data"), when="2.57")
REBUILT = [*UPDATED, Field("key_name", column("key_name"), when="2.54"), USER_DATA]
REBUILT_IN_FULL = [*(f for f in SHOW if f.name != "OS-EXT-SRV-ATTR:user_data"), USER_DATA]
REBUILT_OR_IN_FULL = [*REBUILT, *(Field(f.name, f.value, "2.75", f.rule) for f in REBUILT_IN_FULL)]


# What a create answers with, of a server that is hardly begun.
NEW: list[Field[Record]] = [
    Field("id", column("id")),
    Field("links", lambda new, call: call.links("servers", new["id"])),
    Field("OS-DCF:diskConfig", column("disk_config")),
    Field("security_groups", constant([{"name": "default"}])),
    Field("adminPass", column("admin_pass")),
]


def with_state(server: Record, shown: dict[str, Any], call: Call) -> dict[str, Any]:
    """Add what a server shows only in some states: its progress, its fault."""
    now = status(server)
    if now.status in WITH_PROGRESS:
        shown["progress"] = now.progress
    if (why := fault(server, call)) is not None:
        shown["fault"] = why
    return shown
