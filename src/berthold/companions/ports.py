"""Network: ports with a MAC and addresses, and the servers that are plugged into them.

Two racers never share an address, because an address is a row that one port owns; who
loses an insert takes the next free one. A server is plugged once, in one transaction, and
after it was unplugged never again: a late `plug` of a superseded move is refused. Each port
counts in its project's quota from the transaction that makes it to the one that removes it (Q1).
Locks are taken in one order: plug, ports that are there, quota, then new ports and addresses.
Nothing is wired here; the host's agent does that with what a port says.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, bindparam, delete, func, select, update

from berthold.companions import quotas
from berthold.companions.network import IpNetwork, number_in, subnets_of, usable_network
from berthold.companions.schema import network, network_address, network_plug, network_port
from berthold.errors import Malformed, NotFound, Unavailable, WrongState
from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Insert, Tx, clock_of, insert, moment, now
from berthold.neighbours import Port

Span = tuple[int, int]

MAC_PREFIX = "fa:16:3e"
SERVER_OWNER = "compute:nova"
# Losing an insert means that somebody else got the address, so the next try finds another.
TRIES = 200

# What every create needs, built once.
taken, after = network_address.alias("taken"), network_address.alias("after")
HELD = Prepared(
    select(network_address.c.port_id).where(
        network_address.c.subnet_id == bindparam("subnet"), network_address.c.number == bindparam("number")
    )
)
GAP = Prepared(
    select(func.min(taken.c.number + 1))
    .select_from(taken)
    .outerjoin(after, and_(after.c.subnet_id == taken.c.subnet_id, after.c.number == taken.c.number + 1))
    .where(
        taken.c.subnet_id == bindparam("subnet"),
        taken.c.number >= bindparam("first"),
        taken.c.number < bindparam("last"),
        after.c.number.is_(None),
    )
)
TAKE = Prepared(
    Insert(network_address, lambda row: row.on_conflict_do_nothing().returning(network_address.c.number))
)
MAKE = Prepared(
    Insert(
        network_port,
        lambda row: row.on_conflict_do_nothing(index_elements=["network_id", "mac_address"]).returning(
            network_port.c.id
        ),
    )
)
PLUG = Prepared(
    Insert(network_plug, lambda row: row.on_conflict_do_nothing().returning(network_plug.c.server_id))
)
PLUGGED = Prepared(select(network_plug.c.state).where(network_plug.c.server_id == bindparam("server")))
BIND = Prepared(update(network_port).where(network_port.c.server_id == bindparam("server")))
# A server's ports with their addresses: one row for each address, one for a port without any.
OF_SERVER = Prepared(
    select(
        network_port.c.id,
        network_port.c.network_id,
        network.c.name,
        network_port.c.mac_address,
        network_address.c.ip,
        network_address.c.subnet_id,
    )
    .select_from(
        network_port.join(network, network.c.id == network_port.c.network_id).outerjoin(
            network_address, network_address.c.port_id == network_port.c.id
        )
    )
    .where(network_port.c.server_id == bindparam("server"))
    .order_by(network_port.c.position, network_port.c.id, network_address.c.ip)
)


# -- Ports and addresses ------------------------------------------------------------------


def ports_where(tx: Tx, *conditions: Any) -> list[tuple[Row[Any], list[Row[Any]]]]:
    """Ports with their addresses, in the order of their server's interfaces."""
    wanted = select(network_port).where(*conditions)
    ports = list(
        tx.execute(wanted.order_by(network_port.c.server_id, network_port.c.position, network_port.c.id))
    )
    held: dict[str, list[Row[Any]]] = {}
    chosen = network_address.c.port_id.in_([port.id for port in ports])
    for address in tx.execute(select(network_address).where(chosen).order_by(network_address.c.ip)):
        held.setdefault(address.port_id, []).append(address)
    return [(port, held.get(port.id, [])) for port in ports]


