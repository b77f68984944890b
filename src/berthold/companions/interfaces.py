"""The network service as moves see it, and the ports that a server is given or gives up while it lives.

Both are once for each move: a row of `network_plug` under the move's id says what became of it,
so that a call that comes late, or a second time, changes nothing. The plug of the server is
locked before that, as by all who change a server's ports, so they follow one another.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, and_, func, select

from berthold.companions.network import networks_of, usable_network
from berthold.companions.ports import (
    SERVER_OWNER,
    bind,
    lend,
    let_go,
    make_port,
    plug,
    ports_where,
    server_ports,
    unplug,
)
from berthold.companions.schema import network, network_plug, network_port
from berthold.errors import NotFound, WrongState
from berthold.ledger.store import Store, Tx, insert, now
from berthold.neighbours import Actor, Network, Port, port_id


class EmbeddedNetworks:
    """`neighbours.Networks` on our own tables."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def find(self, actor: Actor, network_id: str) -> Network:
        row = await self.store.read(usable_network, actor.project_id, network_id)
        return Network(row.id, row.name)

    async def usable(self, actor: Actor) -> list[Network]:
        rows = await self.store.read(networks_of, actor)
        # Admins see every network, but a server of theirs goes on their own or a shared one.
        mine = [row for row in rows if row.project_id == actor.project_id or row.shared]
        return [Network(row.id, row.name) for row in mine]

    async def plug(
        self,
        project_id: str,
        server_id: str,
        move: str,
        wishes: list[dict[str, Any]],
        host: str | None = None,
    ) -> list[Port]:
        return await self.store.write(plug, project_id, server_id, wishes, host)

    async def free_port(self, actor: Actor, port_id: str) -> Port:
        return await self.store.read(free_port, actor.project_id, port_id)

    async def attach(
        self, project_id: str, server_id: str, move: str, wish: dict[str, Any], host: str
    ) -> Port:
        return await self.store.write(attach, project_id, server_id, move, wish, host)

    async def undo_attach(self, server_id: str, move: str, wish: dict[str, Any]) -> None:
        await self.store.write(undo_attach, server_id, move, wish)

    async def detach(self, server_id: str, port_id: str, move: str) -> None:
        await self.store.write(detach, server_id, port_id, move)

    async def bind(self, server_id: str, host: str) -> None:
        await self.store.write(bind, server_id, host)

    async def unplug(self, server_id: str) -> None:
        await self.store.write(unplug, server_id)


def free_port(tx: Tx, project_id: str, port: str) -> Port:
    """A port of the project that no server has; raises `NotFound`, or `WrongState` if one has it."""
    found = ports_where(tx, network_port.c.id == port, network_port.c.project_id == project_id)
    if not found:
        raise NotFound(f"port {port} could not be found")
    row, addresses = found[0]
    if row.server_id is not None:
        raise WrongState(f"port {port} is in use by {row.server_id}")
    name = tx.execute(select(network.c.name).where(network.c.id == row.network_id)).scalar_one()
    held = [{"ip_address": each.ip, "subnet_id": each.subnet_id} for each in addresses]
    return Port(row.id, row.network_id, name, row.mac_address, held)


def attach(tx: Tx, project_id: str, server_id: str, move: str, wish: dict[str, Any], host: str) -> Port:
    """One more port for the server: made or lent now, or as the first call for this move made it."""
    if _state(tx, server_id) != "plugged":
        raise WrongState(f"server {server_id} was unplugged; it gets no port")
    before = _state(tx, move)
    if before == "unplugged":
        raise WrongState(f"the port for move {move} was taken back; it is not given again")
    if before is None:
        _say(tx, move, "plugged")
        _give(tx, project_id, server_id, move, wish, host)
    wanted = wish.get("port") or port_id(move)
    return next(port for port in server_ports(tx, server_id) if port.id == wanted)


def _give(tx: Tx, project_id: str, server_id: str, move: str, wish: dict[str, Any], host: str) -> None:
    last = select(func.max(network_port.c.position)).where(network_port.c.server_id == server_id)
    highest = tx.execute(last).scalar_one()
    position = 0 if highest is None else highest + 1
    if wish.get("port"):
        lend(tx, project_id, str(wish["port"]), server_id, position, host)
        return
    on = usable_network(tx, project_id, str(wish["uuid"]))
    fixed = [{"ip_address": str(wish["fixed_ip"])}] if wish.get("fixed_ip") else None
    plugged = {"server_id": server_id, "position": position, "device_owner": SERVER_OWNER, "host": host}
    make_port(tx, project_id, on.id, fixed, id=port_id(move), made_for_server=True, **plugged)


def undo_attach(tx: Tx, server_id: str, move: str, wish: dict[str, Any]) -> None:
    """The server has not got the port that this move gave it, and never gets it for this move."""
    _state(tx, server_id)
    given = _state(tx, move) == "plugged"
    _say(tx, move, "unplugged")
    if given:
        _take(tx, server_id, wish.get("port") or port_id(move))


def detach(tx: Tx, server_id: str, port: str, move: str) -> None:
    """The server has not got the port any more, unless this move has taken it already: what it has then
    it was lent anew."""
    _state(tx, server_id)
    if _state(tx, move) is None:
        _say(tx, move, "unplugged")
        _take(tx, server_id, port)


def _take(tx: Tx, server_id: str, port: str) -> None:
    let_go(tx, and_(network_port.c.id == port, network_port.c.server_id == server_id))


def _state(tx: Tx, plugged: str) -> str | None:
    """What is said of a server, or of a move that changes a server's ports; its row is locked."""
    row: Row[Any] | None = tx.execute(
        select(network_plug.c.state).where(network_plug.c.server_id == plugged).with_for_update()
    ).first()
    return row.state if row else None


def _say(tx: Tx, move: str, state: str) -> None:
    said = insert(tx, network_plug).values(server_id=move, state=state, since=now(tx))
    tx.execute(said.on_conflict_do_update(index_elements=["server_id"], set_={"state": state}))
