"""What the demo prints beside the commands: headings, hosts, moments, what was to be seen."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from berthold.cli.console import out
from berthold.cli.demo.cloud import Server


class Screen:
    """Prints, and remembers what was not as it should be."""

    def __init__(self) -> None:
        self.wrong: list[str] = []

    def act(self, number: int | str, title: str) -> None:
        """A new act begins."""
        out.print()
        out.rule(f"[bold]{number}  {title}", align="left")

    def say(self, text: str) -> None:
        """A remark."""
        out.print(f"[cyan]{text}[/]")

    def expect(self, good: bool, sentence: str) -> None:
        """Say whether it is as it should be."""
        out.print(f"  [green]✓[/] {sentence}" if good else f"  [bold red]✗ {sentence}[/]")
        if not good:
            self.wrong.append(sentence)

    def hosts(self, when: str, hosts: Sequence[str], servers: Sequence[Server]) -> None:
        """Who lives where."""
        table = Table(title=f"hosts {when}", title_justify="left", title_style="bold")
        for host in hosts:
            table.add_column(host, min_width=12)
        here = [
            "\n".join(f"{s.name} {_status(s)}" for s in servers if s.host == host) or "[dim]·[/]"
            for host in hosts
        ]
        table.add_row(*here)
        out.print(table)

    def moments(self, rows: Sequence[Sequence[str]]) -> None:
        """When each of several moves was accepted, claimed its host, and ended."""
        table = Table(title="the moves, in seconds from the first", title_justify="left", title_style="bold")
        for name in ("server", "accepted", "claimed", "ended", "from", "to"):
            table.add_column(name)
        for row in rows:
            table.add_row(*row)
        out.print(table)


def _status(server: Server) -> str:
    colour = {"ACTIVE": "green", "ERROR": "bold red"}.get(server.status, "yellow")
    return f"[{colour}]{server.status}[/]"
