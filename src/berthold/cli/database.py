"""`berthold db upgrade` and `berthold db audit`."""

from __future__ import annotations

from pathlib import Path

import typer
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError

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
    brought_up(database_url or homes.opened(data).database_url)
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
        raise Wrong(
            f"there is no cloud in {data}", "name its directory (--data) or its database (--database)"
        )
    return standing(database_url or homes.Home(data).database_url)


def standing(url: str) -> str:
    """The database's URL, once it is known that its tables are as this version needs them."""
    if missing(url):
        do = f"name another: --database, --data\nor make it: berthold db upgrade --database {shown(url)}"
        raise Wrong(f"{shown(url)} is not there", do)
    if not _is_current(url):
        do = f"bring them up to it: berthold db upgrade --database {shown(url)}"
        raise Wrong("the database's tables are not those of this version", do)
    return url


def brought_up(url: str) -> None:
    """Bring the database's tables up to this version, if they are not."""
    try:
        with doing("The tables are being brought up to this version …"):
            if missing(url) or not _is_current(url):  # to ask a SQLite file makes it
                database.upgrade(url)
    except DBAPIError as error:
        raise Wrong(f"the database cannot be brought up to date: {error.orig}") from error


def _is_current(url: str) -> bool:
    """Whether it is at the newest revision. What keeps it from being asked is told to who named it."""
    try:
        current = database.is_current(url)
        newer = not current and database.is_newer(url)
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        known = "postgresql+psycopg://USER@HOST/NAME and sqlite:///FILE can be"
        raise Wrong(f"this is not the URL of a database that can be used: {error}", known) from error
    except OperationalError as error:
        do = "start it, or name another: --database"
        raise Wrong(f"the database cannot be reached: {_first(error)}", do) from error
    except DBAPIError as error:
        do = "name another (--database, --data), or restore a backup"
        raise Wrong(f"{shown(url)} is not a database that can be used: {_first(error)}", do) from error
    except AssertionError as refused:
        # A connection that could not be proved to have the settings that the promises need.
        raise Wrong(str(refused), "change that setting (a pooler between may override it)") from refused
    if newer:
        raise Wrong(
            "a newer version of Berthold has brought the database's tables further", "install that one"
        )
    return current


def missing(url: str) -> bool:
    """Whether it would be a file, and there is none: to look makes nothing."""
    try:
        parts = make_url(url)
    except ArgumentError:
        return False
    return parts.drivername.startswith("sqlite") and not Path(parts.database or "").is_file()


def shown(url: str) -> str:
    """The URL without its password."""
    return make_url(url).render_as_string(hide_password=True)


def _first(error: DBAPIError) -> str:
    """What the driver says, without its advice."""
    return str(error.orig).partition("\n")[0]
