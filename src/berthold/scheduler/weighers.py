"""Which of the hosts that will do is the better one.

One small function per weigher, for many hosts at once: the more, the better. Two lists at
the bottom. A group's preference (G3) comes first and is compared exactly. Only between hosts
that are equal in it do the others count: each is divided by the best value among the
candidates, so that all weigh alike whatever their unit, and multiplied as the list says. So
a weight depends on this request and the present state, and on no request before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from berthold.scheduler.request import SOFT_AFFINITY, SOFT_ANTI_AFFINITY, Request
from berthold.scheduler.supply import Column, Supply
from berthold.scheduler.view import View


@dataclass(frozen=True)
class Weigher:
    """`weigh`: the hosts in these rows, as they would be with so much more taken of them."""

    name: str
    multiplier: float
    weigh: Callable[[Supply, Column, Mapping[str, int]], Column]


@dataclass(frozen=True)
class GroupWeigher:
    """`weigh`: every host, or None where this policy is not the group's."""

    name: str
    weigh: Callable[[Request, View], Column | None]


def soft_affinity(request: Request, view: View) -> Column | None:
    """The more members are here, the better."""
    return _members(view) if request.group and request.group.policy == SOFT_AFFINITY else None


def soft_anti_affinity(request: Request, view: View) -> Column | None:
    """The fewer members are here, the better."""
    return -_members(view) if request.group and request.group.policy == SOFT_ANTI_AFFINITY else None


def _members(view: View) -> Column:
    counts = np.zeros(len(view.hosts), np.int64)
    for host_id, members in view.members.items():
        if (row := view.supply.row_of.get(host_id)) is not None:
            counts[row] = members
    return counts


def free_ram(supply: Supply, rows: Column, taken: Mapping[str, int]) -> Column:
    """Free memory, in MiB."""
    return supply.free("MEMORY_MB", rows, taken.get("MEMORY_MB", 0)).astype(np.float64)


def free_cpu_fraction(supply: Supply, rows: Column, taken: Mapping[str, int]) -> Column:
    """Which part of the host's virtual CPUs is free."""
    free = supply.free("VCPU", rows, taken.get("VCPU", 0)).astype(np.float64)
    capacity = supply.column("VCPU.capacity")[rows]
    fraction: Column = np.divide(free, capacity, out=np.zeros_like(free), where=capacity > 0)
    return fraction


GROUP_WEIGHERS: tuple[GroupWeigher, ...] = (
    GroupWeigher("soft affinity", soft_affinity),
    GroupWeigher("soft anti-affinity", soft_anti_affinity),
)

WEIGHERS: tuple[Weigher, ...] = (
    Weigher("free RAM", 1.0, free_ram),
    Weigher("free CPU fraction", 1.0, free_cpu_fraction),
)
