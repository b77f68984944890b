"""Filter, weigh, rank: every host is either a candidate or refused with its reason.

Racing requests see the same snapshot, so if all took its best host, all but one would have
to try again. Ties are therefore broken at random, and near ties too. *Near* is less than
half of what this very server would change on the best host: nearer than that, the order
says less than the next racer's claim does. Equal requests that come one after another
still spread, since a host that took one of them is a whole step behind. What a group
prefers is never blurred: only hosts that are equal in it are shuffled.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from berthold.scheduler.filters import FILTERS
from berthold.scheduler.request import Request
from berthold.scheduler.view import HostView, View
from berthold.scheduler.weighers import GROUP_WEIGHERS, WEIGHERS

NEAR = 0.5  # of what the server itself changes
ROUNDING = 1e-9


@dataclass(frozen=True)
class Refusal:
    """Why a host will not do: which filter said so, its class of cause, and the sentence."""

    filter: str
    cause: str
    reason: str


@dataclass(frozen=True)
class Ranking:
    """Hosts to try, best first; and by name, every other host with the reason."""

    candidates: tuple[HostView, ...]
    refused: dict[str, Refusal]


def rank(request: Request, view: View, chance: random.Random) -> Ranking:
    """Every host of the view, either ranked or refused. Ties fall as `chance` has it."""
    fit: list[HostView] = []
    refused: dict[str, Refusal] = {}
    for host in view.hosts:
        refusal = refuse(request, host, view)
        if refusal is None:
            fit.append(host)
        else:
            refused[host.name] = refusal

    def preference(host: HostView) -> int:
        return sum(weigher.weigh(request, host) for weigher in GROUP_WEIGHERS)

    ranked: list[HostView] = []
    for _, equals in groupby(sorted(fit, key=preference, reverse=True), key=preference):
        ranked += _by_weight(request, list(equals), chance)
    return Ranking(tuple(ranked), refused)


def refuse(request: Request, host: HostView, view: View) -> Refusal | None:
    """The first filter's "no" to this host, or None if it will do."""
    for filter in FILTERS:
        reason = filter.refuse(request, host, view)
        if reason is not None:
            return Refusal(filter.name, filter.cause, reason)
    return None


def _by_weight(request: Request, hosts: list[HostView], chance: random.Random) -> list[HostView]:
    """The hosts by weight, heaviest first, each run of near ties shuffled."""
    best = [max(weigher.weigh(host) for host in hosts) for weigher in WEIGHERS]
    weighed = sorted(((_weight(host, best), host) for host in hosts), key=lambda pair: -pair[0])
    heaviest, first = weighed[0]
    near = NEAR * (heaviest - _weight(_with_server(first, request), best))

    # A run is counted from its heaviest host, not from neighbour to neighbour: a long slope
    # of small steps is not one big tie.
    ranked: list[HostView] = []
    run: list[HostView] = []
    top = heaviest
    for weight, host in weighed:
        apart = top - weight
        if apart > ROUNDING and apart > near - ROUNDING:
            chance.shuffle(run)
            ranked += run
            run, top = [], weight
        run.append(host)
    chance.shuffle(run)
    return ranked + run


def _weight(host: HostView, best: Sequence[float]) -> float:
    """The host's weight, each part as a share of the best value among the candidates."""
    return sum(
        weigher.multiplier * weigher.weigh(host) / top
        for weigher, top in zip(WEIGHERS, best, strict=True)
        if top > 0
    )


def _with_server(host: HostView, request: Request) -> HostView:
    """The host as it would be with the server on it."""
    capacity = {
        name: replace(offer, used=offer.used + request.resources.get(name, 0))
        for name, offer in host.capacity.items()
    }
    return replace(host, capacity=capacity)
