"""The hosts as one request sees them: the supply, and what is this request's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from berthold.scheduler.supply import HostView, Inventory, Supply

__all__ = ["HostView", "Inventory", "Supply", "View"]


@dataclass(frozen=True)
class View:
    """What a ranking looks at.

    `members`: by host id, how many members of the requested group hold a place there, moves in
    flight included, the server itself never counted. `own`: the hosts where the server itself
    holds a claim. `home`: the host that the affinity group's members must be on; None while
    there is no such host, or while the server is free to choose a new one (a lone member, or a
    group that moves as a whole). Agents that were not heard since `heard_since` are silent.
    """

    supply: Supply
    members: Mapping[str, int] = field(default_factory=dict)
    own: frozenset[str] = frozenset()
    home: str | None = None
    heard_since: float = 0.0

    @property
    def hosts(self) -> tuple[HostView, ...]:
        return self.supply.hosts

    def is_heard(self, host: HostView) -> bool:
        """Whether the host's agent was heard of lately."""
        at = self.supply.columns["heard_at"][self.supply.row_of[host.id]]
        return bool(at >= self.heard_since)
