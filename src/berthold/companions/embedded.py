"""The four companions built together, and what a new cloud is given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from berthold.companions import first, image, snapshots, volume
from berthold.companions.image import EmbeddedImages
from berthold.companions.interfaces import EmbeddedNetworks
from berthold.companions.logins import EmbeddedIdentity
from berthold.companions.volume import EmbeddedVolumes
from berthold.ledger.store import Store
from berthold.neighbours import Neighbours

TOKEN_KEY_BYTES = 32


@dataclass(frozen=True)
class Companions:
    """The four by their own names, for their HTTP; `neighbours` is what moves are given."""

    store: Store
    identity: EmbeddedIdentity
    images: EmbeddedImages
    volumes: EmbeddedVolumes
    networks: EmbeddedNetworks
    region: str = "RegionOne"

    @property
    def neighbours(self) -> Neighbours:
        return Neighbours(self.identity, self.images, self.volumes, self.networks)


def build(store: Store, directory: Path, token_key: bytes, region: str = "RegionOne") -> Companions:
    """The four on `store`, with their bytes under `directory`."""
    images = EmbeddedImages(store, directory / "images")
    return Companions(
        store=store,
        identity=EmbeddedIdentity(store, token_key),
        images=images,
        volumes=EmbeddedVolumes(store, directory / "volumes", images),
        networks=EmbeddedNetworks(store),
        region=region,
    )


def embedded(store: Store, directory: Path, token_key: bytes, region: str = "RegionOne") -> Neighbours:
    """The four as moves and the compute API get them."""
    return build(store, directory, token_key, region).neighbours


async def bootstrap(four: Companions, password: str) -> None:
    """Make what a new cloud needs, if it was not made yet: an admin, a network, an image.

    Also removes files that a crash left and no row names.
    """
    for kept, named in (
        (four.images.files, image.files_named),
        (four.volumes.files, volume.files_named),
        (four.volumes.snapshots.files, snapshots.files_named),
    ):
        kept.sweep(await four.store.read(named))
    await first.make_first_things(four.store, four.identity, four.images, password)
