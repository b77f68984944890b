"""Bodies of the actions about a server's disk, inside their one key."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType, field

from berthold.api.schemas.body import Body, Count, Description, Id, Name, Shape
from berthold.api.schemas.places import AdminPass
from berthold.api.schemas.servers import DiskConfig, HostName, Metadata


class Rebuild(Shape):
    """What is not said stays as it is. Files cannot be put into a guest."""

    image: Annotated[str, Meta(min_length=1, max_length=500)] = field(name="imageRef")
    name: Name | UnsetType = UNSET
    description: Description | UnsetType | None = UNSET
    metadata: Metadata | UnsetType = UNSET
    key_name: Annotated[str, Meta(min_length=1, max_length=255)] | UnsetType | None = UNSET
    user_data: Annotated[str, Meta(max_length=65535)] | UnsetType | None = UNSET
    hostname: HostName | UnsetType = UNSET
    access_ip_v4: Annotated[str, Meta(max_length=15)] | UnsetType = field(name="accessIPv4", default=UNSET)
    access_ip_v6: Annotated[str, Meta(max_length=45)] | UnsetType = field(name="accessIPv6", default=UNSET)
    disk_config: DiskConfig | UnsetType = field(name="OS-DCF:diskConfig", default=UNSET)
    admin_pass: AdminPass | None = field(name="adminPass", default=None)
    preserve_ephemeral: bool = False
    certificates: Annotated[list[Id], Meta(max_length=50)] | None = field(
        name="trusted_image_certificates", default=None
    )


class Rescue(Shape):
    admin_pass: AdminPass | None = field(name="adminPass", default=None)
    image: Id | UnsetType = field(name="rescue_image_ref", default=UNSET)


class CreateImage(Shape):
    name: Name
    metadata: Metadata = field(default_factory=dict)


class CreateBackup(Shape):
    """`rotation`: how many backups of this type are kept, the new one counted."""

    name: Name
    backup_type: Annotated[str, Meta(min_length=1, max_length=255)]
    rotation: Count
    metadata: Metadata = field(default_factory=dict)


REBUILD = Body(
    Rebuild,
    when={
        "description": "2.19",
        "key_name": "2.54",
        "user_data": "2.57",
        "trusted_image_certificates": "2.63",
        "hostname": "2.90",
    },
)
RESCUE = Body(Rescue | None)
CREATE_IMAGE = Body(CreateImage)
CREATE_BACKUP = Body(CreateBackup)
