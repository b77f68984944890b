"""What commands say to people: results to standard output, trouble to standard error."""

from __future__ import annotations

from rich.console import Console
from rich.status import Status
from rich.text import Text

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def doing(what: str) -> Status:
    """Show what is being done while it takes long, on a terminal; a file or a pipe gets results only."""
    return err.status(what)


class Wrong(Exception):
    """Something that whoever typed the command can put right: what it is and, line by line, what to do."""

    def __init__(self, says: str, do: str = "") -> None:
        super().__init__("\n  ".join([says, *do.splitlines()]))
        self.says, self.do = says, do


def error(message: str) -> None:
    """Say what is wrong. What was typed is part of it, and never read as markup."""
    err.print(Text.assemble(("berthold:", "bold red"), " ", message))
