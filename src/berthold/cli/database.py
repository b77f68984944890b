"""`berthold db upgrade` and `berthold db audit`."""

from __future__ import annotations

from pathlib import Path

import typer
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError

from berthold import database
from berthold.cli import home as homes
from berthold.cli import options
from berthold.cli.console import Wrong, doing, out
from berthold.companions import quotas
from berthold.lab.judge import judge, read_history
from berthold.ledger import reading
from berthold.ledger.audit import CHECKS, audit
from berthold.ledger.store import Store

app = typer.Typer(help="Look after a cloud's database.", no_args_is_help=True)


@app.command()
def upgrade(database_url: options.Database = None, data: options.Data = homes.DEFAULT) -> None:
    """Bring the database's tables up to this version.

    Before the first start of a larger cloud, and after every new version of
    Berthold. Done before, it does nothing. `berthold up` does it by itself.

    Example:

      berthold db upgrade --database postgresql+psycopg://db/berthold
    """
    url = database_url or homes.Home(data).database_url
    try:
        with doing("The tables are being brought up to this version …"):
            database.upgrade(url)
    except (ArgumentError, NoSuchModuleError, ImportError, OperationalError) as error:
        raise Wrong(f"the database cannot be brought up to date: {error}") from error
    out.print("The database is up to date.")


@app.command("audit")
def audit_command(database_url: options.Database = None, data: options.Data = homes.DEFAULT) -> None:
    """Ask whether every promise holds, and always did.

    A query for each promise, and every placement since the first replayed, by
    code that shares nothing with what keeps the promises. Exits with 1 if one
    is, or was, broken. May be run beside a cloud that works.

    Example:

      berthold db audit --database postgresql+psycopg://db/berthold
    """
    url = found(database_url, data)
    store = Store(url)
    try:
        with doing("Every promise is being asked for …"):
            violations = [*store.read_now(audit), *store.read_now(quotas.audit)]
            claims = store.read_now(reading.count_claims)
    finally:
        store.close()
    for promise in dict.fromkeys(check.promise for check in CHECKS):
        broken = [violation for violation in violations if violation.promise == promise]
        out.print(f"{promise:>4}  {'[bold red]violated[/]' if broken else '[green]ok[/]'}")
        for violation in broken:
            out.print(f"      {violation.says}", markup=False)
    with doing("The placement history is being replayed …"):
        history = read_history(url)
        findings = judge(history)
    out.print(f"{claims} claims. {len(history)} events of the placement history replayed: ", end="")
    out.print(
        f"[bold red]{len(findings)} violations[/]" if findings else "[green]no promise was ever broken[/]"
    )
    for finding in findings:
        out.print(f"      {finding}", markup=False)
    raise typer.Exit(1 if violations or findings else 0)


def found(database_url: str | None, data: Path) -> str:
    """The URL of a cloud's database, which must be there and current: looking makes nothing."""
    if database_url is None and not (data.expanduser() / "berthold.db").exists():
        raise Wrong(f"there is no cloud in {data}. Name its directory (--data) or its database (--database).")
    return standing(database_url or homes.Home(data).database_url)


def standing(url: str) -> str:
    """The database's URL, once it is known that its tables are as this version needs them."""
    try:
        current = database.is_current(url)
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise Wrong(f"this is not the URL of a database that can be used: {error}") from error
    except OperationalError as error:
        raise Wrong(f"the database cannot be reached: {error.orig}") from error
    if not current:
        raise Wrong(
            "the database's tables are not those of this version. Bring them up to it with:"
            "\n  berthold db upgrade --database URL"
        )
    return url
