"""Bodies of the actions that give a server another place, inside their one key."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType, field

from berthold.api.schemas.body import Body, Shape
from berthold.api.schemas.servers import HostName, Zone

AdminPass = Annotated[str, Meta(max_length=255)]


class Evacuate(Shape):
    """`force` names the host and no more: nothing may be forced past the rules (M8)."""

    host: HostName | UnsetType = UNSET
    shared: bool = field(name="onSharedStorage", default=False)
    admin_pass: AdminPass | None = field(name="adminPass", default=None)
    force: bool = False


class Unshelve(Shape):
    """A zone of null unbinds the server from the one that it was made in."""

    zone: Zone | UnsetType | None = field(name="availability_zone", default=UNSET)
    host: HostName | UnsetType = UNSET


EVACUATE = Body(
    Evacuate,
    when={"onSharedStorage": "2.1-2.13", "adminPass": "2.1-2.94", "force": "2.29-2.67"},
    needs={"onSharedStorage": "2.1-2.13"},
)
UNSHELVE = Body(Unshelve | None, when={"availability_zone": "2.77", "host": "2.91"})
