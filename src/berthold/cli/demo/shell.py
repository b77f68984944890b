"""Commands that a person could type: each is shown, run as it stands, and its output shown."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from berthold.cli.console import Wrong, out
from berthold.cli.home import Home

COMMAND_S = 120.0
SHOWN_LINES = 40


class Shell:
    """Runs commands with the environment that it has shown once."""

    def __init__(self, home: Home) -> None:
        programs = Path(sys.executable).parent
        if not (programs / "openstack").exists():
            raise Wrong(
                "the demo needs the openstack client beside this Python: pip install python-openstackclient"
            )
        self.shown = {
            "PATH": f"{programs}:$PATH",
            "OS_CLIENT_CONFIG_FILE": str(home.clouds_yaml),
            "OS_CLOUD": "berthold",
            "CLIFF_FIT_WIDTH": "1",
        }
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        path = f"{programs}:{inherited.get('PATH', '')}"
        # The client's own libraries warn about each other; that is not what is shown here.
        quiet = {"PYTHONWARNINGS": "ignore", "COLUMNS": str(max(out.width, 100))}
        self._environment = {**inherited, **self.shown, "PATH": path, **quiet}

    def introduce(self) -> None:
        """Show what must be set so that the commands can be pasted."""
        for name, value in self.shown.items():
            out.print(f"[bold]$ export {name}={value}[/]")

    def run(self, command: str, *, may_fail: bool = False) -> str:
        """Show the command, run it, show and return its output."""
        out.print(f"\n[bold]$ {_escaped(command)}[/]")
        return self._ended(self._begin(command), command, may_fail)

    def together(self, commands: Sequence[str]) -> None:
        """Start all at the same moment, as a shell does with `&`, and wait for all."""
        out.print()
        for command in commands:
            out.print(f"[bold]$ {_escaped(command)} &[/]")
        out.print("[bold]$ wait[/]")
        begun = [(command, self._begin(command)) for command in commands]
        for command, process in begun:
            self._ended(process, command, False)

    def _begin(self, command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            shlex.split(command),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )

    def _ended(self, process: subprocess.Popen[str], command: str, may_fail: bool) -> str:
        try:
            output, complaint = process.communicate(timeout=COMMAND_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Wrong(f"`{command}` did not end within {COMMAND_S:g} s") from None
        if process.returncode and not may_fail:
            raise Wrong(f"`{command}` ended with {process.returncode}: {complaint or output}")
        _show(output if output.strip() else complaint)
        return output


def _show(output: str) -> None:
    lines = output.rstrip().splitlines()
    for line in lines[:SHOWN_LINES]:
        out.print(line, markup=False)
    if len(lines) > SHOWN_LINES:
        out.print(f"[dim]… {len(lines) - SHOWN_LINES} more lines[/]")


def _escaped(command: str) -> str:
    return command.replace("[", "\\[")
