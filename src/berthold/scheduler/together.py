"""One host for several servers at once: a group that moves as a whole.

Every server's own wishes must hold there, and there must be room for all of them together.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from berthold.scheduler.candidates import Ranking, Refusal, fit, refuse
from berthold.scheduler.request import Request
from berthold.scheduler.supply import Column, HostView
from berthold.scheduler.view import View


@dataclass(frozen=True)
class Together:
    """`ranking`: the hosts that will do, best first; `requests`: what each server wants, by its name."""

    requests: Mapping[str, Request]
    view: View
    ranking: Ranking

    @property
    def refused(self) -> dict[str, Refusal]:
        """By name, every other host with the first reason that was found."""
        fits = set(self.ranking.fit.tolist())
        return {
            host.name: refusal
            for row, host in enumerate(self.view.hosts)
            if row not in fits and (refusal := self._refusal(host))
        }

    def _refusal(self, host: HostView) -> Refusal | None:
        for name, request in self.requests.items():
            if refusal := refuse(request, host, self.view):
                # What all are refused for alike needs no name.
                said = refusal.reason if refusal.cause in ("host state", "source host") else ""
                return replace(refusal, reason=said or f"{name}: {refusal.reason}")
        for resource_class, wanted in self.ranking.request.resources.items():
            offer = host.capacity.get(resource_class)
            if offer is not None and wanted > offer.free:
                room = f"free {offer.free} of {offer.capacity}"
                return Refusal(
                    "capacity", "capacity", f"not enough {resource_class} for all: wanted {wanted}, {room}"
                )
        return None


def rank_together(requests: Mapping[str, Request], view: View, chance: random.Random) -> Together:
    """Every host of the view, judged for all the servers together. Ties fall as `chance` has it."""
    whole = replace(next(iter(requests.values())), resources=dict(_wanted(requests)))
    return Together(requests, view, Ranking(whole, view, fit_together(requests, view), chance))


def fit_together(requests: Mapping[str, Request], view: View) -> Column:
    """The rows of the hosts that will do for all the servers together."""
    rows: Column = reduce(np.intersect1d, (fit(request, view) for request in requests.values()))
    for resource_class, wanted in _wanted(requests).items():
        rows = rows[view.supply.free(resource_class, rows) >= wanted]
    return rows


def _wanted(requests: Mapping[str, Request]) -> Counter[str]:
    wants: Counter[str] = Counter()
    for request in requests.values():
        wants.update(request.resources)
    return wants
