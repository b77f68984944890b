"""The `berthold` command: starts clouds and their parts, looks after databases, shows the demo."""

from __future__ import annotations

import sys

import typer

from berthold.cli import database, explain, groups, moves, processes
from berthold.cli.console import Wrong, error
from berthold.cli.demo import demo
from berthold.cli.doctor import doctor
from berthold.errors import Unavailable

__all__ = ["app", "main"]

app = typer.Typer(
    help="A compute control plane for virtual machines that keeps its server-group promises.\n\n"
    "`berthold up` starts a cloud, `berthold demo` shows one, `berthold doctor` says what is wrong with one.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(processes.up)
app.command()(processes.api)
app.command()(processes.conductor)
app.command()(processes.agent)
app.command()(demo)
app.command()(doctor)
app.add_typer(database.app, name="db")
app.add_typer(moves.app, name="move")
app.add_typer(groups.app, name="group")
app.add_typer(explain.app, name="explain")


def main() -> None:
    """Run the command. What an operator can put right is one sentence, never a traceback."""
    try:
        app()
    except (Wrong, Unavailable) as wrong:
        error(str(wrong))
        sys.exit(1)
