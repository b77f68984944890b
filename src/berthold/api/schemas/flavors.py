"""Bodies about flavors."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType, field

from berthold.api.schemas.body import Body, Count, Key, Name, Positive, Shape, Value

FlavorId = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9. _-]*[a-zA-Z0-9._-]\Z")]
LongText = Annotated[str, Meta(max_length=65535)]


class NewFlavor(Shape):
    name: Name
    ram: Positive
    vcpus: Positive
    disk: Count
    id: FlavorId | int | None = None
    swap: Count = 0
    ephemeral: Count = field(name="OS-FLV-EXT-DATA:ephemeral", default=0)
    rxtx_factor: Annotated[float, Meta(gt=0, le=3.40282e38)] = 1.0
    is_public: bool = field(name="os-flavor-access:is_public", default=True)
    description: LongText | None = None


class CreateFlavor(Shape):
    flavor: NewFlavor


class FlavorChange(Shape):
    description: LongText | None


class UpdateFlavor(Shape):
    flavor: FlavorChange


class Specs(Shape):
    extra_specs: Annotated[dict[Key, Value | int | float], Meta(min_length=1)]


class Tenant(Shape):
    tenant: Annotated[str, Meta(min_length=1, max_length=255)]


class FlavorAction(Shape):
    """One of the two."""

    add: Tenant | UnsetType = field(name="addTenantAccess", default=UNSET)
    remove: Tenant | UnsetType = field(name="removeTenantAccess", default=UNSET)


CREATE = Body(CreateFlavor, {"flavor.description": "2.55"})
UPDATE = Body(UpdateFlavor)
SPECS = Body(Specs)
SPEC = Body(Annotated[dict[Key, Value | int | float], Meta(min_length=1, max_length=1)])
ACTION = Body(FlavorAction)
