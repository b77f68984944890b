"""Worlds for the bug stories: made as a story wishes, and found in order when it is over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from berthold.lab.world import World
from by_hand import MakeWorld, assert_quiet


@pytest.fixture
def make_world() -> Iterator[MakeWorld]:
    """Worlds with hosts of given sizes: `make_world(node1=64, node2=4)` gives each its vCPUs, so
    that the scheduler strongly prefers the largest. When the test is over nothing may be broken
    or left over in any of them."""
    made: list[World] = []

    def make(*, settings: Any = None, seed: int = 0, **vcpus: int) -> World:
        world = World(hosts=0, seed=seed, settings=settings)
        made.append(world)
        for name, number in vcpus.items():
            world.add_host(name, vcpus=number, memory_mb=number * 1024)
        return world

    yield make
    try:
        for world in made:
            assert_quiet(world)
    finally:
        for world in made:
            world.close()
