"""Which of the hosts that will do is the better one.

One small function per weigher: the more, the better. Two lists at the bottom. A group's
preference (G3) comes first and is compared exactly. Only between hosts that are equal in it
do the others count: each is divided by the best value among the candidates, so that all
weigh alike whatever their unit, and multiplied as the list says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from berthold.scheduler.request import SOFT_AFFINITY, SOFT_ANTI_AFFINITY, Request
from berthold.scheduler.view import HostView


@dataclass(frozen=True)
class Weigher:
    name: str
    multiplier: float
    weigh: Callable[[HostView], float]


@dataclass(frozen=True)
class GroupWeigher:
    name: str
    weigh: Callable[[Request, HostView], int]


def soft_affinity(request: Request, host: HostView) -> int:
    """The more members are here, the better."""
    return host.members if request.group and request.group.policy == SOFT_AFFINITY else 0


def soft_anti_affinity(request: Request, host: HostView) -> int:
    """The fewer members are here, the better."""
    return -host.members if request.group and request.group.policy == SOFT_ANTI_AFFINITY else 0


def free_ram(host: HostView) -> float:
    """Free memory, in MiB."""
    memory = host.capacity.get("MEMORY_MB")
    return float(memory.free) if memory else 0.0


def free_cpu_fraction(host: HostView) -> float:
    """Which part of the host's virtual CPUs is free."""
    cpus = host.capacity.get("VCPU")
    return cpus.free / cpus.capacity if cpus and cpus.capacity else 0.0


GROUP_WEIGHERS: tuple[GroupWeigher, ...] = (
    GroupWeigher("soft affinity", soft_affinity),
    GroupWeigher("soft anti-affinity", soft_anti_affinity),
)

WEIGHERS: tuple[Weigher, ...] = (
    Weigher("free RAM", 1.0, free_ram),
    Weigher("free CPU fraction", 1.0, free_cpu_fraction),
)
