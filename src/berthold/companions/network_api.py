"""Network v2.0 over HTTP: networks, subnets, ports, and what clients list beside them."""

from __future__ import annotations

import uuid
from typing import Annotated, Any

from msgspec import Meta, Struct
from sqlalchemy import Row, select
from starlette.responses import Response

from berthold.companions import network, ports
from berthold.companions.http import Asked, Document, Route, answer, nothing, page, stamp
from berthold.companions.schema import network as network_table
from berthold.companions.schema import network_port, network_subnet
from berthold.errors import Malformed, NotAllowed, NotFound, WrongState
from berthold.ledger.store import Tx

Name = Annotated[str, Meta(max_length=255)]
Mac = Annotated[str, Meta(pattern="^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$")]
Address = Annotated[str, Meta(max_length=64)]
NO_LIMIT = -1
QUOTAS = [
    "floatingip",
    "network",
    "port",
    "rbac_policy",
    "router",
    "security_group",
    "security_group_rule",
    "subnet",
    "subnetpool",
]
NOT_FILTERS = ("limit", "marker", "fields", "sort_key", "sort_dir", "page_reverse")


class NewNetwork(Struct):
    name: Name | None = None
    description: Name | None = None
    shared: bool = False
    admin_state_up: bool = True
    mtu: Annotated[int, Meta(ge=68, le=65535)] | None = None
    project_id: str | None = None
    tenant_id: str | None = None


class NewNetworkBody(Struct):
    network: NewNetwork


class Pool(Struct):
    start: Address
    end: Address


class NewSubnet(Struct):
    network_id: str
    cidr: Address
    name: Name | None = None
    ip_version: Annotated[int, Meta(ge=4, le=6)] | None = None
    gateway_ip: Address | None = ""
    enable_dhcp: bool | None = None
    allocation_pools: Annotated[list[Pool], Meta(max_length=32)] | None = None
    dns_nameservers: Annotated[list[Address], Meta(max_length=32)] | None = None


class NewSubnetBody(Struct):
    subnet: NewSubnet


class FixedIp(Struct):
    subnet_id: str | None = None
    ip_address: Address | None = None


class NewPort(Struct):
    network_id: str
    name: Name | None = None
    admin_state_up: bool = True
    mac_address: Mac | None = None
    fixed_ips: Annotated[list[FixedIp], Meta(max_length=16)] | None = None
    device_id: str | None = None
    project_id: str | None = None
    tenant_id: str | None = None


class NewPortBody(Struct):
    port: NewPort


def fault(status: int, title: str, message: str) -> Document:
    """A failure as Neutron says it."""
    return {"NeutronError": {"type": title.replace(" ", ""), "message": message, "detail": ""}}


async def versions(asked: Asked) -> Response:
    links = [{"rel": "self", "href": f"{asked.home}/network/v2.0/"}]
    return answer({"versions": [{"id": "v2.0", "status": "CURRENT", "links": links}]})


async def resources(asked: Asked) -> Response:
    here = f"{asked.home}/network/v2.0"
    listed = ("network", "subnet", "port")
    documents = [
        {"name": name, "collection": name + "s", "links": [{"rel": "self", "href": f"{here}/{name}s"}]}
        for name in listed
    ]
    return answer({"resources": documents})


def listing(asked: Asked, noun: str, documents: list[Document]) -> Response:
    """The documents that agree with every field the query names; a field named twice may be either."""
    for name in {key for key, _ in asked.request.query_params.multi_items()} - set(NOT_FILTERS):
        wanted = [value.lower() for value in asked.request.query_params.getlist(name)]
        documents = [d for d in documents if name not in d or str(d[name]).lower() in wanted]
    chosen, following = page(asked, documents)
    answered: Document = {noun: chosen}
    if following:
        here = f"{asked.home}{asked.request.url.path}?{following}"
        answered[f"{noun}_links"] = [{"rel": "next", "href": here}]
    return answer(answered)


def owner_for(asked: Asked, wish: NewNetwork | NewPort) -> str:
    """Whose the new thing is: the caller's, or whose an admin says."""
    owner = wish.project_id or wish.tenant_id or asked.actor.project_id
    if owner != asked.actor.project_id:
        asked.need_admin()
    return owner


# -- Networks -----------------------------------------------------------------------------


def network_document(row: Row[Any], subnets: list[Row[Any]]) -> Document:
    return {
        "id": row.id,
        "name": row.name,
        "description": row.description,
        "tenant_id": row.project_id,
        "project_id": row.project_id,
        "status": "ACTIVE",
        "admin_state_up": row.admin_state_up,
        "shared": row.shared,
        "router:external": row.external,
        "mtu": row.mtu,
        "subnets": [subnet.id for subnet in subnets if subnet.network_id == row.id],
        "port_security_enabled": False,
        "availability_zones": [],
        "availability_zone_hints": [],
        "tags": [],
        "created_at": stamp(row.created_at),
        "updated_at": stamp(row.updated_at),
    }


async def list_networks(asked: Asked) -> Response:
    def look(tx: Tx) -> list[Document]:
        rows = network.networks_of(tx, asked.actor)
        subnets = network.subnets_of(tx, [row.id for row in rows])
        return [network_document(row, subnets) for row in rows]

    return listing(asked, "networks", await asked.four.store.read(look))


async def show_network(asked: Asked) -> Response:
    def look(tx: Tx) -> Document:
        row = network.network_of(tx, asked.actor, asked.path["id"])
        return network_document(row, network.subnets_of(tx, [row.id]))

    return answer({"network": await asked.four.store.read(look)})


