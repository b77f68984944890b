"""`python -m berthold.lab.unguarded up …`: a throw-away cloud that does not keep the group rules.

Its ledger asks for no seat, its tables require none, and only the scheduler looks, as in
the bug report. Everything else is `berthold up`. It refuses a data directory that has a
database already: no cloud that somebody uses is to lose its rules.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import make_url

from berthold import cli, database
from berthold.cli.console import Wrong, err
from berthold.lab.strategies import scheduler_only, unguarded_metadata
from berthold.ledger.store import engine_for


def make_tables(url: str) -> None:
    """In place of `database.upgrade`: new tables, without the constraints of the group rules."""
    file = make_url(url).database
    if file is None or Path(file).exists():
        raise Wrong(f"{file} exists: a cloud without group rules begins in an empty directory")
    engine = engine_for(url)
    unguarded_metadata().create_all(engine)
    engine.dispose()


def main() -> None:
    """`berthold`, without the group rules."""
    err.print("[bold red]This cloud does not keep the rules of server groups.[/]")
    database.upgrade = make_tables
    with scheduler_only():
        cli.main()


if __name__ == "__main__":
    main()
