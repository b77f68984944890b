"""Fixtures for tests that write by hand into a cloud that their module's `fill(tx)` makes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection

import loosened
from berthold.lab import engines


@pytest.fixture(scope="module")
def filled(request: pytest.FixtureRequest, postgresql: engines.PostgreSQL) -> Iterator[Connection]:
    """The cloud on PostgreSQL; every test undoes what it did."""
    url = postgresql.lend()
    with engines.connected(url) as tx:
        request.module.fill(tx)
        tx.commit()
        yield tx
    postgresql.back(url)


@pytest.fixture(scope="module")
def rows(request: pytest.FixtureRequest) -> loosened.Rows:
    """The same cloud, to be put into SQLite."""
    with loosened.sqlite_without() as tx:
        request.module.fill(tx)
        return loosened.rows_of(tx)
