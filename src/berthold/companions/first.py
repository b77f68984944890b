"""What a new cloud is given at its first start: an admin, a network, an image.

Each is made once. May be repeated and interrupted at any point; what an operator changes
or removes afterwards is left alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from sqlalchemy import Row, select

from berthold.companions import identity, image, network
from berthold.companions.image import EmbeddedImages
from berthold.companions.logins import EmbeddedIdentity
from berthold.companions.schema import companion_first, identity_project
from berthold.companions.schema import image as image_table
from berthold.ledger.store import Store, Tx, insert, now
from berthold.neighbours import Actor

IMAGE_NAME = "cirros"
IMAGE_BYTES = 1 << 20
NETWORK_NAME = "private"
NETWORK_CIDR = "10.0.0.0/16"
ADMIN = "admin"
MADE_ADMIN = "identity"
MADE_IMAGE = "image " + IMAGE_NAME
MADE_NETWORK = "network " + NETWORK_NAME
PLACEHOLDER = (
    b"This is no disk image. It is what `berthold` puts in the place of one, so that servers on simulated"
    b" hosts have something to boot from. Upload a real image for real hypervisors.\n"
)


async def make_first_things(
    store: Store, who: EmbeddedIdentity, images: EmbeddedImages, password: str
) -> None:
    """Admin, project and roles; a network that all share; an image."""
    if not await store.read(_made, MADE_ADMIN):
        await store.write(_first_admin, await who.hashed(password))
    await store.write(_first_network)
    row = await store.write(_first_image)
    if row is not None and row.status == "queued":
        await _upload(images, row)


async def _upload(images: EmbeddedImages, row: Row[Any]) -> None:
    owner = Actor(user_id="", user_name="", project_id=row.project_id, project_name="")

    async def content() -> AsyncIterator[bytes]:
        yield PLACEHOLDER.ljust(IMAGE_BYTES, b"\0")

    await images.upload(owner, row.id, content())


def _made(tx: Tx, name: str) -> bool:
    """Whether this was made before, be it here still or not."""
    return tx.execute(select(companion_first).where(companion_first.c.name == name)).first() is not None


def _is_first(tx: Tx, name: str) -> bool:
    """Whether this was never made before; from now on it was."""
    made = insert(tx, companion_first).values(name=name, made_at=now(tx)).on_conflict_do_nothing()
    return tx.execute(made.returning(companion_first.c.name)).first() is not None


def _admin_project(tx: Tx) -> str:
    named = select(identity_project.c.id).where(
        identity_project.c.name == ADMIN, identity_project.c.domain_id == identity.DEFAULT_DOMAIN
    )
    project_id: str | None = tx.execute(named).scalar_one_or_none()
    return project_id or ""


def _first_admin(tx: Tx, password_hash: str) -> None:
    if _is_first(tx, MADE_ADMIN):
        identity.bootstrap(tx, password_hash, user=ADMIN, project=ADMIN)


def _first_network(tx: Tx) -> None:
    if not _is_first(tx, MADE_NETWORK):
        return
    project_id = _admin_project(tx)
    made = network.make_network(tx, project_id, name=NETWORK_NAME, shared=True)
    network.make_subnet(tx, project_id, made.id, NETWORK_CIDR, name=f"{NETWORK_NAME}-subnet")


def _first_image(tx: Tx) -> Row[Any] | None:
    """The image's row, made now or by a start that ended before it was filled; None if it was removed."""
    properties = {"berthold:placeholder": "true"}
    if _is_first(tx, MADE_IMAGE):
        return image.make(
            tx,
            _admin_project(tx),
            name=IMAGE_NAME,
            visibility="public",
            disk_format="raw",
            container_format="bare",
            min_disk=0,
            properties=properties,
        )
    named = select(image_table).where(image_table.c.name == IMAGE_NAME, image_table.c.visibility == "public")
    return tx.execute(named.order_by(image_table.c.created_at)).first()
