"""A data directory, and a cloud on the database in it, for the `berthold` command to look at."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import commands
from berthold import database
from berthold.cli.home import Home
from berthold.lab.world import World, with_settings


@pytest.fixture
def berthold(monkeypatch: pytest.MonkeyPatch) -> commands.Berthold:
    """`berthold("doctor", "--data", path)`, on a terminal without colours."""
    monkeypatch.setenv("NO_COLOR", "1")
    return commands.run


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory as a first start leaves it, its database empty and current."""
    home = Home(tmp_path / "data")
    home.token_key()
    home.agents_token()
    home.write_clouds_yaml("http://127.0.0.1:8774")
    database.upgrade(home.database_url)
    return home.path


@pytest.fixture
def world(data: Path) -> Iterator[World]:
    """Two hosts, on the database in `data`, heard just now. A line is tried three times."""
    made = World(hosts=2, settings=with_settings(tries_max=3), url=f"sqlite:///{data / 'berthold.db'}")
    made.pass_time(time.time() - made.clock.now())
    yield made
    made.close()
