"""Part c: how long one decision of the scheduler takes, from request to first candidate.

The hosts are columns already, as they are in a running process, where every change of a host
is written into them. That is measured too: a host that changed, then a decision.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

from bench.figures import Figure
from berthold.scheduler.candidates import rank
from berthold.scheduler.request import GroupWish, Request
from berthold.scheduler.supply import HostView, Inventory, Supply
from berthold.scheduler.view import View

HOSTS = (100, 1_000, 10_000)
ROUNDS = 200
AIM_MS = 5.0
WANTED = {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 20}


def measure(sizes: tuple[int, ...] = HOSTS, rounds: int = ROUNDS) -> list[Figure]:
    """The p50 with that many hosts, eight members of the request's anti-affinity group among them."""
    figures = []
    for count in sizes:
        decision, after_change = _p50s(count, rounds)
        aim = AIM_MS if count == max(sizes) else None
        figures.append(Figure(f"one decision, {count:,} hosts, p50", decision, "ms", at_most=aim))
        figures.append(Figure("… after one host has changed, p50", after_change, "ms", at_most=aim))
    return figures


def _p50s(count: int, rounds: int) -> tuple[float, float]:
    chance = random.Random(count)
    hosts = [_host(number, chance) for number in range(count)]
    supply = Supply.of(hosts, dict.fromkeys((host.id for host in hosts), 1.0))
    members = {host.id: 1 for host in chance.sample(hosts, min(8, count // 2))}
    request = Request(WANTED, "server", "project", group=GroupWish("g", "web", "anti-affinity"))

    def decide(among: Supply) -> None:
        first = next(iter(rank(request, View(among, members=members), chance)), None)
        assert first is not None, "the hosts are too small for the request"

    def change_and_decide() -> None:
        host = chance.choice(hosts)
        taken = replace(host.capacity["VCPU"], used=chance.randrange(32))
        later = replace(host, capacity={**host.capacity, "VCPU": taken}, generation=host.generation + 1)
        decide(supply.with_hosts([later], {later.id: 1.0}))

    return _p50(lambda: decide(supply), rounds), _p50(change_and_decide, rounds)


def _host(number: int, chance: random.Random) -> HostView:
    return HostView(
        f"id-{number}",
        f"node{number}",
        zone=f"zone{number % 3}",
        traits=frozenset({"HW_CPU_X86_AVX2"} if number % 2 else ()),
        capacity={
            "VCPU": Inventory(64, chance.randrange(32)),
            "MEMORY_MB": Inventory(262_144, 1024 * chance.randrange(128)),
            "DISK_GB": Inventory(4_000, chance.randrange(2_000)),
        },
    )


def _p50(work: Callable[[], None], rounds: int) -> float:
    """Milliseconds."""
    took = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        took.append(1000 * (time.perf_counter() - begun))
    return statistics.median(took)
