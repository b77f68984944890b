"""The four services beside compute, as moves and the compute API see them.

Each protocol has two kinds of implementation: the embedded one in `companions/`, and a
remote twin (Keystone, Glance, Cinder, Neutron). Every call that changes something names
the move that it is for and may be repeated: the second time it changes nothing and answers
the same. Each raises `NotFound` for what is not there or not the project's, `WrongState`
for what is busy elsewhere, `Refused` (Q1) for more than the project may have there, `Unavailable`
when the neighbour does not answer, or has no room.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Actor:
    """Who asks: from a checked token. `roles` as the identity service gives them; it implies
    reader from member and member from admin already."""

    user_id: str
    user_name: str
    project_id: str
    project_name: str
    roles: frozenset[str] = frozenset()
    token_expires_at: float = 0.0

    @property
    def is_admin(self) -> bool:
        return "admin" in self.roles


@dataclass(frozen=True)
class Image:
    """`size` in bytes; `min_disk` GiB, `min_ram` MiB."""

    id: str
    name: str
    status: str
    size: int | None
    min_disk: int = 0
    min_ram: int = 0
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Volume:
    """`size` in GiB; `image_id` of the image it was made from, `server_id` of who has it, if any."""

    id: str
    name: str
    status: str
    size: int
    bootable: bool
    image_id: str | None = None
    server_id: str | None = None


@dataclass(frozen=True)
class VolumeSnapshot:
    """A whole copy of a volume. `size` in GiB; `bootable` if the volume was."""

    id: str
    volume_id: str
    status: str
    size: int
    bootable: bool


@dataclass(frozen=True)
class Network:
    id: str
    name: str


@dataclass(frozen=True)
class Port:
    """One network interface of a server. `addresses`: [{"ip_address", "subnet_id", "version"}]."""

    id: str
    network_id: str
    network_name: str
    mac_address: str
    addresses: list[dict[str, Any]]


class Identity(Protocol):
    async def who(self, token: str) -> Actor:
        """The actor of a token. Raises `Unauthenticated` for an unknown, expired or unscoped one."""
        ...

    async def project_exists(self, project_id: str) -> bool:
        """Whether there is a project of that id; for operators, who name projects that are not theirs."""
        ...


def snapshot_id(move: str) -> str:
    """The id of the image that is made for a move: known before the image is."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"snapshot of {move}"))


def volume_snapshot_id(move: str, volume_id: str) -> str:
    """The id of the snapshot that is taken of a volume for a move: known before the snapshot is."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"snapshot of volume {volume_id} for {move}"))


def port_id(move: str) -> str:
    """The id of the port that is made for a move of a server that exists: known before the port is."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"port for {move}"))


class Images(Protocol):
    async def get(self, actor: Actor, image_id: str) -> Image:
        """An image that the actor may use."""
        ...

    async def announce_snapshot(
        self,
        project_id: str,
        move: str,
        *,
        name: str,
        base: str | None,
        properties: dict[str, Any],
        begin: Callable[[Any], object],
    ) -> None:
        """Let the image that `snapshot` will make be seen before it has its bytes, and begin the move that
        makes it, known here by a word that was drawn for it. `begin` is a transaction of the ledger. Neither
        is done without the other: an image that nothing makes would be `queued` for ever."""
        ...

    async def snapshot(
        self,
        project_id: str,
        move: str,
        *,
        name: str,
        base: str | None,
        properties: dict[str, Any],
        announced: bool = False,
    ) -> Image:
        """An image of a server's disk, which was made from the image `base`; complete when this
        returns. One per move, with the id `snapshot_id(move)`: repeated it answers the same image.
        If it was `announced` and is gone its owner has deleted it: `NotFound`."""
        ...

    async def undo_snapshot(self, project_id: str, move: str) -> None:
        """Remove what `snapshot` made for the move, if it did."""
        ...

    async def rotate_backups(self, project_id: str, server_id: str, backup_type: str, most: int) -> None:
        """Of the project's images that are backups of the server, of that type, remove the oldest until
        `most` are left; those that are protected stay."""
        ...

    async def remove_snapshot(self, project_id: str, image_id: str) -> None:
        """Remove an image of the project that was made by `snapshot`; nothing to do if it is gone."""
        ...


