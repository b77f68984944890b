"""The bench still runs, in the smallest sizes. What it measures is nobody's business here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench import claiming, deciding, working
from bench.figures import Figure


def results(figures: list[Figure]) -> dict[str, float]:
    return {figure.what: figure.result for figure in figures if not isinstance(figure.result, str)}


def test_claims_are_taken_and_compared_with_pgbench() -> None:
    size = claiming.Size(seconds=0.2, processes=2, moves=2, hosts=20, stock=100, scale=1)
    found = results(claiming.measure(size))
    assert found["claims on 20 hosts"] > 0
    assert found["claims on one host"] > 0
    assert found["… over pgbench -N"] > 0


def test_the_all_in_one_creates_and_migrates() -> None:
    found = results(working.measure((2,), 2, 2))
    assert found["creates to ACTIVE, 2 hosts"] > 0
    assert found["live migrations, 2 hosts"] > 0


def test_decisions_are_timed() -> None:
    assert results(deciding.measure((2,), 2))["one decision, 2 hosts, p50"] > 0


def test_memory_is_weighed() -> None:
    assert results(working.weigh(2))["resident memory, 2 hosts"] > 0


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        (Figure("fast enough", 0.5, at_least=0.35), "met"),
        (Figure("too slow", 0.1, at_least=0.35), "missed"),
        (Figure("short enough", 4.0, "ms", at_most=5), "met"),
        (Figure("too long", 6.0, "ms", at_most=5), "missed"),
        (Figure("no aim", 6.0), ""),
    ],
)
def test_a_figure_says_whether_its_aim_is_met(figure: Figure, verdict: str) -> None:
    assert figure.verdict == verdict
