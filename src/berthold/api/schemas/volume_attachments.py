"""Bodies about the volumes of a server."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from berthold.api.schemas.body import Body, Id, Shape
from berthold.api.schemas.servers import Tag

DeviceName = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^(/dev/)?[a-zA-Z0-9]+\Z")]


class NewAttachment(Shape):
    volume_id: Id = field(name="volumeId")
    device: DeviceName | None = None
    tag: Tag | None = None
    delete_on_termination: bool = False


class Attach(Shape):
    attachment: NewAttachment = field(name="volumeAttachment")


class AttachmentChange(Shape):
    """`volumeId` is the volume that is to be there; whatever else is named must be as it is."""

    volume_id: Id = field(name="volumeId")
    id: Id | None = None
    server_id: Id | None = field(name="serverId", default=None)
    device: DeviceName | None = None
    tag: Tag | None = None
    delete_on_termination: bool | None = None


class Update(Shape):
    attachment: AttachmentChange = field(name="volumeAttachment")


SINCE_2_85 = ("id", "serverId", "device", "tag", "delete_on_termination")

ATTACH = Body(Attach, when={"volumeAttachment.tag": "2.49", "volumeAttachment.delete_on_termination": "2.79"})
UPDATE = Body(Update, when={f"volumeAttachment.{name}": "2.85" for name in SINCE_2_85})
