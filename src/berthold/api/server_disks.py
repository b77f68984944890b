"""Actions about a server's disk: rebuild, rescue, createImage, createBackup.

What the image service must confirm is asked first, for the server's project, whoever asks (T1);
then the transaction that begins the move looks at the server again.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import UNSET

from berthold.api import boot_devices
from berthold.api.call import Call
from berthold.api.chance import password
from berthold.api.microversions import Version
from berthold.api.schemas import disks as bodies
from berthold.api.server_create import check_key
from berthold.api.server_words import (
    check_access,
    check_certificates,
    check_host_name,
    check_metadata,
    check_user_data,
)
from berthold.api.servers import by, find, unlocked
from berthold.api.views import servers as views
from berthold.api.views.fields import render
from berthold.errors import Malformed, WrongState
from berthold.ledger import claims, reading, servers
from berthold.ledger.store import Tx
from berthold.moves import begin, snapshot, wishes
from berthold.neighbours import Image, snapshot_id

IMAGE_OF_VOLUMES = "os_compute_api:servers:create_image:allow_volume_backed"
WITH_ID = Version(2, 45)
RESCUES_VOLUMES = Version(2, 87)
OVERWRITES_VOLUMES = Version(2, 93)

# Of a rebuild's wish: what is written on the server itself, and what in its details.
OWN = ("name", "description", "metadata", "key_name")
IN_DETAILS = ("user_data", "hostname", "access_ip_v4", "access_ip_v6", "disk_config")


async def rebuild(call: Call, server_id: str, wish: bodies.Rebuild) -> dict[str, Any]:
    """Make the guest anew from an image, where it is; the answer is the whole server."""
    _check_words(wish)
    check_host_name(wish.hostname or None, call.version)
    server = await call.store.read(reading.server_of, server_id, call.scope)
    image = await _usable(call, server, wish.image.rsplit("/", 1)[-1])
    boot_devices.check_size(image, server["flavor"])
    if server["image_id"] is None:
        await _check_same(call, server, image)
    row = await call.store.write(_rebuild, call, server_id, wish, image)
    call.headers["Location"] = call.url("servers", server_id)
    fields = views.REBUILT_IN_FULL if call.version >= views.ALIKE else views.REBUILT
    shown = views.with_state(row, render(fields, row, call), call)
    return {"server": {**shown, "adminPass": wish.admin_pass or password(call)}}


def _check_words(wish: bodies.Rebuild) -> None:
    check_access(wish.access_ip_v4 or "", wish.access_ip_v6 or "")
    check_certificates(wish.certificates)
    check_metadata(wish.metadata or {})
    check_user_data(wish.user_data or None)
    if wish.preserve_ephemeral:
        raise Malformed("preserve_ephemeral: this cloud keeps nothing of a disk that is rebuilt.")


async def _check_same(call: Call, server: reading.Row, image: Image) -> None:
    """A volume is never written over, so the guest can only begin anew with what its volume holds."""
    if call.version >= OVERWRITES_VOLUMES:
        raise Malformed(
            f"Instance {server['id']} starts from a volume, and this cloud cannot write an image over one."
        )
    origin = await boot_devices.origin(call, server["volumes"], _owner(call, server))
    if origin is None or origin.id != image.id:
        raise Malformed("Unable to rebuild with a different image for a volume-backed server.")


def _rebuild(tx: Tx, call: Call, server_id: str, wish: bodies.Rebuild, image: Image) -> reading.Row:
    """It cannot be undone, so all that changes is written with its beginning."""
    server = unlocked(tx, call, server_id)
    if wish.key_name:
        check_key(tx, call.actor.user_id, wish.key_name)
    image_id = image.id if server["image_id"] is not None else None
    begin.begin(tx, "rebuild", server_id, by(call), {"image_id": image_id})
    held, traits = servers.hold(tx, server_id), boot_devices.traits(image)
    home = next(claim for claim in claims.of_server(tx, server_id) if claim.role == "home")
    wishes.check_suits(tx, home.host_id, traits)
    changes = {name: value for name in OWN if (value := getattr(wish, name)) is not UNSET}
    details = {name: value for name in IN_DETAILS if (value := getattr(wish, name)) is not UNSET}
    details["image_traits"] = traits
    servers.change(tx, server_id, image_id=image_id, details={**held["details"], **details}, **changes)
    return find(tx, call, server_id)


async def rescue(call: Call, server_id: str, wish: bodies.Rescue | None) -> dict[str, str]:
    """Start the guest from another image beside its own disk."""
    server = await call.store.read(reading.server_of, server_id, call.scope)
    if server["image_id"] is None and call.version < RESCUES_VOLUMES:
        raise Malformed(f"Instance {server_id} cannot be rescued: Cannot rescue a volume-backed instance")
    image: Image | None = None
    if wish is not None and wish.image is not UNSET:
        image = await _usable(call, server, wish.image)
    elif server["image_id"] is None:
        image = await boot_devices.origin(call, server["volumes"], _owner(call, server))
        if image is None:
            raise Malformed(
                f"Instance {server_id} cannot be rescued: its volume was made from no image that is still"
                " there; name one as rescue_image_ref."
            )
    await call.store.write(_rescue, call, server_id, image.id if image else None)
    return {"adminPass": (wish and wish.admin_pass) or password(call)}


def _rescue(tx: Tx, call: Call, server_id: str, image_id: str | None) -> None:
    unlocked(tx, call, server_id)
    begin.begin(tx, "rescue", server_id, by(call), {"image_id": image_id})


async def create_image(call: Call, server_id: str, wish: bodies.CreateImage) -> dict[str, str] | None:
    """Make an image of the server's disk, or of the volumes that it starts from; since 2.45 the answer
    has its id, before that the header."""
    return await _make_image(call, server_id, "snapshot", {"name": wish.name, "metadata": wish.metadata})


async def create_backup(call: Call, server_id: str, wish: bodies.CreateBackup) -> dict[str, str] | None:
    """Make an image of the server's disk, and remove the oldest of those that were made as backups of this
    type. It is answered as `create_image` is."""
    backup = {"type": wish.backup_type, "rotation": wish.rotation}
    plan = {"name": wish.name, "metadata": wish.metadata, snapshot.BACKUP_WISH: backup}
    return await _make_image(call, server_id, "backup", plan)


async def _make_image(call: Call, server_id: str, kind: str, plan: dict[str, Any]) -> dict[str, str] | None:
    check_metadata(plan["metadata"])
    server = await call.store.read(_at_rest, call, server_id, kind)
    key, images = call.store.clock.new_id(), call.services.neighbours.images
    plan = {**plan, snapshot.KEY: key}
    # Whoever is told of it may look for it at once.
    await images.announce_snapshot(
        server["project_id"],
        key,
        **snapshot.described(server, plan, key),
        begin=partial(_begin_image, call=call, server_id=server_id, kind=kind, plan=plan),
    )
    if call.version >= WITH_ID:
        return {"image_id": snapshot_id(key)}
    call.headers["Location"] = call.bookmark("images", snapshot_id(key))
    return None


def _at_rest(tx: Tx, call: Call, server_id: str, kind: str) -> reading.Row:
    """The server, as far as can be seen in a state to make an image of."""
    server = unlocked(tx, call, server_id)
    if snapshot.starts_from_volume(server):
        call.must(IMAGE_OF_VOLUMES)
    beginning = begin.BEGINNINGS[kind]
    if server["move"] or server["condition"] not in beginning.conditions:
        raise WrongState(begin.cannot(beginning.api, server, server["move"]))
    return server


def _begin_image(tx: Tx, call: Call, server_id: str, kind: str, plan: dict[str, Any]) -> None:
    unlocked(tx, call, server_id)
    begin.begin(tx, kind, server_id, by(call), plan)


async def _usable(call: Call, server: reading.Row, image_id: str) -> Image:
    """An image that the server's project may start something from. Raises `Malformed`."""
    return await boot_devices.image_named(call, image_id, _owner(call, server))


def _owner(call: Call, server: reading.Row) -> Any:
    return call.as_member_of(server["project_id"])
