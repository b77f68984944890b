"""`berthold db upgrade` and `berthold db audit`."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from sqlalchemy import update

from berthold.cli import console
from berthold.lab.world import World
from berthold.ledger import schema
from commands import Berthold


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What is written to standard error, where that is a terminal."""
    monkeypatch.setenv("TERM", "xterm")
    written = io.StringIO()
    monkeypatch.setattr(console, "err", Console(file=written, force_terminal=True, width=80))
    return written


def test_an_audit_has_a_line_for_each_promise_and_replays_the_history(
    berthold: Berthold, data: Path, world: World
) -> None:
    world.boot("web-1")
    ran = berthold("db", "audit", "--data", data)
    assert ran.status == 0
    assert ran.line("G1").split() == ["G1", "ok"]
    assert ran.line("1 claims.").endswith(
        "events of the placement history replayed: no promise was ever broken"
    )


def test_a_broken_promise_is_named_and_ends_with_1(berthold: Berthold, data: Path, world: World) -> None:
    world.boot("web-1", host="node1")
    world.store.write_now(lambda tx: tx.execute(update(schema.claim).values(vcpus=0)) and None)
    ran = berthold("db", "audit", "--data", data)
    assert ran.status == 1
    assert ran.line("C1").split() == ["C1", "violated"]
    world.store.write_now(lambda tx: tx.execute(update(schema.inventory).values(used=0)) and None)


def test_what_takes_long_is_seen_on_a_terminal(berthold: Berthold, data: Path, terminal: io.StringIO) -> None:
    for words, seen in (
        (("db", "upgrade"), ["brought up to this version"]),
        (("db", "audit"), ["Every promise is being asked for", "history is being replayed"]),
    ):
        ran = berthold(*words, "--data", data)
        assert ran.status == 0
        for what in seen:
            assert what in terminal.getvalue()
            assert what not in ran.text


def test_a_pipe_gets_results_only(berthold: Berthold, data: Path) -> None:
    assert berthold("db", "upgrade", "--data", data).text == "The database is up to date.\n"


def test_an_upgrade_of_nonsense_is_one_sentence(berthold: Berthold) -> None:
    ran = berthold("db", "upgrade", "--database", "nonsense")
    assert (ran.status, ran.error.startswith("this is not the URL of a database that can be used: ")) == (
        1,
        True,
    )