def make_port(
    tx: Tx, project_id: str, network_id: str, fixed: list[dict[str, str]] | None = None, **fields: Any
) -> str:
    """A new port on a network; its id. `fixed` wishes addresses: [{"subnet_id"?, "ip_address"?}];
    without a wish it gets one of the first subnet of either version that has one left. `OverQuota`
    if the project has as many ports as it may."""
    quotas.charge(tx, project_id, port=1)
    port_id = _new_port(tx, network_id, {"project_id": project_id, **fields})
    subnets = subnets_of(tx, [network_id])
    if fixed is None:
        for version in (4, 6):
            of_version = [subnet for subnet in subnets if subnet.version == version]
            if of_version and not any(_take_next(tx, subnet, port_id) for subnet in of_version):
                raise WrongState(f"network {network_id} has no free IPv{version} address")
        return port_id
    for wish in fixed:
        _take_wished(tx, subnets, wish, port_id)
    return port_id


def drop_ports(tx: Tx, *conditions: Any) -> None:
    """Remove ports and give their addresses back."""
    chosen = select(network_port.c.id, network_port.c.project_id).where(*conditions)
    rows = tx.execute(chosen.order_by(network_port.c.id).with_for_update()).all()
    owners = Counter(row.project_id for row in rows)
    for project_id, ports in sorted(owners.items()):
        quotas.give_back(tx, project_id, port=ports)
    ids = [row.id for row in rows]
    tx.execute(delete(network_address).where(network_address.c.port_id.in_(ids)))
    tx.execute(delete(network_port).where(network_port.c.id.in_(ids)))


def _new_port(tx: Tx, network_id: str, fields: dict[str, Any]) -> str:
    mac = fields.pop("mac_address", None)
    for _ in range(TRIES):
        address = mac or _draw_mac(tx)
        present = moment(tx)
        row = {"id": clock_of(tx).new_id(), "created_at": present, "updated_at": present, **fields}
        row |= {"network_id": network_id, "mac_address": address}
        if made := MAKE.row(tx, row):
            return str(made[0])
        if mac:
            raise WrongState(f"MAC address {mac} is in use on network {network_id}")
    raise Unavailable("no free MAC address was found; try again")


def _draw_mac(tx: Tx) -> str:
    low = clock_of(tx).chance().getrandbits(24).to_bytes(3, "big")
    return MAC_PREFIX + "".join(f":{byte:02x}" for byte in low)


def _take_wished(tx: Tx, subnets: list[Any], wish: dict[str, str], port_id: str) -> None:
    """One address as wished: this one, or any of this subnet."""
    ip, subnet_id = wish.get("ip_address"), wish.get("subnet_id")
    subnets = [subnet for subnet in subnets if subnet_id in (None, subnet.id)]
    if not subnets:
        raise Malformed(f"the network has no subnet {subnet_id or 'at all'}")
    if ip is None:
        if not any(_take_next(tx, subnet, port_id) for subnet in subnets):
            raise WrongState("no address is free there")
        return
    for subnet in subnets:
        block = ipaddress.ip_network(subnet.cidr)
        try:
            number = number_in(block, ip)
        except Malformed:
            continue
        if not _take(tx, subnet.id, block, number, port_id):
            raise WrongState(f"address {ip} is in use on network {subnet.network_id}")
        return
    raise Malformed(f"{ip} belongs to no subnet of the network")


def _take_next(tx: Tx, subnet: Any, port_id: str) -> bool:
    """Give the port the lowest free address of the subnet's pools; False if there is none."""
    block = ipaddress.ip_network(subnet.cidr)
    for pool in subnet.pools:
        span = number_in(block, pool["start"]), number_in(block, pool["end"])
        for _ in range(TRIES):
            number = _lowest_free(tx, subnet.id, span)
            if number is None:
                break
            if _take(tx, subnet.id, block, number, port_id):
                return True
        else:
            raise Unavailable(f"too many ask for an address of subnet {subnet.id}; try again")
    return False


def _lowest_free(tx: Tx, subnet_id: str, span: Span) -> int | None:
    """The lowest number of the span that nobody is seen to have."""
    first, last = span
    if not HELD.row(tx, {"subnet": subnet_id, "number": first}):
        return first
    gap = GAP.row(tx, {"subnet": subnet_id, "first": first, "last": last})
    return gap[0] if gap else None


