"""A frozen snapshot of the hosts, as one request sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a host offers of one resource class. `used` may exceed `capacity` after a shrink."""

    capacity: int
    used: int = 0
    min_unit: int = 1
    max_unit: int = 2**31 - 1
    step_size: int = 1

    @property
    def free(self) -> int:
        return max(0, self.capacity - self.used)


@dataclass(frozen=True, slots=True)
class HostView:
    """One host. `heard`: its heartbeat is fresh. `members`: how many members of the requested
    group hold a place there, moves in flight included, the server itself never counted.
    `own`: the server itself already holds a claim there."""

    id: str
    name: str
    status: str = "up"
    disabled: bool = False
    heard: bool = True
    epoch: int = 1
    zone: str = "nova"
    traits: frozenset[str] = frozenset()
    capacity: Mapping[str, Inventory] = field(default_factory=dict)
    members: int = 0
    own: bool = False


@dataclass(frozen=True)
class View:
    """All hosts. `home` is the id of the host that the affinity group's members must be on; None
    while there is no such host, or while the server is free to choose a new one (a lone member,
    or a group that moves as a whole)."""

    hosts: tuple[HostView, ...]
    home: str | None = None
