"""What a new server boots from and which volumes it gets, checked against image and volume service.

Whatever is wrong here is a 400 before anything is stored: in Nova's words, since clients and
operators search for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from berthold.api.call import Call
from berthold.api.problems import named_in_the_body
from berthold.api.schemas.servers import Device, NewServer
from berthold.errors import Malformed, NotAllowed, NotFound
from berthold.neighbours import Actor, Image

INVALID = "Block Device Mapping is Invalid: "
LETTERS = "abcdefghijklmnopqrstuvwxyz"  # of the devices' names
ZERO_DISK = "os_compute_api:servers:create:zero_disk_flavor"


class NamedDevice(msgspec.Struct):
    """What an image says of one block device, as far as it matters here."""

    snapshot_id: str | None = None
    boot_index: int | None = None
    volume_size: int | None = None
    delete_on_termination: bool = False


@dataclass(frozen=True)
class Boot:
    """`image_id` for a server whose disk is on its host; `volumes` with the boot disk first; `traits` that
    the image asks of a host, each `required` or `forbidden`."""

    image_id: str | None
    volumes: list[dict[str, Any]] = field(default_factory=list)
    traits: dict[str, str] = field(default_factory=dict)


async def chosen(call: Call, wish: NewServer, flavor: dict[str, Any], copies: int) -> Boot:
    """What the wish boots from. Raises `Malformed`, or `NotAllowed` for a flavor without disk."""
    image_id = (wish.image or "").rsplit("/", 1)[-1] or None
    image = await image_named(call, image_id) if image_id else None
    devices = [device for device in wish.devices if not _is_local(device, image_id)]
    if image is not None and not any(device.boot_index == 0 for device in devices):
        devices = [*_mapped(image), *devices]
    local = image_id is not None and not any(device.boot_index == 0 for device in devices)
    _check_order(devices, local)
    if local and image is not None:
        _check_fits(call, image, flavor)
    volumes = []
    for device in sorted(devices, key=_boot_order):
        volumes.append(await _volume(call, device, copies))
    names = iter(LETTERS[1:] if local else LETTERS)
    for volume in volumes:
        volume["device"] = f"/dev/vd{next(names)}"
    wanted = [volume["volume_id"] for volume in volumes if "volume_id" in volume]
    if len(set(wanted)) < len(wanted):
        raise Malformed(INVALID + "a volume is named twice.")
    image = image or await origin(call, volumes)
    return Boot(image_id if local else None, volumes, traits(image))


async def origin(call: Call, volumes: list[dict[str, Any]], actor: Actor | None = None) -> Image | None:
    """The image that the boot volume is made from, if the caller, or `actor`, still sees it."""
    actor = actor or call.actor
    boot = next((volume for volume in volumes if volume["boot_index"] == 0), {})
    image_id = boot.get("image_id")
    try:
        if "volume_id" in boot:
            image_id = (await call.services.neighbours.volumes.get(actor, boot["volume_id"])).image_id
        return await call.services.neighbours.images.get(actor, image_id) if image_id else None
    except NotFound:
        return None


def traits(image: Image | None) -> dict[str, str]:
    """What the image's properties `trait:NAME` say. Raises `Malformed` for what they cannot say."""
    found = {}
    for name, value in (image.properties if image else {}).items():
        if name.startswith("trait:"):
            if value not in ("required", "forbidden"):
                raise Malformed(f"The image's property {name} must be required or forbidden.")
            found[name.removeprefix("trait:")] = value
    return found


def _mapped(image: Image) -> list[Device]:
    """The block devices that an image of a server with volumes names. Raises `Malformed`."""
    try:
        named = msgspec.json.decode(
            image.properties.get("block_device_mapping") or "[]", type=list[NamedDevice]
        )
    except (msgspec.MsgspecError, TypeError) as error:
        raise Malformed(f"Image {image.id} names block devices in no form that is known.") from error
    return [
        Device(
            source_type="snapshot",
            destination_type="volume",
            uuid=device.snapshot_id,
            boot_index=device.boot_index,
            volume_size=device.volume_size,
            delete_on_termination=device.delete_on_termination,
        )
        for device in named
        if device.snapshot_id
    ]


def _is_local(device: Device, image_id: str | None) -> bool:
    """Whether a device only repeats that the server boots from `image_id` on its host's disk."""
    if device.destination_type == "volume" or device.source_type == "volume":
        return False
    if device.source_type == "image" and device.boot_index == 0 and device.uuid == image_id:
        return True
    if device.source_type == "image":
        raise Malformed(INVALID + "Mapping image to local is only supported for the image of imageRef.")
    raise Malformed(
        INVALID + f"source_type {device.source_type} with destination_type local is not offered;"
        " ephemeral and swap disks come with the flavor."
    )


def _boot_order(device: Device) -> int:
    return 1000 if device.boot_index is None or device.boot_index < 0 else device.boot_index


