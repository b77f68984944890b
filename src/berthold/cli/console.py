"""What commands say to people: results to standard output, trouble to standard error."""

from __future__ import annotations

from rich.console import Console
from rich.status import Status

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def doing(what: str) -> Status:
    """Show what is being done while it takes long, on a terminal; a file or a pipe gets results only."""
    return err.status(what)


class Wrong(Exception):
    """Something that whoever typed the command can put right; the message says how."""


def error(message: str) -> None:
    """Say what is wrong."""
    err.print(f"[bold red]berthold:[/] {message}", markup=True)
