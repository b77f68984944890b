"""`berthold db upgrade` and `berthold db audit`."""

from __future__ import annotations

import typer

from berthold import database
from berthold.cli import home as homes
from berthold.cli import options
from berthold.cli.console import Wrong, out
from berthold.ledger.audit import CHECKS, audit
from berthold.ledger.store import Store

app = typer.Typer(help="Look after a cloud's database.", no_args_is_help=True)


@app.command()
def upgrade(database_url: options.Database = None, data: options.Data = homes.DEFAULT) -> None:
    """Bring the database's tables up to this version."""
    url = database_url or homes.Home(data).database_url
    database.upgrade(url)
    out.print("The database is up to date.")


@app.command("audit")
def audit_command(database_url: options.Database = None, data: options.Data = homes.DEFAULT) -> None:
    """Ask of every promise whether it holds now, and of the whole placement history whether it ever did not."""
    url = database_url or homes.Home(data).database_url
    if not database.is_current(url):
        raise Wrong("the database's tables are not those of this version: berthold db upgrade")
    store = Store(url)
    try:
        violations = store.read_now(audit)
    finally:
        store.close()
    for promise in sorted({check.promise for check in CHECKS}):
        broken = [violation for violation in violations if violation.promise == promise]
        out.print(f"{promise:>4}  {'[bold red]violated[/]' if broken else '[green]ok[/]'}")
        for violation in broken:
            out.print(f"      {violation.says}", markup=False)
    raise typer.Exit(1 if violations else 0)
