"""How a step left its move, and why a line failed."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from berthold.errors import Failure, NoValidHost
from berthold.ledger import moves
from berthold.moves.playbook import Scene

# How long a runner waits for answers before it looks again, in case that nobody wakes it.
LOOK_AGAIN_S = 1.0

# What is kept of a host that took the server, and then something else failed.
ANOTHER_FAILED = "it was tried, and what failed was not its doing"


@dataclass(frozen=True)
class Outcome:
    """How a turn left its move. `state` is the move's; `wait_s` is how long nothing can be done
    but wait for answers; `later` means the lease was given back until it is worth another try, or one of
    the topics `news` is told. `scene` is what a look would show now, where the next line asks no agent;
    `host` is where a move that is over has left its server."""

    state: str
    wait_s: float = 0.0
    later: bool = False
    news: tuple[str, ...] = ()
    scene: Scene | None = field(default=None, repr=False, compare=False)
    host: str | None = field(default=None, compare=False)

    @property
    def over(self) -> bool:
        """Whether there is nothing more to do under this lease."""
        return self.later or self.state not in moves.WORKED_ON


@dataclass(frozen=True)
class Trouble:
    """Why a line failed. `message` may be shown to the owner; `hosts` and `trace` are for operators.
    `again`: another host may do."""

    message: str
    hosts: Mapping[str, str] = field(default_factory=dict)
    trace: str = ""
    again: bool = False

    def against(self, host: str | None) -> str:
        """What is held against a host that took the server: its own words, if it failed itself."""
        return self.hosts.get(host or "", ANOTHER_FAILED)

    def document(self) -> dict[str, Any]:
        """As it is kept with the move."""
        return {"message": self.message, "traceback": self.trace, "hosts": dict(self.hosts)}

    @classmethod
    def of(cls, error: BaseException) -> Trouble:
        """An exception as trouble. What is no `Failure` is a bug and shown to operators only."""
        if isinstance(error, NoValidHost):
            lines = [error.message, *(f"  {name}: {why}" for name, why in sorted(error.reasons.items()))]
            return cls(error.message, hosts=error.reasons, trace="\n".join(lines))
        if isinstance(error, Failure):
            return cls(error.message, trace=f"{type(error).__name__}: {error.message}")
        return cls("An unexpected error stopped this; operators find it in the log.", trace=_trace(error))


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))
