"""The compute API over one world for all tests of this folder, empty at the start of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compute import Answer, Cloud, emptied, fault_of


@pytest.fixture(scope="session")
def empty_cloud() -> Iterator[tuple[Cloud, Any]]:
    made = Cloud()
    yield made, made.world.photograph()
    made.world.close()


@pytest.fixture
def cloud(empty_cloud: tuple[Cloud, Any]) -> Cloud:
    """A cloud in which nothing is: the same one each time, taken back to where it began."""
    made, photograph = empty_cloud
    made.app = made.made_app
    return emptied(made, photograph)


@pytest.fixture
def fault() -> Callable[[Answer, int], str]:
    return fault_of
