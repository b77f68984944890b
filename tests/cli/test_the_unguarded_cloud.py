"""The demo's cloud without group rules begins in an empty directory, and in no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect

from berthold import database
from berthold.cli.console import Wrong
from berthold.cli.database import brought_up
from berthold.lab import unguarded


def test_it_is_made_once_and_no_cloud_that_is_there_loses_its_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "upgrade", unguarded.make_tables)
    url = f"sqlite:///{tmp_path / 'berthold.db'}"
    brought_up(url)
    engine = create_engine(url)
    keys = {key["name"] for key in inspect(engine).get_foreign_keys("claim")}
    engine.dispose()
    assert "g1_claim_has_seat" not in keys
    with pytest.raises(Wrong, match="begins in an empty directory"):
        brought_up(url)