async def make_network(asked: Asked) -> Response:
    wish = (await asked.body(NewNetworkBody)).network
    if wish.shared:
        asked.need_admin()
    owner = owner_for(asked, wish)
    fields: Document = {
        "name": wish.name or "",
        "description": wish.description or "",
        "shared": wish.shared,
        "admin_state_up": wish.admin_state_up,
        "mtu": wish.mtu or 1500,
    }
    row = await asked.four.store.write(lambda tx: network.make_network(tx, owner, **fields))
    return answer({"network": network_document(row, [])}, 201)


async def delete_network(asked: Asked) -> Response:
    def change(tx: Tx) -> None:
        own(asked, network.network_of(tx, asked.actor, asked.path["id"]))
        network.drop_network(tx, asked.path["id"])

    await asked.four.store.write(change)
    return nothing()


def own(asked: Asked, row: Row[Any]) -> Row[Any]:
    """The row, if the caller may change it."""
    if not asked.actor.is_admin and row.project_id != asked.actor.project_id:
        raise NotAllowed("it belongs to another project, which shares it with you")
    return row


# -- Subnets ------------------------------------------------------------------------------


def subnet_document(row: Row[Any]) -> Document:
    return {
        "id": row.id,
        "name": row.name,
        "description": "",
        "network_id": row.network_id,
        "tenant_id": row.project_id,
        "project_id": row.project_id,
        "ip_version": row.version,
        "cidr": row.cidr,
        "gateway_ip": row.gateway_ip,
        "enable_dhcp": row.dhcp,
        "allocation_pools": row.pools,
        "dns_nameservers": row.nameservers,
        "host_routes": [],
        "ipv6_address_mode": None,
        "ipv6_ra_mode": None,
        "subnetpool_id": None,
        "service_types": [],
        "tags": [],
        "created_at": stamp(row.created_at),
        "updated_at": stamp(row.created_at),
    }


def seen_subnets(tx: Tx, asked: Asked) -> list[Row[Any]]:
    return network.subnets_of(tx, [row.id for row in network.networks_of(tx, asked.actor)])


def seen_subnet(tx: Tx, asked: Asked) -> Row[Any]:
    for row in seen_subnets(tx, asked):
        if row.id == asked.path["id"]:
            return row
    raise NotFound(f"subnet {asked.path['id']} could not be found")


async def list_subnets(asked: Asked) -> Response:
    rows = await asked.four.store.read(seen_subnets, asked)
    return listing(asked, "subnets", [subnet_document(row) for row in rows])


async def show_subnet(asked: Asked) -> Response:
    return answer({"subnet": subnet_document(await asked.four.store.read(seen_subnet, asked))})


async def make_subnet(asked: Asked) -> Response:
    wish = (await asked.body(NewSubnetBody)).subnet
    if wish.ip_version not in (None, network.block_of(wish.cidr).version):
        raise Malformed(f"{wish.cidr} is not of IP version {wish.ip_version}")
    fields: Document = {
        "name": wish.name or "",
        "dhcp": wish.enable_dhcp is not False,
        "nameservers": wish.dns_nameservers or [],
        "pools": [{"start": pool.start, "end": pool.end} for pool in wish.allocation_pools or []],
    }
    if wish.gateway_ip != "":
        fields["gateway_ip"] = wish.gateway_ip

    def change(tx: Tx) -> Row[Any]:
        on = own(asked, network.network_of(tx, asked.actor, wish.network_id))
        return network.make_subnet(tx, on.project_id, on.id, wish.cidr, **fields)

    return answer({"subnet": subnet_document(await asked.four.store.write(change))}, 201)


async def delete_subnet(asked: Asked) -> Response:
    def change(tx: Tx) -> None:
        network.drop_subnet(tx, own(asked, seen_subnet(tx, asked)).id)

    await asked.four.store.write(change)
    return nothing()


# -- Ports --------------------------------------------------------------------------------


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
        raise Malformed("compute gives a port to a server: create the server with this port")
    owner = owner_for(asked, wish)
    fixed = None
    if wish.fixed_ips is not None:
        fixed = [
            {
                key: value
                for key, value in (("subnet_id", ip.subnet_id), ("ip_address", ip.ip_address))
                if value
            }
            for ip in wish.fixed_ips
        ]
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


async def show_quota(asked: Asked) -> Response:
    """No limits are kept for networks, and this says so."""
    if asked.path["id"] != asked.actor.project_id:
        asked.need_admin()
    return answer({"quota": {"project_id": asked.path["id"], **dict.fromkeys(QUOTAS, NO_LIMIT)}})


async def show_quota_use(asked: Asked) -> Response:
    if asked.path["id"] != asked.actor.project_id:
        asked.need_admin()
    kept = {"network": network_table, "subnet": network_subnet, "port": network_port}

    def look(tx: Tx) -> Document:
        quota: Document = {}
        for name in QUOTAS:
            used = 0
            if name in kept:
                mine = select(kept[name].c.id).where(kept[name].c.project_id == asked.path["id"])
                used = len(tx.execute(mine).all())
            quota[name] = {"limit": NO_LIMIT, "used": used, "reserved": 0}
        return quota

    return answer({"quota": await asked.four.store.read(look)})


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
    ("GET", "/v2.0/quotas/{id}/details", show_quota_use),
)
