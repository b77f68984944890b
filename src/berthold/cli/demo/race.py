"""Several moves asked for at the same moment, and whether it was the same moment.

A client takes a second or two to start, so the requests of a race may be far apart. Only a
race in which there was an instant at which all moves were accepted and none had ended
counts; the others are run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from berthold.cli.console import Wrong
from berthold.cli.demo.cloud import Action, Cloud, Server
from berthold.cli.demo.screen import Screen
from berthold.cli.demo.shell import Shell
from berthold.cli.demo.verdict import judge_now

TRIES = 5


@dataclass(frozen=True)
class Race:
    """How a race ended: each server before and after, and what was asked of it."""

    before: Mapping[str, Server]
    after: Mapping[str, Server]
    actions: Mapping[str, Action]

    @property
    def refused(self) -> list[str]:
        """The servers whose move was refused."""
        return [name for name, action in self.actions.items() if action.message == "Error"]

    @property
    def moved(self) -> list[str]:
        """The servers that live elsewhere now."""
        return [name for name in self.actions if self.after[name].host != self.before[name].host]

    @property
    def at_once(self) -> bool:
        """Whether there was an instant at which all were accepted and none had ended."""
        return max(a.accepted for a in self.actions.values()) < min(a.ended for a in self.actions.values())


@dataclass(frozen=True)
class Stage:
    """What every act works with."""

    cloud: Cloud
    shell: Shell
    screen: Screen


def race(
    stage: Stage,
    command: Callable[[Server], str],
    names: Sequence[str],
    undo: Callable[[Race], None],
    prepare: Callable[[], None] = lambda: None,
) -> Race:
    """Run `command` for all servers at once, until a race counts; how that one ended.

    A name that no server has is that of one which the command makes. `prepare` makes each race
    possible; `undo` puts the servers back into a state in which they can be raced again.
    """
    cloud, screen = stage.cloud, stage.screen
    for _ in range(TRIES):
        prepare()
        before = {server.name: server for server in cloud.servers()}
        screen.hosts("before", cloud.hosts, list(before.values()))
        for name in names:
            before.setdefault(name, Server(name))
        stage.shell.together([command(before[name]) for name in names])
        screen.expect(cloud.at_rest(), "every move has come to its end")
        after = {server.name: server for server in cloud.servers()}
        ran = Race(before, after, {name: cloud.last_action(after[name]) for name in names})
        _show(stage, ran)
        judge_now(cloud)
        if ran.at_once:
            screen.expect(True, "all were accepted before any had ended: this race counts")
            return ran
        screen.say("One had ended before the last was accepted: this race does not count and is run again.")
        undo(ran)
    raise Wrong(f"in {TRIES} races the clients were never at the same moment; is this machine busy?")


def _show(stage: Stage, ran: Race) -> None:
    first = min(action.accepted for action in ran.actions.values())

    def since(moment: float | None) -> str:
        return "[yellow]refused[/]" if moment is None else f"{moment - first:6.3f}"

    rows = []
    for name, action in ran.actions.items():
        there = ran.after[name].host or ""
        moved = there != ran.before[name].host
        rows.append(
            [
                name,
                since(action.accepted),
                since(action.claimed),
                since(action.ended),
                ran.before[name].host or "",
                there if moved else f"[dim]stays on {there or 'no host'}[/]",
            ]
        )
    stage.screen.moments(rows)
    stage.screen.hosts("after", stage.cloud.hosts, list(ran.after.values()))
