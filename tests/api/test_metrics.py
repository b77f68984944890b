"""`GET /metrics`: numbers of the whole cloud, for monitoring systems; of nobody's things by name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text
from starlette.applications import Starlette

from berthold import cloud
from berthold.api import metrics
from berthold.errors import Unavailable
from berthold.lab.world import World
from berthold.lab.world import now as run
from berthold.ledger.store import Store
from berthold.moves.auditor import Auditor
from berthold.records import tallies


@pytest.fixture
def world() -> Iterator[World]:
    made = World(hosts=2)
    yield made
    made.close()


def asked(store: Store) -> httpx.Response:
    return get(Starlette(routes=metrics.routes(store)))


def get(app: Starlette) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://cloud") as client:
            return await client.get("/metrics")

    return asyncio.run(ask())


def numbers(store: Store) -> dict[tuple[str, str], float]:
    """(metric, its label) → value, as Prometheus would read it."""
    answer = asked(store)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, "".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_a_cloud_that_keeps_its_word_counts_nothing_of_every_promise(world: World) -> None:
    world.live_migrate(world.boot("web-1"))
    found = numbers(world.store)
    assert {name: value for (metric, name), value in found.items() if metric.endswith("violations")} == (
        dict.fromkeys(metrics.PROMISES, 0.0)
    )
    assert found["berthold_unfinished_moves", "running"] == 1
    assert found["berthold_unfinished_moves", "stuck"] == 0
    assert ("berthold_audit_age_seconds", "") not in found, "nobody has looked yet"


def test_soft_policies_that_gave_way_are_counted(world: World) -> None:
    assert numbers(world.store)["berthold_soft_policy_gave_way_total", ""] == 0
    for _ in range(2):
        world.store.write_now(tallies.count, tallies.SOFT_GAVE_WAY)
    assert numbers(world.store)["berthold_soft_policy_gave_way_total", ""] == 2


def test_what_the_auditor_found_is_counted_by_promise(world: World) -> None:
    world.boot("web-1")
    world.store.write_now(
        lambda tx: tx.execute(text("UPDATE claim SET vcpus = 0, memory_mb = 0, disk_gb = 0")) and None
    )
    assert run(Auditor(world.store, world.settings, "c1").look())
    world.pass_time(7.0)
    found = numbers(world.store)
    assert found["berthold_promise_violations", "C1"] == 3
    assert found["berthold_promise_violations", "G1"] == 0
    assert found["berthold_audit_age_seconds", ""] == 7.0


def test_a_database_that_does_not_answer_is_a_503(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def gone(*_: object) -> None:
        raise Unavailable("the database does not answer; try again in a moment")

    monkeypatch.setattr(world.store, "read", gone)
    answer = asked(world.store)
    assert (answer.status_code, answer.text) == (503, "the database does not answer; try again in a moment")


def test_a_cloud_serves_it_without_a_token(world: World) -> None:
    app = cloud.application(world.companions, world.settings, world.door, "hush")
    answer = get(app)
    assert answer.status_code == 200
    assert 'berthold_promise_violations{rule="G1"} 0.0' in answer.text
