"""One request as a handler sees it: who asks, which version, the body, the query.

By the time a handler gets its `Call` the token has been checked, the route's policy rule
decided, and the body has the shape that the route wants.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from berthold.api.microversions import Version
from berthold.api.policy import Policy
from berthold.api.query import Query
from berthold.errors import Malformed
from berthold.ledger.store import Store
from berthold.moves.watch import Watch
from berthold.neighbours import Actor, Neighbours
from berthold.settings import Settings


@dataclass(frozen=True)
class Services:
    """What the API works with."""

    store: Store
    neighbours: Neighbours
    settings: Settings
    policy: Policy = field(default_factory=Policy)
    watch: Watch = field(init=False)  # what explanations see of the hosts
    since: float = field(init=False)  # from when on agents could be heard here

    def __post_init__(self) -> None:
        object.__setattr__(self, "since", self.store.clock.now())
        object.__setattr__(self, "watch", Watch(self.store, self.settings.silent_after_s))


@dataclass(frozen=True)
class Reply:
    """An answer whose status is not its route's."""

    status: int
    document: Any = None


@dataclass(frozen=True)
class Call:
    """`base` is where the API is mounted, as the client wrote it: http://cloud:8774/compute."""

    services: Services
    actor: Actor
    version: Version
    request_id: str
    base: str
    path: str
    query: Query
    body: Any = None  # the Struct that the route names
    headers: dict[str, str] = field(default_factory=dict)  # for the answer
    wait_s: float = 0.0  # for how long what it begins may wait for a place instead of failing (M7)

    @property
    def store(self) -> Store:
        return self.services.store

    @property
    def settings(self) -> Settings:
        return self.services.settings

    def may(self, rule: str) -> bool:
        """Whether the caller passes another rule than the route's."""
        return self.services.policy.allows(self.actor, rule)

    def must(self, rule: str) -> None:
        """Raise `NotAllowed` unless the caller passes `rule`."""
        self.services.policy.check(self.actor, rule)

    @property
    def scope(self) -> str | None:
        """The project that single things are looked up in; None for an admin, who sees all."""
        return None if self.is_admin else self.actor.project_id

    async def must_be_a_project(self, project_id: str) -> None:
        """Raise `Malformed`, as Nova does, unless there is a project of that id. Only after a rule has let
        the caller name the projects of others (T1)."""
        if project_id == self.actor.project_id:
            return
        if not await self.services.neighbours.identity.project_exists(project_id):
            raise Malformed(f"Project ID {project_id} is not a valid project.")

    @property
    def is_admin(self) -> bool:
        """Whether the caller is an operator of the cloud, by the operator's own rules."""
        return self.may("context_is_admin")

    def as_member_of(self, project_id: str) -> Actor:
        """The caller as a plain member of a project: what an operator looks up for a server must be
        its project's, however much the operator may see (T1)."""
        return replace(self.actor, project_id=project_id, roles=frozenset({"member", "reader"}))

    def url(self, *parts: str | int) -> str:
        """The address of a thing in this API."""
        return "/".join([self.base, "v2.1", *map(str, parts)])

    def bookmark(self, *parts: str | int) -> str:
        """Its address without a version."""
        return "/".join([self.base, *map(str, parts)])

    def links(self, *parts: str | int) -> list[dict[str, str]]:
        """The `links` that most things carry."""
        return [
            {"rel": "self", "href": self.url(*parts)},
            {"rel": "bookmark", "href": self.bookmark(*parts)},
        ]