class Volumes(Protocol):
    async def get(self, actor: Actor, volume_id: str) -> Volume:
        """A volume of the actor's project."""
        ...

    async def create(
        self,
        project_id: str,
        move: str,
        *,
        name: str,
        size: int,
        image_id: str | None = None,
        snapshot_id: str | None = None,
        volume_type: str | None = None,
    ) -> Volume:
        """Make a volume for a server's disk, blank or with what an image or a snapshot of the project
        holds; complete when this returns, and nobody's but the move's until it has attached it. One
        per (move, name)."""
        ...

    async def undo_create(self, project_id: str, move: str, *, name: str, server_id: str) -> None:
        """Remove what `create` made for (move, name), if it did, and take it back from the move's
        server; a late `create` is refused with `WrongState`. If another server has been given the
        volume since, it is left alone, and a late `attach` for the move is refused."""
        ...

    async def get_snapshot(self, actor: Actor, snapshot_id: str) -> VolumeSnapshot:
        """A snapshot of the actor's project."""
        ...

    async def snapshot(self, volume_id: str, move: str, *, name: str) -> VolumeSnapshot:
        """Take a snapshot of a volume for its project; complete when this returns. One per (move, volume),
        with the id `volume_snapshot_id(move, volume_id)`: repeated it answers the same snapshot."""
        ...

    async def undo_snapshot(self, volume_id: str, move: str) -> None:
        """Remove what `snapshot` took of the volume for the move, if it did."""
        ...

    async def attach(
        self, volume_id: str, server_id: str, move: str, *, device: str, mode: str = "rw"
    ) -> dict[str, Any]:
        """Give the volume to the server; {"attachment_id", "volume_id", "device"}.
        Raises `WrongState` while another server has it."""
        ...

    async def undo_attach(self, volume_id: str, server_id: str, move: str) -> None:
        """Take back what `attach` gave the server for this move, if it did; a late `attach` for the
        move is refused with `WrongState`."""
        ...

    async def detach(
        self, volume_id: str, server_id: str, *, attachment_id: str | None = None, for_good: bool = False
    ) -> None:
        """Take the volume back from the server; nothing to do if it has not got it, or has got it
        anew since `attachment_id`. `for_good`, for a server that is being deleted: a late `attach`
        for it is refused."""
        ...

    async def delete(self, volume_id: str) -> None:
        """Remove a volume that nobody has; nothing to do if it is gone."""
        ...


class Networks(Protocol):
    async def find(self, actor: Actor, network_id: str) -> Network:
        """A network that the actor may use (its own or shared)."""
        ...

    async def usable(self, actor: Actor) -> list[Network]:
        """Every network that the actor may use, for `networks: auto`."""
        ...

    async def plug(
        self,
        project_id: str,
        server_id: str,
        move: str,
        wishes: list[dict[str, Any]],
        host: str | None = None,
    ) -> list[Port]:
        """Ports for a new server, one per wish ({"uuid"} or {"port"}, optional {"fixed_ip"}), bound to
        `host` at once if it is named. Two racers never share an address. Repeated for one server it
        answers the same ports; once the server was unplugged, `WrongState`."""
        ...

    async def free_port(self, actor: Actor, port_id: str) -> Port:
        """A port of the actor's project that no server has; `WrongState` if one has it."""
        ...

    async def attach(
        self, project_id: str, server_id: str, move: str, wish: dict[str, Any], host: str
    ) -> Port:
        """One more port for a server that has been plugged, wished as in `plug`, bound to `host`. One that
        is made has the id `port_id(move)`. Repeated for one move it answers the same port; once that
        was undone, or the server was unplugged, `WrongState`."""
        ...

    async def undo_attach(self, server_id: str, move: str, wish: dict[str, Any]) -> None:
        """Take back what `attach` gave the server for this move, if it did; a late `attach` for the
        move is refused with `WrongState`."""
        ...

    async def detach(self, server_id: str, port_id: str, move: str) -> None:
        """Remove a port of the server that was made for it, or let go of one that it was lent; once for
        each move, since the server may have been lent the port anew."""
        ...

    async def bind(self, server_id: str, host: str) -> None:
        """The server's ports are on host `host` (its name) from now on."""
        ...

    async def unplug(self, server_id: str) -> None:
        """Remove every port that was made for the server and let go of those it was lent."""
        ...


@dataclass(frozen=True)
class Neighbours:
    """The four together, as moves and the API get them."""

    identity: Identity
    images: Images
    volumes: Volumes
    networks: Networks
