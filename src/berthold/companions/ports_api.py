"""Network v2.0 over HTTP: ports, what clients list beside them, and the whole table of routes."""

from __future__ import annotations

import uuid
from typing import Annotated, Any

from msgspec import Meta, Struct, structs
from sqlalchemy import Row
from starlette.responses import Response

from berthold.companions import network, ports, quotas
from berthold.companions.http import Asked, Document, Route, answer, nothing, stamp
from berthold.companions.network_api import (
    Address,
    Name,
    delete_network,
    delete_subnet,
    list_networks,
    list_subnets,
    listing,
    make_network,
    make_subnet,
    owner_for,
    resources,
    show_network,
    show_subnet,
    versions,
)
from berthold.companions.quotas import OF_NETWORKS
from berthold.companions.schema import network_port
from berthold.errors import Malformed, NotFound, WrongState
from berthold.ledger.store import Tx

Mac = Annotated[str, Meta(pattern="^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$")]
NOT_LIMITS = ("id", "project_id", "tenant_id", "force", "check_limit")


class FixedIp(Struct, forbid_unknown_fields=True):
    subnet_id: str | None = None
    ip_address: Address | None = None

    def wish(self) -> dict[str, str]:
        return {key: value for key, value in structs.asdict(self).items() if value}


class NewPort(Struct, forbid_unknown_fields=True):
    network_id: str
    name: Name | None = None
    admin_state_up: bool = True
    mac_address: Mac | None = None
    fixed_ips: Annotated[list[FixedIp], Meta(max_length=16)] | None = None
    device_id: str | None = None
    project_id: str | None = None
    tenant_id: str | None = None
    security_groups: list[str] | None = None  # there is one, and it filters nothing
    description: Name | None = None


class NewPortBody(Struct):
    port: NewPort


class NewLimits(Struct):
    quota: dict[str, Any]


def port_document(asked: Asked, row: Row[Any], addresses: list[Row[Any]]) -> Document:
    document = {
        "id": row.id,
        "name": row.name,
        "description": "",
        "network_id": row.network_id,
        "tenant_id": row.project_id,
        "project_id": row.project_id,
        "mac_address": row.mac_address,
        "fixed_ips": [{"subnet_id": a.subnet_id, "ip_address": a.ip} for a in addresses],
        "device_id": row.server_id or "",
        "device_owner": row.device_owner,
        "admin_state_up": row.admin_state_up,
        "status": "ACTIVE" if row.host else "DOWN",
        "security_groups": [],
        "port_security_enabled": False,
        "allowed_address_pairs": [],
        "extra_dhcp_opts": [],
        "binding:vnic_type": "normal",
        "tags": [],
        "created_at": stamp(row.created_at),
        "updated_at": stamp(row.updated_at),
    }
    if asked.actor.is_admin:
        document["binding:host_id"] = row.host or ""
        document["binding:vif_type"] = "bridge" if row.host else "unbound"
        document["binding:vif_details"] = {}
        document["binding:profile"] = {}
    return document


def seen_ports(tx: Tx, asked: Asked, *conditions: Any) -> list[Document]:
    mine = () if asked.actor.is_admin else (network_port.c.project_id == asked.actor.project_id,)
    rows = ports.ports_where(tx, *mine, *conditions)
    return [port_document(asked, row, addresses) for row, addresses in rows]


def seen_port(tx: Tx, asked: Asked, port_id: str) -> Document:
    for document in seen_ports(tx, asked, network_port.c.id == port_id):
        return document
    raise NotFound(f"port {port_id} could not be found")


PORT_COLUMNS = {"device_id": "server_id", "network_id": "network_id", "id": "id"}


async def list_ports(asked: Asked) -> Response:
    many = asked.request.query_params.getlist
    conditions = [
        network_port.c[column].in_(many(key)) for key, column in PORT_COLUMNS.items() if asked.query.get(key)
    ]
    return listing(asked, "ports", await asked.four.store.read(seen_ports, asked, *conditions))


async def show_port(asked: Asked) -> Response:
    return answer({"port": await asked.four.store.read(seen_port, asked, asked.path["id"])})


async def make_port(asked: Asked) -> Response:
    """A port for later use; only compute gives ports to servers."""
    wish = (await asked.body(NewPortBody)).port
    if wish.device_id:
        raise Malformed("compute gives a port to a server: create the server with it, or attach it there")
    owner = owner_for(asked, wish.project_id or wish.tenant_id)
    fixed = [ip.wish() for ip in wish.fixed_ips] if wish.fixed_ips is not None else None
    fields: Document = {"name": wish.name or "", "admin_state_up": wish.admin_state_up}
    if wish.mac_address:
        fields["mac_address"] = wish.mac_address.lower()

    def change(tx: Tx) -> Document:
        on = network.usable_network(tx, owner, wish.network_id)
        return seen_port(tx, asked, ports.make_port(tx, owner, on.id, fixed, **fields))

    return answer({"port": await asked.four.store.write(change)}, 201)


