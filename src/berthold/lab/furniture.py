"""What a world can be furnished with, so that servers have ports and volumes."""

from __future__ import annotations

import tempfile
from pathlib import Path

from sqlalchemy import Row

from berthold.companions import network as networks
from berthold.companions import ports
from berthold.companions import volume as volumes
from berthold.lab.world import PROJECT, World, now
from berthold.ledger.store import Tx


def add_network(world: World) -> str:
    """A network with a subnet; its id."""

    def make(tx: Tx) -> str:
        made = networks.make_network(tx, PROJECT, name="private", shared=True)
        networks.make_subnet(tx, PROJECT, made.id, "10.0.0.0/24", name="private-subnet")
        return str(made.id)

    return world.store.write_now(make)


def add_port(world: World, network: str, name: str = "") -> str:
    """A port on the network that no server has; its id."""
    return world.store.write_now(lambda tx: ports.make_port(tx, PROJECT, network, name=name))


def add_image(world: World, name: str = "cirros") -> str:
    """An image of an empty disk; its id."""
    made = world.companions.images.snapshot(PROJECT, name, name=name, base=None, properties={})
    return now(made).id


def add_volume(world: World, name: str = "disk", size_gb: int = 1) -> str:
    """An empty volume that nobody has; its id."""

    def make(tx: Tx) -> Row[tuple[str]]:
        return volumes.begin(tx, PROJECT, None, {"name": name, "size": size_gb})

    row = world.store.write_now(make)
    now(world.companions.volumes.fill(row))
    return str(row.id)


class KeptFiles:
    """The files of a world's images and volumes as they are now. A photograph names them and has none, so
    whoever goes back to it after something was deleted brings them back."""

    def __init__(self, world: World) -> None:
        four = world.companions
        stores = (four.images.files, four.volumes.files, four.volumes.snapshots.files)
        self._directory = tempfile.TemporaryDirectory(prefix="berthold-kept-")
        self._kept = {file: self._link(file) for store in stores for file in store.directory.iterdir()}

    def _link(self, file: Path) -> Path:
        kept = Path(self._directory.name) / f"{file.parent.name}-{file.name}"
        kept.hardlink_to(file)
        return kept

    def bring_back(self) -> None:
        for file, kept in self._kept.items():
            if not file.exists():
                file.hardlink_to(kept)

    def forget(self) -> None:
        """Nobody goes back to it."""
        self._directory.cleanup()
