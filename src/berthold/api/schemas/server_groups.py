"""Bodies about server groups: `policies` with one policy up to 2.63, then `policy` with `rules`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from berthold.api.schemas.actions import HostOrNone
from berthold.api.schemas.body import Body, Name, Positive, Shape

Policy = Literal["anti-affinity", "affinity", "soft-anti-affinity", "soft-affinity"]


class Rules(Shape):
    max_server_per_host: Positive | None = None


class NewGroup(Shape):
    name: Name
    policies: Annotated[list[Policy], Meta(min_length=1, max_length=1)] | None = None
    policy: Policy | None = None
    rules: Rules = field(default_factory=Rules)


class CreateGroup(Shape):
    server_group: NewGroup


class MoveGroup(Shape):
    """Without a host the best one is taken."""

    host: HostOrNone = None


class GroupAction(Shape):
    """Exactly one of these."""

    move: MoveGroup | UnsetType | None = UNSET
    resume: UnsetType | None = UNSET
    back: UnsetType | None = UNSET


ACTION = Body(GroupAction)
CREATE = Body(
    CreateGroup,
    when={
        "server_group.policies": "2.1-2.63",
        "server_group.policy": "2.64",
        "server_group.rules": "2.64",
    },
    needs={"server_group.policies": "2.1-2.63", "server_group.policy": "2.64"},
)
