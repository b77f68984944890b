"""What is wanted: one place for one server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

AFFINITY = "affinity"
ANTI_AFFINITY = "anti-affinity"
SOFT_AFFINITY = "soft-affinity"
SOFT_ANTI_AFFINITY = "soft-anti-affinity"


@dataclass(frozen=True)
class GroupWish:
    """The server group that the server belongs to, and its rule."""

    id: str
    name: str
    policy: str
    per_host: int = 1

    @property
    def is_soft(self) -> bool:
        """Whether its policy is a preference (G3)."""
        return self.policy in (SOFT_AFFINITY, SOFT_ANTI_AFFINITY)


@dataclass(frozen=True)
class Request:
    """A wish for a place. `resources` is by resource class, in that class's unit.

    `project_id` is the server's owner, whoever asks. `host` is the *name* of the only host that
    will do, if one was asked for. `source` is the id of the host that the server must leave.
    `ignore` maps the id of each further host that is out of the question to the reason why, such
    as what the ledger said when it refused. `same_host`: the ids of the hosts, one of which it
    must be, if that was asked for; `different_host`: those that it must not be. `queued`: the ids of
    the hosts for which somebody waits who came earlier. `aggregates`: what its host's aggregates must say,
    by key, each with the values that will do.
    """

    resources: Mapping[str, int]
    server_id: str
    project_id: str
    group: GroupWish | None = None
    host: str | None = None
    source: str | None = None
    ignore: Mapping[str, str] = field(default_factory=dict)
    zone: str | None = None
    same_host: frozenset[str] | None = None
    different_host: frozenset[str] = frozenset()
    queued: frozenset[str] = frozenset()
    required_traits: frozenset[str] = frozenset()
    forbidden_traits: frozenset[str] = frozenset()
    aggregates: Mapping[str, frozenset[str]] = field(default_factory=dict)