async def delete_port(asked: Asked) -> Response:
    def change(tx: Tx) -> None:
        port = seen_port(tx, asked, asked.path["id"])
        if port["device_id"]:
            raise WrongState(f"port {port['id']} is in use by server {port['device_id']}")
        ports.drop_ports(tx, network_port.c.id == port["id"], network_port.c.server_id.is_(None))

    await asked.four.store.write(change)
    return nothing()


# -- What clients list beside them --------------------------------------------------------


def default_group(project_id: str) -> Document:
    """The one security group of a project. It has no rules: traffic is not filtered here."""
    return {
        "id": str(uuid.uuid5(uuid.NAMESPACE_URL, f"berthold/security-group/{project_id}")),
        "name": "default",
        "description": "traffic is not filtered",
        "project_id": project_id,
        "tenant_id": project_id,
        "security_group_rules": [],
        "stateful": True,
        "shared": False,
        "tags": [],
    }


async def list_groups(asked: Asked) -> Response:
    return listing(asked, "security_groups", [default_group(asked.actor.project_id)])


async def show_group(asked: Asked) -> Response:
    group = default_group(asked.actor.project_id)
    if asked.path["id"] != group["id"]:
        raise NotFound(f"security group {asked.path['id']} could not be found")
    return answer({"security_group": group})


async def list_rules(asked: Asked) -> Response:
    return listing(asked, "security_group_rules", [])


async def list_extensions(asked: Asked) -> Response:
    return answer({"extensions": []})


# -- Quotas -------------------------------------------------------------------------------


async def usage(asked: Asked) -> dict[str, quotas.Usage]:
    await asked.need_project(asked.path["id"])
    return await asked.four.store.read(quotas.of, asked.path["id"], OF_NETWORKS)


async def show_quota(asked: Asked) -> Response:
    limits = {name: each.limit for name, each in (await usage(asked)).items()}
    return answer({"quota": {"project_id": asked.path["id"], **limits}})


async def show_default_quota(asked: Asked) -> Response:
    await asked.need_project(asked.path["id"])
    limits = quotas.defaults(asked.four.store.settings, OF_NETWORKS)
    return answer({"quota": {"project_id": asked.path["id"], **limits}})


async def show_quota_use(asked: Asked) -> Response:
    kept = await usage(asked)
    quota = {name: {"limit": each.limit, "used": each.used, "reserved": 0} for name, each in kept.items()}
    return answer({"quota": quota})


async def change_quota(asked: Asked) -> Response:
    """Limits of a project; with `check_limit` none that is below its use already."""
    asked.need_admin()
    await asked.need_project(asked.path["id"])
    wish = (await asked.body(NewLimits)).quota
    limits = {name: value for name, value in wish.items() if name not in NOT_LIMITS}
    if unknown := sorted(limits.keys() - set(OF_NETWORKS)):
        raise Malformed(f"Unrecognized attribute(s) '{', '.join(unknown)}'")
    wanted, checked = quotas.limits_from(limits), wish.get("check_limit") is True
    project_id = asked.path["id"]
    await asked.four.store.write(lambda tx: quotas.set_limits(tx, project_id, wanted, not_below_use=checked))
    return await show_quota(asked)


async def reset_quota(asked: Asked) -> Response:
    """The default limits again; of a project that was removed, too."""
    asked.need_admin()
    await asked.four.store.write(quotas.reset_limits, asked.path["id"], OF_NETWORKS)
    return nothing()


OPEN_ROUTES: tuple[Route, ...] = (
    ("GET", "", versions),
    ("GET", "/", versions),
    ("GET", "/v2.0", resources),
    ("GET", "/v2.0/", resources),
)

ROUTES: tuple[Route, ...] = (
    ("GET", "/v2.0/networks", list_networks),
    ("POST", "/v2.0/networks", make_network),
    ("GET", "/v2.0/networks/{id}", show_network),
    ("DELETE", "/v2.0/networks/{id}", delete_network),
    ("GET", "/v2.0/subnets", list_subnets),
    ("POST", "/v2.0/subnets", make_subnet),
    ("GET", "/v2.0/subnets/{id}", show_subnet),
    ("DELETE", "/v2.0/subnets/{id}", delete_subnet),
    ("GET", "/v2.0/ports", list_ports),
    ("POST", "/v2.0/ports", make_port),
    ("GET", "/v2.0/ports/{id}", show_port),
    ("DELETE", "/v2.0/ports/{id}", delete_port),
    ("GET", "/v2.0/security-groups", list_groups),
    ("GET", "/v2.0/security-groups/{id}", show_group),
    ("GET", "/v2.0/security-group-rules", list_rules),
    ("GET", "/v2.0/extensions", list_extensions),
    ("GET", "/v2.0/quotas/{id}", show_quota),
    ("PUT", "/v2.0/quotas/{id}", change_quota),
    ("DELETE", "/v2.0/quotas/{id}", reset_quota),
    ("GET", "/v2.0/quotas/{id}/default", show_default_quota),
    ("GET", "/v2.0/quotas/{id}/details", show_quota_use),
    ("GET", "/v2.0/quotas/{id}/details.json", show_quota_use),
)