def _take(tx: Tx, subnet_id: str, block: IpNetwork, number: int, port_id: str) -> bool:
    """Whether the address is now the port's. The constraint judges, not the look before."""
    row = {"subnet_id": subnet_id, "number": number, "ip": str(block[number]), "port_id": port_id}
    return TAKE.row(tx, row) is not None


# -- Servers on ports ---------------------------------------------------------------------


def plug(
    tx: Tx, project_id: str, server_id: str, wishes: list[dict[str, Any]], host: str | None = None
) -> list[Port]:
    """The server's ports, on `host`: made or lent now, or as the first call made them."""
    first = {"server_id": server_id, "state": "plugged", "since": moment(tx)}
    if PLUG.row(tx, first) is None:
        if PLUGGED.row(tx, {"server": server_id}) == ("unplugged",):
            raise WrongState(f"server {server_id} was unplugged; it gets no ports again")
        if host is not None:
            bind(tx, server_id, host)
        return server_ports(tx, server_id)
    numbered = list(enumerate(wishes))
    for position, wish in numbered:
        if wish.get("port"):
            lend(tx, project_id, str(wish["port"]), server_id, position, host)
    for position, wish in numbered:
        if wish.get("port"):
            continue
        wanted = usable_network(tx, project_id, str(wish.get("uuid")))
        fixed = [{"ip_address": str(wish["fixed_ip"])}] if wish.get("fixed_ip") else None
        make_port(
            tx,
            project_id,
            wanted.id,
            fixed,
            server_id=server_id,
            position=position,
            device_owner=SERVER_OWNER,
            made_for_server=True,
            host=host,
        )
    return server_ports(tx, server_id)


def lend(tx: Tx, project_id: str, port_id: str, server_id: str, position: int, host: str | None) -> None:
    """The server has this port of the project from now on; raises `NotFound`, or `WrongState` while another
    has it."""
    free = and_(
        network_port.c.id == port_id,
        network_port.c.project_id == project_id,
        network_port.c.server_id.is_(None),
    )
    lent = update(network_port).where(free)
    plugged = {"server_id": server_id, "position": position, "device_owner": SERVER_OWNER, "host": host}
    lent = lent.values(updated_at=now(tx), **plugged)
    if tx.execute(lent).rowcount:
        return
    row = tx.execute(select(network_port).where(network_port.c.id == port_id)).one_or_none()
    if row is None or row.project_id != project_id:
        raise NotFound(f"port {port_id} could not be found")
    raise WrongState(f"port {port_id} is in use by {row.server_id}")


def server_ports(tx: Tx, server_id: str) -> list[Port]:
    """The ports of a server, first interface first."""
    ports: dict[str, Port] = {}
    for port_id, network_id, name, mac, ip, subnet_id in OF_SERVER.rows(tx, {"server": server_id}):
        port = ports.setdefault(port_id, Port(port_id, network_id, name, mac, []))
        if ip is not None:
            version = 6 if ":" in ip else 4
            port.addresses.append({"ip_address": ip, "subnet_id": subnet_id, "version": version})
    return list(ports.values())


def bind(tx: Tx, server_id: str, host: str) -> None:
    """The server's ports are on `host` from now on."""
    BIND.change(tx, {"server": server_id, "host": host, "updated_at": moment(tx)})


def unplug(tx: Tx, server_id: str) -> None:
    """Remove what was made for the server, let go of what it was lent, and remember that it is gone."""
    stone = insert(tx, network_plug).values(server_id=server_id, state="unplugged", since=now(tx))
    tx.execute(
        stone.on_conflict_do_update(
            index_elements=["server_id"], set_={"state": "unplugged", "since": now(tx)}
        )
    )
    let_go(tx, network_port.c.server_id == server_id)


def let_go(tx: Tx, chosen: ColumnElement[bool]) -> None:
    """Remove those of the chosen ports that were made for their server, and free those that it was lent."""
    drop_ports(tx, chosen, network_port.c.made_for_server)
    free = {"server_id": None, "host": None, "position": 0, "device_owner": ""}
    tx.execute(update(network_port).where(chosen).values(updated_at=now(tx), **free))
