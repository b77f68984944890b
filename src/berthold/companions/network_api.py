"""Network v2.0 over HTTP: networks and subnets."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec import field as named
from sqlalchemy import Row
from starlette.responses import Response

from berthold.companions import network
from berthold.companions.http import Asked, Document, answer, nothing, page, stamp
from berthold.companions.lists import in_order
from berthold.errors import Malformed, NotAllowed, NotFound
from berthold.ledger.store import Tx

Name = Annotated[str, Meta(max_length=255)]
Address = Annotated[str, Meta(max_length=64)]
NOT_FILTERS = ("limit", "marker", "fields", "sort_key", "sort_dir", "page_reverse")


class NewNetwork(Struct, forbid_unknown_fields=True):
    name: Name | None = None
    description: Name | None = None
    shared: bool = False
    admin_state_up: bool = True
    mtu: Annotated[int, Meta(ge=68, le=65535)] | None = None
    project_id: str | None = None
    tenant_id: str | None = None
    external: bool = named(name="router:external", default=False)


class NewNetworkBody(Struct):
    network: NewNetwork


class Pool(Struct, forbid_unknown_fields=True):
    start: Address
    end: Address


class NewSubnet(Struct, forbid_unknown_fields=True):
    network_id: str
    cidr: Address
    name: Name | None = None
    ip_version: Annotated[int, Meta(ge=4, le=6)] | None = None
    gateway_ip: Address | None = ""
    enable_dhcp: bool | None = None
    allocation_pools: Annotated[list[Pool], Meta(max_length=32)] | None = None
    dns_nameservers: Annotated[list[Address], Meta(max_length=32)] | None = None
    project_id: str | None = None  # a subnet is its network's project's, whoever makes it
    tenant_id: str | None = None


class NewSubnetBody(Struct):
    subnet: NewSubnet


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
    keys = {key for document in documents for key in document}
    for name in {key for key, _ in asked.request.query_params.multi_items()} - set(NOT_FILTERS):
        wanted = [value.lower() for value in asked.request.query_params.getlist(name)]
        if name == "fixed_ips":
            documents = [d for d in documents if name not in d or _has_address(d[name], wanted)]
        else:
            documents = [d for d in documents if name not in d or str(d[name]).lower() in wanted]
    if keys:  # of no things nobody knows by what they could be sorted
        documents = in_order(asked, documents, keys, "asc")
    chosen, following = page(asked, documents)
    answered: Document = {noun: chosen}
    if following:
        here = f"{asked.home}{asked.request.url.path}?{following}"
        answered[f"{noun}_links"] = [{"rel": "next", "href": here}]
    return answer(answered)


def _has_address(addresses: list[Document], wanted: list[str]) -> bool:
    """Whether a port has a wanted address on a wanted subnet: `ip_address=…`, `subnet_id=…`."""
    for name in ("ip_address", "subnet_id"):
        values = [text.removeprefix(f"{name}=") for text in wanted if text.startswith(f"{name}=")]
        addresses = [each for each in addresses if not values or each[name].lower() in values]
    return bool(addresses)


def owner_for(asked: Asked, owner: str | None) -> str:
    """Whose the new thing is: the caller's, or whose an admin says."""
    owner = owner or asked.actor.project_id
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
    if wish.shared or wish.external:
        asked.need_admin()
    owner = owner_for(asked, wish.project_id or wish.tenant_id)
    fields: Document = {
        "name": wish.name or "",
        "description": wish.description or "",
        "shared": wish.shared,
        "external": wish.external,
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
