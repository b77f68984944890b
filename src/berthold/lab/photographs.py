"""Photographs of a world: everything there is at an instant, to come back to.

In it are the ledger, the ground, time and chance, and what agents and conductors hold in memory. Of the
files of images and volumes it has the names only; what was made since is removed when the world goes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from berthold.agent.protocol import Welcome
from berthold.companions import image, snapshots, volume
from berthold.ledger import moves

if TYPE_CHECKING:
    from berthold.lab.world import World


@dataclass(frozen=True)
class Photograph:
    """A world as it was. Nothing in it changes any more."""

    ledger: Any
    ground: bytes
    chance: tuple[Any, ...]
    moment: float
    leases: dict[str, moves.Lease]
    silent: frozenset[str]
    conductor: int
    welcomes: dict[str, Welcome | None]


def take(world: World) -> Photograph:
    """The world as it is."""
    return Photograph(
        world.store.database.photograph(),
        world.ground.snapshot(),
        world.clock.chance().getstate(),
        world.clock.now(),
        dict(world.leases),
        frozenset(world.silent),
        world.conductors_lost,
        {name: agent.welcome for name, agent in world.agents.items()},
    )


def go_back(world: World, photograph: Photograph) -> None:
    """The world as it was; planned faults are forgotten."""
    world.store.database.restore(photograph.ledger)
    world.store.bus.wake(["hosts"])
    _remove_files_made_since(world)
    world.ground.restore(photograph.ground)
    world.clock.chance().setstate(photograph.chance)
    world.clock.advance(photograph.moment - world.clock.now())
    # Generations went back: what was seen of hosts is of another time.
    world.store.bus.tell(["hosts"])
    world.leases, world.silent = dict(photograph.leases), set(photograph.silent)
    world.conductors_lost = photograph.conductor
    for name, agent in world.agents.items():
        agent.welcome = photograph.welcomes[name]
        world.faults_of[name].forget()


def _remove_files_made_since(world: World) -> None:
    """Those that the ledger does not name."""
    for files, naming in (
        (world.companions.volumes.files, volume.files_named),
        (world.companions.volumes.snapshots.files, snapshots.files_named),
        (world.companions.images.files, image.files_named),
    ):
        if present := list(files.directory.iterdir()):
            named = world.store.read_now(naming)
            for file in present:
                if file.name not in named:
                    file.unlink()
