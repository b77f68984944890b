"""What a server shows of itself beside its record: addresses, diagnostics, consoles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from berthold.api.call import Call
from berthold.api.views import servers as views
from berthold.api.views.fields import Field, column, constant, render
from berthold.errors import Malformed, NotFound, WrongState
from berthold.ledger import reading

Record = Mapping[str, Any]
# The power states of a server, as diagnostics say them.
STATES = {0: "pending", 1: "running", 3: "paused", 4: "shutdown"}


async def _server(call: Call, server_id: str) -> reading.Row:
    return await call.store.read(reading.server_of, server_id, call.scope)


# -- Addresses ----------------------------------------------------------------------------


async def addresses(call: Call, server_id: str) -> dict[str, Any]:
    """Its addresses by network."""
    return {"addresses": views.addresses_in_brief(await _server(call, server_id), call)}


async def addresses_on(call: Call, server_id: str, network: str) -> dict[str, Any]:
    """Its addresses on one network."""
    found = views.addresses_in_brief(await _server(call, server_id), call)
    if network not in found:
        raise NotFound("Instance is not a member of specified network")
    return {network: found[network]}


# -- Diagnostics --------------------------------------------------------------------------


NIC = [f"{way}_{what}" for way in ("rx", "tx") for what in ("drop", "errors", "octets", "packets", "rate")]


def _disks(server: Record, call: Call) -> int:
    return len(server["volumes"]) + bool(server["image_id"])


def _nics(server: Record, call: Call) -> list[dict[str, Any]]:
    return [{"mac_address": port["mac_address"]} | dict.fromkeys(NIC) for port in server["ports"]]


# What only the hypervisor knows is null.
DIAGNOSTICS: list[Field[Record]] = [
    Field("memory", lambda server, call: server["flavor"]["ram"] * 1024, when="2.1-2.47"),
    Field(
        "state",
        lambda server, call: STATES.get(views.status(server).power_state, "pending"),
        when="2.48",
    ),
    Field("driver", column("driver"), when="2.48"),
    Field("hypervisor", column("driver"), when="2.48"),
    Field("hypervisor_os", constant(None), when="2.48"),
    Field("uptime", constant(None), when="2.48"),
    Field("config_drive", lambda server, call: bool(server["details"].get("config_drive")), when="2.48"),
    Field("num_cpus", lambda server, call: server["flavor"]["vcpus"], when="2.48"),
    Field("num_disks", _disks, when="2.48"),
    Field("num_nics", lambda server, call: len(server["ports"]), when="2.48"),
    Field(
        "memory_details",
        lambda server, call: {"maximum": server["flavor"]["ram"], "used": None},
        when="2.48",
    ),
    Field("cpu_details", constant([]), when="2.48"),
    Field("disk_details", constant([]), when="2.48"),
    Field("nic_details", _nics, when="2.48"),
]


async def diagnostics(call: Call, server_id: str) -> dict[str, Any]:
    """What is known of the guest without asking its hypervisor."""
    server = await _server(call, server_id)
    if server["host"] is None:
        raise WrongState(f"Cannot 'diagnostics' instance {server_id}: it is on no host")
    facts = (await call.store.read(reading.hosts, ids=[server["host"]["id"]]))[0]["facts"]
    return render(DIAGNOSTICS, {**server, "driver": facts.get("hypervisor_type")}, call)


# -- Consoles -----------------------------------------------------------------------------


async def remote_console(call: Call, server_id: str) -> NoReturn:
    """A console in a browser. This cloud has no proxy for one, and says so."""
    server, wish = await _server(call, server_id), call.body.remote_console
    if server["host"] is None:
        raise WrongState(f"Instance {server_id} is not ready")
    raise Malformed(
        f"Unavailable console type {wish.type}: this cloud has no console proxy."
        " What a guest writes to its console is read by the action os-getConsoleOutput."
    )
