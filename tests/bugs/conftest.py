"""Worlds for the bug stories: made as a story wishes, and found in order when it is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from berthold.lab.world import World
from by_hand import MakeWorld, assert_quiet
from compute import Answer, Cloud, emptied, fault_of


@pytest.fixture
def make_world() -> Iterator[MakeWorld]:
    """Worlds with hosts of given sizes: `make_world(node1=64, node2=4)` gives each its vCPUs, so
    that the scheduler strongly prefers the largest. When the test is over nothing may be broken
    or left over in any of them."""
    made: list[World] = []

    def make(*, settings: Any = None, seed: int = 0, **vcpus: int) -> World:
        world = World(vcpus, seed=seed, settings=settings)
        made.append(world)
        return world

    yield make
    try:
        for world in made:
            assert_quiet(world)
    finally:
        for world in made:
            world.close()


@pytest.fixture(scope="session")
def empty_cloud() -> Iterator[tuple[Cloud, Any]]:
    made = Cloud()
    yield made, made.world.photograph()
    made.world.close()


@pytest.fixture
def cloud(empty_cloud: tuple[Cloud, Any]) -> Iterator[Cloud]:
    """The compute API over an empty world. When the test is over no promise is broken there."""
    made, photograph = empty_cloud
    made.app = made.made_app
    emptied(made, photograph)
    yield made
    assert made.world.problems() == []


@pytest.fixture
def fault() -> Callable[[Answer, int], str]:
    """The sentence of a fault that has this status."""
    return fault_of
