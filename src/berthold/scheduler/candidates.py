"""Filter, weigh, rank: every host is either a candidate or refused with its reason.

Racing requests see the same snapshot, so if all took its best host, all but one would have
to try again. Ties are therefore broken at random, and near ties too. *Near* is less than
half of what this very server would change on the best host: nearer than that, the order
says less than the next racer's claim does. Equal requests that come one after another
still spread, since a host that took one of them is a whole step behind. What a group
prefers is never blurred: only hosts that are equal in it are shuffled.

Mostly the first candidate is taken. So the ranking goes only as far as somebody asks, and
no reason is put in words before somebody wants to read it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from berthold.scheduler.filters import FILTERS
from berthold.scheduler.request import Request
from berthold.scheduler.supply import Column, HostView, Supply
from berthold.scheduler.view import View
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
    """Hosts to try, best first, one by one (`iter`) or all; and by name, every other host with the
    reason. `fit` are the rows that passed. Iterated again, ties fall anew."""

    request: Request
    view: View
    fit: Column
    chance: random.Random

    def __iter__(self) -> Iterator[HostView]:
        for equals in self._by_preference():
            for row in _by_weight(self.request, self.view.supply, equals, self.chance):
                yield self.view.hosts[row]

    @cached_property
    def candidates(self) -> tuple[HostView, ...]:
        return tuple(self)

    @cached_property
    def refused(self) -> Mapping[str, Refusal]:
        fit = set(self.fit.tolist())
        reasons = (
            (host.name, refuse(self.request, host, self.view))
            for row, host in enumerate(self.view.hosts)
            if row not in fit
        )
        return {name: refusal for name, refusal in reasons if refusal is not None}

    def _by_preference(self) -> Iterator[Column]:
        """The rows that the group's policy likes equally well, the best ones first."""
        wishes = [
            wish for each in GROUP_WEIGHERS if (wish := each.weigh(self.request, self.view)) is not None
        ]
        if not wishes or not len(self.fit):
            yield from [self.fit] if len(self.fit) else []
            return
        liked = np.sum(wishes, axis=0)[self.fit]
        for value in np.unique(liked)[::-1]:
            yield self.fit[liked == value]


def rank(request: Request, view: View, chance: random.Random) -> Ranking:
    """Every host of the view, either ranked or refused. Ties fall as `chance` has it."""
    return Ranking(request, view, fit(request, view), chance)


def fit(request: Request, view: View) -> Column:
    """The rows of the hosts that no filter refuses."""
    mask = np.ones(len(view.hosts), np.bool_)
    if not len(mask):
        return np.flatnonzero(mask)
    for filter in FILTERS:
        passes = filter.passes(request, view)
        if passes is not None:
            mask &= passes
    return np.flatnonzero(mask)


def refuse(request: Request, host: HostView, view: View) -> Refusal | None:
    """The first filter's "no" to this host, or None if it will do."""
    return next(refusals(request, host, view), None)


def refusals(request: Request, host: HostView, view: View) -> Iterator[Refusal]:
    """Every filter's "no" to this host."""
    for filter in FILTERS:
        reason = filter.refuse(request, host, view)
        if reason is not None:
            yield Refusal(filter.name, filter.cause, reason)


def _by_weight(request: Request, supply: Supply, rows: Column, chance: random.Random) -> Iterator[int]:
    """The rows by weight, heaviest first, each run of near ties shuffled."""
    best = [float(weigher.weigh(supply, rows, {}).max()) for weigher in WEIGHERS]
    weights = _weights(supply, rows, {}, best)
    order = np.argsort(-weights, kind="stable")
    rows, behind = rows[order], weights[order[0]] - weights[order]
    near = NEAR * (weights[order[0]] - _weights(supply, rows[:1], request.resources, best)[0])

    # A run is counted from its heaviest host, not from neighbour to neighbour: a long slope
    # of small steps is not one big tie.
    start = 0
    while start < len(rows):
        far = behind[start] + max(ROUNDING, near - ROUNDING)
        end = int(np.searchsorted(behind, far, side="right"))
        yield from _shuffled(rows[start:end].tolist(), chance)
        start = end


def _shuffled(rows: list[int], chance: random.Random) -> Iterator[int]:
    """All of them in random order, each drawn when it is asked for."""
    while rows:
        drawn = chance.randrange(len(rows))
        rows[drawn], rows[-1] = rows[-1], rows[drawn]
        yield rows.pop()


def _weights(supply: Supply, rows: Column, taken: Mapping[str, int], best: Sequence[float]) -> Column:
    """The weights, each part as a share of the best value among the candidates."""
    weights = np.zeros(len(rows))
    for weigher, top in zip(WEIGHERS, best, strict=True):
        if top > 0:
            weights += weigher.multiplier * weigher.weigh(supply, rows, taken) / top
    return weights
