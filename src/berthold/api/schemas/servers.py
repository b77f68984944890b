"""Bodies about servers, except those of actions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, field

from berthold.api.schemas.body import Body, Description, Id, Key, Name, Positive, Shape, Value

Tag = Annotated[str, Meta(min_length=1, max_length=60, pattern=r"^[^,/]+\Z")]
Metadata = dict[Key, Value]
# How many items of metadata a server may have.
METADATA_MAX = 128
TAGS_MAX = 50
DiskConfig = Literal["AUTO", "MANUAL"]
HostName = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9-._]*\Z")]
Zone = Annotated[str, Meta(min_length=1, max_length=255)]


class NewNic(Shape):
    """One network interface: of a network, or a port that stands."""

    uuid: Id | None = None
    port: Id | None = None
    fixed_ip: Annotated[str, Meta(max_length=45)] | None = None
    tag: Tag | None = None


class Device(Shape):
    """One block device, as clients write it."""

    source_type: Literal["volume", "image", "snapshot", "blank"]
    destination_type: Literal["volume", "local"] | None = None
    uuid: Id | None = None
    boot_index: Annotated[int, Meta(ge=-1, le=64)] | None = None
    delete_on_termination: bool = False
    volume_size: Positive | None = None
    volume_type: Annotated[str, Meta(max_length=255)] | None = None
    device_name: Annotated[str, Meta(max_length=255, pattern=r"^[a-zA-Z0-9._/-]*\Z")] | None = None
    device_type: Annotated[str, Meta(max_length=255)] | None = None
    disk_bus: Annotated[str, Meta(max_length=255)] | None = None
    guest_format: Annotated[str, Meta(max_length=255)] | None = None
    no_device: Any = None
    tag: Tag | None = None


class SecurityGroup(Shape):
    name: Annotated[str, Meta(max_length=255)]


class NewServer(Shape):
    name: Name
    flavor: Annotated[str, Meta(min_length=1, max_length=500)] | int = field(name="flavorRef")
    image: Annotated[str, Meta(max_length=500)] | None = field(name="imageRef", default=None)
    networks: Annotated[list[NewNic], Meta(max_length=64)] | Literal["auto", "none"] | None = None
    devices: Annotated[list[Device], Meta(max_length=26)] = field(
        name="block_device_mapping_v2", default_factory=list
    )
    min_count: Annotated[int, Meta(ge=1, le=1000)] = 1
    max_count: Annotated[int, Meta(ge=1, le=1000)] | None = None
    return_reservation_id: bool = False
    availability_zone: Zone | None = None
    host: HostName | None = None
    hypervisor_hostname: HostName | None = None
    metadata: Metadata = field(default_factory=dict)
    description: Description | None = None
    key_name: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    user_data: Annotated[str, Meta(max_length=65535)] | None = None
    config_drive: bool | None = None
    security_groups: Annotated[list[SecurityGroup], Meta(max_length=64)] = field(default_factory=list)
    access_ip_v4: Annotated[str, Meta(max_length=15)] | None = field(name="accessIPv4", default=None)
    access_ip_v6: Annotated[str, Meta(max_length=45)] | None = field(name="accessIPv6", default=None)
    disk_config: DiskConfig = field(name="OS-DCF:diskConfig", default="MANUAL")
    admin_pass: Annotated[str, Meta(max_length=255)] | None = field(name="adminPass", default=None)
    tags: Annotated[list[Tag], Meta(max_length=TAGS_MAX)] = field(default_factory=list)
    hostname: HostName | None = None
    certificates: Annotated[list[Id], Meta(max_length=50)] | None = field(
        name="trusted_image_certificates", default=None
    )


class CreateServer(Shape):
    """Hints come under either key, from different clients."""

    server: NewServer
    hints: dict[str, Any] = field(name="os:scheduler_hints", default_factory=dict)
    hints_too: dict[str, Any] = field(name="OS-SCH-HNT:scheduler_hints", default_factory=dict)


class ServerChange(Shape):
    name: Name | UnsetType = UNSET
    description: Description | UnsetType | None = UNSET
    access_ip_v4: Annotated[str, Meta(max_length=15)] | UnsetType = field(name="accessIPv4", default=UNSET)
    access_ip_v6: Annotated[str, Meta(max_length=45)] | UnsetType = field(name="accessIPv6", default=UNSET)
    disk_config: DiskConfig | UnsetType = field(name="OS-DCF:diskConfig", default=UNSET)
    hostname: HostName | UnsetType = UNSET


class UpdateServer(Shape):
    server: ServerChange


class WholeMetadata(Shape):
    metadata: Metadata


class AllTags(Shape):
    tags: Annotated[list[Tag], Meta(max_length=TAGS_MAX)]


class OneItem(Shape):
    meta: Annotated[Metadata, Meta(min_length=1, max_length=1)]


CREATE = Body(
    CreateServer,
    when={
        "server.description": "2.19",
        "server.networks.*.tag": "2.32-2.36 2.42",
        "server.block_device_mapping_v2.*.tag": "2.32-2.32 2.42",
        "server.block_device_mapping_v2.*.volume_type": "2.67",
        "server.tags": "2.52",
        "server.trusted_image_certificates": "2.63",
        "server.host": "2.74",
        "server.hypervisor_hostname": "2.74",
        "server.hostname": "2.90",
    },
    needs={"server.networks": "2.37"},
)
UPDATE = Body(UpdateServer, when={"server.description": "2.19", "server.hostname": "2.90"})
METADATA = Body(WholeMetadata)
ITEM = Body(OneItem)
TAGS = Body(AllTags)
