"""Bodies about aggregates."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from berthold.api.schemas.body import Body, Id, Key, Name, Shape, Value

Zone = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^:\s]([^:]*[^:\s])?\Z")]


class NewAggregate(Shape):
    name: Name
    availability_zone: Zone | None = None


class CreateAggregate(Shape):
    aggregate: NewAggregate


class AggregateChange(Shape):
    name: Name | None = None
    availability_zone: Zone | None = None


class UpdateAggregate(Shape):
    aggregate: AggregateChange


class Member(Shape):
    host: Id


class Metadata(Shape):
    metadata: dict[Key, Value | None]


class AggregateAction(Shape):
    """One of the three."""

    add_host: Member | None = None
    remove_host: Member | None = None
    set_metadata: Metadata | None = field(default=None)


CREATE = Body(CreateAggregate)
UPDATE = Body(UpdateAggregate)
ACTION = Body(AggregateAction)
