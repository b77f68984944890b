"""Bodies about services."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from berthold.api.schemas.body import Body, Id, Shape

Reason = Annotated[str, Meta(min_length=1, max_length=255)]


class ServiceChange(Shape):
    """Since 2.53: the service is named by the path."""

    status: Literal["enabled", "disabled"] | None = None
    disabled_reason: Reason | None = None
    forced_down: bool | None = None


class NamedService(Shape):
    """Before 2.53: what to do is in the path, the service in the body."""

    host: Id
    binary: Id
    disabled_reason: Reason | None = None


class ForcedDown(Shape):
    host: Id
    binary: Id
    forced_down: bool


FORCE_DOWN = Body(ForcedDown)
CHANGE = Body(ServiceChange)
NAMED = Body(NamedService)
