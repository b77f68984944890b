"""`GET /metrics`: what a monitoring system should know of the whole cloud, in Prometheus' form.

Numbers only, of nobody's things in particular, so it needs no token. They are read from the
database when they are asked for: every API process says the same, whoever found it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from berthold.errors import Unavailable
from berthold.ledger import overview
from berthold.ledger.audit import CHECKS
from berthold.ledger.store import Store, Tx
from berthold.moves.auditor import DUTY
from berthold.records import duties, tallies, violations

PROMISES = sorted({check.promise for check in CHECKS})


@dataclass(frozen=True)
class Numbers:
    """One look at the cloud. `audited_s`: how many seconds ago the auditor looked, if it ever did."""

    violations: dict[str, int]
    audited_s: float | None
    moves: dict[str, int]
    soft_gave_way: int


def routes(store: Store) -> list[Route]:
    """`GET /metrics`."""

    async def metrics(request: Request) -> Response:
        try:
            numbers = await store.read(look)
        except Unavailable as error:
            return PlainTextResponse(error.message, 503)
        return Response(written(numbers), media_type=CONTENT_TYPE_LATEST)

    return [Route("/metrics", metrics, methods=["GET"])]


def look(tx: Tx) -> Numbers:
    """The numbers as they are."""
    last = duties.last(tx, DUTY)
    done = last["done_at"] if last else None
    return Numbers(
        {**dict.fromkeys(PROMISES, 0), **violations.counts(tx)},
        None if done is None else max(0.0, overview.machine_time(tx) - done),
        overview.moves_by_state(tx),
        tallies.total(tx, tallies.SOFT_GAVE_WAY),
    )


class _Tallied(Collector):
    """What was counted elsewhere, not in this process."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers

    def collect(self) -> Iterator[Metric]:
        says = "How often a member of a soft group lost too many races for its place and took it unranked."
        yield CounterMetricFamily("berthold_soft_policy_gave_way", says, value=self._numbers.soft_gave_way)


def written(numbers: Numbers) -> bytes:
    """In the text form that Prometheus reads."""
    registry = CollectorRegistry()
    broken = Gauge(
        "berthold_promise_violations",
        "How many violations stand, by promise, as the auditor last saw.",
        ["rule"],
        registry=registry,
    )
    for rule, count in sorted(numbers.violations.items()):
        broken.labels(rule).set(count)
    moves = Gauge("berthold_unfinished_moves", "Moves under way, by state.", ["state"], registry=registry)
    for state, count in numbers.moves.items():
        moves.labels(state).set(count)
    registry.register(_Tallied(numbers))
    if numbers.audited_s is not None:
        age = Gauge("berthold_audit_age_seconds", "How long ago the auditor looked.", registry=registry)
        age.set(numbers.audited_s)
    return generate_latest(registry)
