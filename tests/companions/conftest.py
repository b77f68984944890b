"""The fixture `cloud`: the companions in memory, reached without a socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from companions_cloud import Cloud


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    cloud = Cloud(tmp_path)
    yield cloud
    cloud.store.close()