def _check_order(devices: list[Device], local: bool) -> None:
    """Exactly one device is the first to boot from, the others follow without a gap, and all have a name."""
    if len(devices) + local > len(LETTERS):
        raise Malformed(INVALID + f"a server has {len(LETTERS)} disks at most.")
    order = sorted(index for device in devices if (index := _boot_order(device)) < 1000)
    if local:
        order = [0, *order]
    if not order and not devices:
        raise Malformed("Invalid imageRef provided: a server needs an image or a volume to boot from.")
    if order != list(range(len(order))) or not order:
        raise Malformed(
            INVALID
            + "Boot sequence for the instance and image/block device mapping combination is not valid."
        )


async def image_named(call: Call, image_id: str, actor: Actor | None = None) -> Image:
    """An image that the caller, or `actor`, may start something from. Raises `Malformed`."""
    with named_in_the_body():
        image = await call.services.neighbours.images.get(actor or call.actor, image_id)
    if image.status != "active":
        raise Malformed(f"Image {image_id} is not active.")
    return image


def _check_fits(call: Call, image: Image, flavor: dict[str, Any]) -> None:
    """Whether the image may be this flavor's disk."""
    if flavor["disk"] == 0 and not call.may(ZERO_DISK):
        raise NotAllowed("Only volume-backed servers are allowed for flavors with zero disk.")
    check_size(image, flavor)


def check_size(image: Image, flavor: Mapping[str, Any]) -> None:
    """Whether the flavor has as much memory and disk as the image needs. Raises `Malformed`."""
    if flavor["ram"] < image.min_ram:
        raise Malformed("Flavor's memory is too small for requested image.")
    if 0 < flavor["disk"] < image.min_disk:
        raise Malformed(
            f"Flavor's disk is too small for requested image: {flavor['disk']} GiB, needed {image.min_disk}."
        )


async def _volume(call: Call, device: Device, copies: int) -> dict[str, Any]:
    """One volume of the server: one that exists, or one to make."""
    wish: dict[str, Any] = {
        "boot_index": device.boot_index,
        "delete_on_termination": device.delete_on_termination,
    }
    if device.tag:
        wish["tag"] = device.tag
    if device.source_type == "volume":
        return wish | {"volume_id": await _existing(call, device, copies)}
    if device.source_type == "snapshot":
        return wish | await _copied(call, device)
    if device.volume_size is None:
        raise Malformed(
            INVALID + f"{device.source_type} devices with destination_type 'volume' need a volume_size."
        )
    if device.source_type == "blank" and device.boot_index == 0:
        raise Malformed(INVALID + "a blank volume holds nothing to boot from.")
    wish |= {"size": device.volume_size, "image_id": None, "volume_type": device.volume_type}
    if device.source_type == "image":
        if not device.uuid:
            raise Malformed(INVALID + "an image device needs the image's uuid.")
        image = await image_named(call, device.uuid)
        if device.volume_size < image.min_disk:
            raise Malformed(INVALID + f"volume_size is smaller than the image's min_disk {image.min_disk}.")
        wish["image_id"] = image.id
    return wish


async def _copied(call: Call, device: Device) -> dict[str, Any]:
    """A volume to make with what a snapshot holds."""
    if not device.uuid:
        raise Malformed(INVALID + "a snapshot device needs the snapshot's uuid.")
    with named_in_the_body():
        owner = call.as_member_of(call.actor.project_id)
        snapshot = await call.services.neighbours.volumes.get_snapshot(owner, device.uuid)
    if snapshot.status != "available":
        raise Malformed(f"Invalid snapshot: snapshot {snapshot.id} is {snapshot.status}, not available.")
    if device.boot_index == 0 and not snapshot.bootable:
        raise Malformed(f"Block Device {snapshot.id} is not bootable.")
    size = device.volume_size or snapshot.size
    if size < snapshot.size:
        raise Malformed(INVALID + f"volume_size is smaller than the snapshot's {snapshot.size} GiB.")
    return {"size": size, "snapshot_id": snapshot.id, "volume_type": device.volume_type}


async def _existing(call: Call, device: Device, copies: int) -> str:
    if not device.uuid:
        raise Malformed(INVALID + "a volume device needs the volume's uuid.")
    if copies > 1:
        raise Malformed("Cannot attach one or more volumes to multiple instances")
    if device.destination_type == "local":
        raise Malformed(INVALID + "a volume cannot have destination_type local.")
    with named_in_the_body():
        owner = call.as_member_of(call.actor.project_id)
        volume = await call.services.neighbours.volumes.get(owner, device.uuid)
    if volume.status != "available":
        raise Malformed(
            f"Invalid volume: volume {volume.id} status must be 'available'. Currently in '{volume.status}'."
        )
    if device.boot_index == 0 and not volume.bootable:
        raise Malformed(f"Block Device {volume.id} is not bootable.")
    return volume.id
