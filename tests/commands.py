"""The `berthold` command run in this process, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from typer.testing import CliRunner

from berthold.cli import app


@dataclass
class Ran:
    """How a command ended. `error` is the sentence for whoever typed it."""

    status: int
    text: str
    error: str

    def line(self, *words: str) -> str:
        """The one line of its output with these words."""
        (found,) = [line for line in self.text.splitlines() if all(word in line for word in words)]
        return found


Berthold = Callable[..., Ran]


def run(*words: object) -> Ran:
    """`run("doctor", "--data", path)`."""
    got = CliRunner().invoke(app, [str(word) for word in words])
    if got.exception is not None and not isinstance(got.exception, SystemExit):
        return Ran(1, got.output, str(got.exception))
    return Ran(got.exit_code, got.output, "")
