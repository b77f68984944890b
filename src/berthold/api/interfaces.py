"""A server's network interfaces: shown, attached and detached."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from berthold.api.call import Call
from berthold.api.schemas.interfaces import NewInterface
from berthold.api.servers import by, unlocked
from berthold.api.views.fields import Field, column, render, render_all
from berthold.errors import Malformed, NotFound, WrongState
from berthold.ledger import reading
from berthold.ledger.store import Tx
from berthold.moves import begin
from berthold.moves.in_turn import in_turn
from berthold.neighbours import Actor, Network, port_id

Record = Mapping[str, Any]
# What is not known of a port before it is made.
TO_BE_MADE = {"mac_address": "", "addresses": [], "state": "DOWN"}


def _fixed_ips(port: Record, call: Call) -> list[dict[str, str]]:
    return [{name: address[name] for name in ("ip_address", "subnet_id")} for address in port["addresses"]]


INTERFACE: list[Field[Record]] = [
    Field("fixed_ips", _fixed_ips),
    Field("mac_addr", column("mac_address")),
    Field("net_id", column("network_id")),
    Field("port_id", column("id")),
    Field("port_state", lambda port, call: port.get("state", "ACTIVE")),
    Field("tag", lambda port, call: port.get("tag"), when="2.70"),
]


async def index(call: Call, server_id: str) -> dict[str, Any]:
    """The server's interfaces."""
    server = await call.store.read(reading.server_of, server_id, call.scope)
    return {"interfaceAttachments": render_all(INTERFACE, server["ports"], call)}


async def show(call: Call, server_id: str, port_id: str) -> dict[str, Any]:
    """One of them."""
    server = await call.store.read(reading.server_of, server_id, call.scope)
    for port in server["ports"]:
        if port["id"] == port_id:
            return {"interfaceAttachment": render(INTERFACE, port, call)}
    raise NotFound(f"Instance {server_id} does not have a port with id {port_id}")


async def attach(call: Call, server_id: str) -> dict[str, Any]:
    """Begin to give the server an interface, when it is its turn: one that exists, as it is, or one whose
    address is shown once the network service has made it."""
    return await in_turn(call.store, server_id, call.settings.turn_s, partial(_ask, call, server_id))


async def _ask(call: Call, server_id: str) -> dict[str, Any]:
    wish: NewInterface = call.body.interface
    server = await call.store.read(unlocked, call, server_id)
    _check(wish)
    owner = call.as_member_of(server["project_id"])
    networks = call.services.neighbours.networks
    if wish.port_id is not None:
        port = {**asdict(await networks.free_port(owner, wish.port_id)), "state": "DOWN"}
        given: dict[str, Any] = {"port": wish.port_id}
    else:
        on = await _network(call, owner, wish.net_id)
        port = {"network_id": on.id, **TO_BE_MADE}
        given = {"uuid": on.id}
    if wish.fixed_ips:
        given["fixed_ip"] = wish.fixed_ips[0].ip_address
    if wish.tag is not None:
        given["tag"] = wish.tag
    move = await call.store.write(_attach, call, server_id, given)
    made = {"id": port_id(move), "tag": wish.tag, **port}
    return {"interfaceAttachment": render(INTERFACE, made, call)}


def _check(wish: NewInterface) -> None:
    if wish.net_id is not None and wish.port_id is not None:
        raise Malformed("Name a network (net_id) or a port (port_id), and not both.")
    if wish.fixed_ips and wish.net_id is None:
        raise Malformed("fixed_ips are for a port that is made: name its network with net_id.")
    for wished in wish.fixed_ips or ():
        check_address(wished.ip_address)


async def _network(call: Call, owner: Actor, net_id: str | None) -> Network:
    if net_id is not None:
        return await call.services.neighbours.networks.find(owner, net_id)
    only = await only_network(call, owner)
    if only is None:
        raise Malformed("The project has no network to attach an interface to.")
    return only


async def only_network(call: Call, actor: Actor) -> Network | None:
    """What is meant where no network is named: the one that the actor may use. Raises `WrongState` if
    there are several."""
    usable = await call.services.neighbours.networks.usable(actor)
    if len(usable) > 1:
        raise WrongState("Multiple possible networks found, use a Network ID to be more specific.")
    return usable[0] if usable else None


def check_address(text: str) -> None:
    """Raise `Malformed` for what is no IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise Malformed(f"Invalid fixed IP address: '{text}'.") from None


def _attach(tx: Tx, call: Call, server_id: str, wish: Record) -> str:
    unlocked(tx, call, server_id)
    return begin.attach_interface(tx, server_id, by(call), wish)


async def detach(call: Call, server_id: str, port_id: str) -> None:
    """Begin to take one away, when it is its turn; 202 means begun."""
    ask = partial(call.store.write, _detach, call, server_id, port_id)
    await in_turn(call.store, server_id, call.settings.turn_s, ask)


def _detach(tx: Tx, call: Call, server_id: str, port_id: str) -> None:
    unlocked(tx, call, server_id)
    begin.detach_interface(tx, server_id, by(call), port_id)
