"""Network: networks and their subnets, and which addresses a subnet hands out.

A project sees its own networks and shared ones. Subnets of one network are made one after
another and never overlap. What is made takes of its project's quota in the same transaction,
and what is removed gives it back (Q1). Ports and addresses are in ports.py.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from sqlalchemy import Row, bindparam, delete, or_, select, update

from berthold.companions import quotas
from berthold.companions.schema import network, network_address, network_port, network_subnet
from berthold.errors import Malformed, NotFound, WrongState
from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Tx, clock_of, insert, now
from berthold.neighbours import Actor

IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

FIND = Prepared(select(network).where(network.c.id == bindparam("network")))
SUBNETS = select(network_subnet).order_by(network_subnet.c.created_at, network_subnet.c.id)
SUBNETS_OF_ONE = Prepared(SUBNETS.where(network_subnet.c.network_id == bindparam("network")))

# The highest number that an address may have in its subnet (a /64 has more than a row counts).
LAST_NUMBER = 2**62


def networks_of(tx: Tx, actor: Actor) -> list[Row[Any]]:
    """Every network that the actor may see, oldest first."""
    visible = select(network).order_by(network.c.created_at, network.c.id)
    if not actor.is_admin:
        visible = visible.where(or_(network.c.project_id == actor.project_id, network.c.shared))
    return list(tx.execute(visible))


def network_of(tx: Tx, actor: Actor, network_id: str) -> Any:
    """A network that the actor may see, as a row; raises `NotFound`."""
    row = FIND.record(tx, {"network": network_id})
    if row is None or not (actor.is_admin or row.shared or row.project_id == actor.project_id):
        raise NotFound(f"network {network_id} could not be found")
    return row


def usable_network(tx: Tx, project_id: str, network_id: str) -> Any:
    """A network that a server of the project may be put on, as a row: its own or a shared one."""
    row = FIND.record(tx, {"network": network_id})
    if row is None or not (row.shared or row.project_id == project_id):
        raise NotFound(f"network {network_id} could not be found")
    return row


def make_network(tx: Tx, project_id: str, **fields: Any) -> Row[Any]:
    """A new network, without subnets; `OverQuota` if the project has as many as it may."""
    quotas.charge(tx, project_id, network=1)
    values = {"id": clock_of(tx).new_id(), "created_at": now(tx), "updated_at": now(tx), **fields}
    return tx.execute(insert(tx, network).values(project_id=project_id, **values).returning(network)).one()


def drop_network(tx: Tx, network_id: str) -> None:
    """Remove a network and its subnets; `WrongState` while a port is on it."""
    if tx.execute(select(network_port.c.id).where(network_port.c.network_id == network_id).limit(1)).first():
        raise WrongState(f"network {network_id} is in use: remove its ports first")
    # The network's row first, as those lock it who make subnets.
    tx.execute(select(network.c.id).where(network.c.id == network_id).with_for_update()).first()
    gone = delete(network_subnet).where(network_subnet.c.network_id == network_id)
    subnets = len(tx.execute(gone.returning(network_subnet.c.id)).all())
    dropped = delete(network).where(network.c.id == network_id).returning(network.c.project_id)
    owner = tx.execute(dropped).scalar_one_or_none()
    if owner is not None:
        # A subnet is its network's project's.
        quotas.give_back(tx, owner, network=1, subnet=subnets)


def subnets_of(tx: Tx, network_ids: list[str]) -> list[Any]:
    """The subnets of these networks, as rows, oldest first."""
    if len(network_ids) == 1:
        return SUBNETS_OF_ONE.records(tx, {"network": network_ids[0]})
    return list(tx.execute(SUBNETS.where(network_subnet.c.network_id.in_(network_ids))))


def make_subnet(tx: Tx, project_id: str, network_id: str, cidr: str, **fields: Any) -> Row[Any]:
    """A subnet whose addresses do not overlap with another of its network.

    Unless `gateway_ip` or `pools` are given the gateway is the first address and all
    others may be handed out.
    """
    block = block_of(cidr)
    # Subnets of one network are made one after another, so that none overlaps unseen.
    touched = update(network).where(network.c.id == network_id).values(updated_at=now(tx))
    if not tx.execute(touched).rowcount:
        raise NotFound(f"network {network_id} could not be found")
    for other in subnets_of(tx, [network_id]):
        theirs = ipaddress.ip_network(other.cidr)
        if theirs.version == block.version and theirs.overlaps(block):
            raise Malformed(f"{cidr} overlaps with {other.cidr} of subnet {other.id} on the same network")
    gateway = fields.pop("gateway_ip", str(block[1]))
    if gateway is not None:
        number_in(block, gateway)
    pools = fields.pop("pools", None) or whole_pools(block, gateway)
    for pool in pools:
        if number_in(block, pool["start"]) > number_in(block, pool["end"]):
            raise Malformed(f"the allocation pool {pool['start']} to {pool['end']} is empty")
    quotas.charge(tx, project_id, subnet=1)
    values = {"id": clock_of(tx).new_id(), "created_at": now(tx), **fields}
    values.update(
        network_id=network_id,
        project_id=project_id,
        cidr=str(block),
        version=block.version,
        gateway_ip=gateway,
        pools=pools,
    )
    return tx.execute(insert(tx, network_subnet).values(values).returning(network_subnet)).one()


def drop_subnet(tx: Tx, subnet_id: str) -> None:
    """Remove a subnet; `WrongState` while a port has an address of it."""
    used = select(network_address.c.ip).where(network_address.c.subnet_id == subnet_id).limit(1)
    if tx.execute(used).first():
        raise WrongState(f"subnet {subnet_id} is in use: ports have addresses of it")
    gone = delete(network_subnet).where(network_subnet.c.id == subnet_id)
    for row in tx.execute(gone.returning(network_subnet.c.project_id)).all():
        quotas.give_back(tx, row.project_id, subnet=1)


def block_of(cidr: str) -> IpNetwork:
    """The addresses that `cidr` means; at least four of them."""
    try:
        block = ipaddress.ip_network(cidr)
    except ValueError as error:
        raise Malformed(f"{cidr!r} is not a range of addresses: {error}") from error
    if block.num_addresses < 4:
        raise Malformed(f"{cidr} has no room for a gateway and a port")
    return block


def whole_pools(block: IpNetwork, gateway: str | None) -> list[dict[str, str]]:
    """Everything between the first and the last address, without the gateway."""
    ends = last_of(block)
    hole = number_in(block, gateway) if gateway else 0
    parts = [(1, hole - 1), (hole + 1, ends)] if hole else [(1, ends)]
    return [{"start": str(block[a]), "end": str(block[b])} for a, b in parts if a <= b]


def last_of(block: IpNetwork) -> int:
    """The number of the last address that may be handed out; an IPv4 broadcast may not."""
    return int(min(block.num_addresses - (2 if block.version == 4 else 1), LAST_NUMBER))


def number_in(block: IpNetwork, ip: str) -> int:
    """Which address of the block `ip` is; `Malformed` if it is none that may be used."""
    try:
        number = int(ipaddress.ip_address(ip)) - int(block.network_address)
    except ValueError as error:
        raise Malformed(f"{ip!r} is not an address") from error
    if not 1 <= number <= last_of(block):
        raise Malformed(f"{ip} is not an address to use in {block}")
    return number
