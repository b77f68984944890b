"""How hypervisors are shown: sums of resources up to 2.87, uptime after."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from berthold.api.call import Call
from berthold.api.views.fields import Field, column
from berthold.api.views.hosts import number_of, state

Record = Mapping[str, Any]


def _id(host: Record, call: Call) -> int:
    return number_of(host["id"])


def _status(host: Record, call: Call) -> str:
    return "disabled" if host["disabled"] else "enabled"


def _fact(name: str, default: Any) -> Any:
    return lambda host, call: host["facts"].get(name, default)


def _cpu_info(host: Record, call: Call) -> dict[str, Any]:
    told = host["facts"].get("cpu_info", {})
    info: dict[str, Any] = told if isinstance(told, dict) else {}
    return info


def uptime(host: Record, call: Call) -> str | None:
    """In the words of the command of that name, which clients take apart: as it was when the host was heard
    last. None of a host that does not tell when it was booted."""
    booted, heard = host["facts"].get("booted_at"), host["heard_at"]
    if booted is None or heard is None:
        return None
    days, minutes = divmod(int(max(heard - booted, 0.0)) // 60, 24 * 60)
    up = f"{minutes // 60}:{minutes % 60:02}" if minutes >= 60 else f"{minutes} min"
    since = f"{days} {'day' if days == 1 else 'days'}, {up}" if days else up
    users, load = host["facts"].get("users", 0), host["facts"].get("load_average", "0.00, 0.00, 0.00")
    return f"{datetime.fromtimestamp(heard, UTC):%H:%M:%S} up {since},  {users} users,  load average: {load}"


def _service(host: Record, call: Call) -> dict[str, Any]:
    return {"host": host["name"], "id": host["id"], "disabled_reason": host["disabled_reason"]}


def _service_by_number(host: Record, call: Call) -> dict[str, Any]:
    return _service(host, call) | {"id": number_of(host["id"])}


def total(host: Record, name: str) -> int:
    """What the host has of a resource class, whatever is reserved or promised more than once."""
    return int(host["inventory"].get(name, {}).get("total", 0))


def used(host: Record, name: str) -> int:
    """What is claimed of it or kept back."""
    row = host["inventory"].get(name, {})
    return int(row.get("used", 0)) + int(row.get("reserved", 0))


SUMS: dict[str, Any] = {
    "vcpus": lambda host: total(host, "VCPU"),
    "vcpus_used": lambda host: used(host, "VCPU"),
    "memory_mb": lambda host: total(host, "MEMORY_MB"),
    "memory_mb_used": lambda host: used(host, "MEMORY_MB"),
    "free_ram_mb": lambda host: total(host, "MEMORY_MB") - used(host, "MEMORY_MB"),
    "local_gb": lambda host: total(host, "DISK_GB"),
    "local_gb_used": lambda host: used(host, "DISK_GB"),
    "free_disk_gb": lambda host: total(host, "DISK_GB") - used(host, "DISK_GB"),
    "disk_available_least": lambda host: total(host, "DISK_GB") - used(host, "DISK_GB"),
    "running_vms": lambda host: host["guests"],
    "current_workload": lambda host: host["moving"],
}


def _sum(name: str) -> Any:
    return lambda host, call: SUMS[name](host)


BRIEF: list[Field[Record]] = [
    Field("id", _id, when="2.1-2.52"),
    Field("id", column("id"), when="2.53"),
    Field("hypervisor_hostname", column("name")),
    Field("state", state),
    Field("status", _status),
]
UPTIME: list[Field[Record]] = [*BRIEF, Field("uptime", uptime)]
FULL: list[Field[Record]] = [
    *BRIEF,
    Field("cpu_info", lambda host, call: json.dumps(_cpu_info(host, call)), when="2.1-2.27"),
    Field("cpu_info", _cpu_info, when="2.28-2.87"),
    *(Field(name, _sum(name), when="2.1-2.87") for name in SUMS),
    Field("host_ip", _fact("host_ip", "")),
    Field("hypervisor_type", _fact("hypervisor_type", "")),
    Field("hypervisor_version", _fact("hypervisor_version", 0)),
    Field("service", _service_by_number, when="2.1-2.52"),
    Field("service", _service, when="2.53"),
    Field("uptime", uptime, when="2.88"),
]
