"""Bodies about the network interfaces of a server."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from berthold.api.schemas.body import Body, Id, Shape
from berthold.api.schemas.servers import Tag


class FixedIp(Shape):
    ip_address: Annotated[str, Meta(min_length=1, max_length=45)]


class NewInterface(Shape):
    """A port that exists, or a network on which one is made; without either the only one there is."""

    net_id: Id | None = None
    port_id: Id | None = None
    fixed_ips: Annotated[list[FixedIp], Meta(min_length=1, max_length=1)] | None = None
    tag: Tag | None = None


class Attach(Shape):
    interface: NewInterface = field(name="interfaceAttachment")


ATTACH = Body(Attach, when={"interfaceAttachment.tag": "2.49"})
