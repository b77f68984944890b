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

# So many hosts are named in a line of the log and in a fault, which stand in many rows.
NAMED_MAX = 40

# What a host was asked to do, by the agent's verb, in words for those who know servers but no agents.
IN_OWNERS_WORDS = {
    "spawn": "start the server",
    "check": "take the server",
    "prepare": "make room for the server",
    "send": "send the server's memory",
    "send_disk": "send the server's disk",
    "locate": "say whether it runs the server",
    "restore": "bring the server back to how it was",
    **{verb: f"{verb} the server" for verb in ("start", "stop", "reboot", "pause", "unpause")},
    **{verb: f"{verb} the server" for verb in ("suspend", "resume")},
    "rebuild": "make the server anew",
    "rescue": "start the server from the rescue image",
    "attach_volume": "attach the volume",
    "detach_volume": "detach the volume",
    "attach_interface": "attach the network interface",
    "detach_interface": "detach the network interface",
    "discard": "remove what it holds of the server",
}


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
    """Why a line failed. `message` is what users read: it names no host, and holds nothing that an agent
    or a bug has put into words. `hosts`, `said` (one line, "" for the same) and `trace` are for
    operators. `again`: another host may do."""

    message: str
    hosts: Mapping[str, str] = field(default_factory=dict)
    trace: str = ""
    again: bool = False
    said: str = ""

    def against(self, host: str | None) -> str:
        """What is held against a host that took the server: its own words, if it failed itself."""
        return self.hosts.get(host or "") or f"{ANOTHER_FAILED}: {self.said or self.message}"

    def document(self) -> dict[str, Any]:
        """As it is kept with the move."""
        said = self.said or self.message
        return {"message": self.message, "said": said, "traceback": self.trace, "hosts": dict(self.hosts)}

    @classmethod
    def at_host(
        cls, message: str, hosts: Mapping[str, str], said: str | None = None, *, again: bool = False
    ) -> Trouble:
        """What a host did not do, by its name; `said`: the same in a line."""
        said = said or "; ".join(f"{name}: {why}" for name, why in hosts.items())
        return cls(message, hosts, trace=said, again=again, said=said)

    @classmethod
    def refused(cls, name: str, verb: str, reason: str, *, again: bool = False) -> Trouble:
        """The host's agent could not do what it was asked."""
        said = f"{name} could not {verb}: {reason}"
        return cls.at_host(f"a host could not {IN_OWNERS_WORDS[verb]}", {name: reason}, said, again=again)

    @classmethod
    def overdue(cls, name: str, verb: str, why: str) -> Trouble:
        """The host's agent has not answered, and it makes no sense to wait longer."""
        message = f"a host did not {IN_OWNERS_WORDS[verb]} in time"
        return cls.at_host(message, {name: why}, f"{name} did not {verb}: {why}", again=True)

    @classmethod
    def of(cls, error: BaseException) -> Trouble:
        """An exception as trouble. What is no `Failure` is a bug and shown to operators only."""
        if isinstance(error, NoValidHost):
            trace = "\n  ".join([error.message, *by_host(error.reasons)])
            return cls(error.message, hosts=error.reasons, trace=trace)
        if isinstance(error, Failure):
            return cls(error.message, trace=f"{type(error).__name__}: {error.message}")
        return cls("An unexpected error stopped this; operators find it in the log.", trace=_trace(error))


def by_host(reasons: Mapping[str, str]) -> list[str]:
    """Hosts by name, each with its reason, as logs and faults tell them; of very many only the first: all
    are explained by `berthold explain`."""
    named = [f"{name}: {why}" for name, why in sorted(reasons.items())]
    if (more := len(named) - NAMED_MAX) > 0:
        named[NAMED_MAX:] = [f"… and {more} more {'host' if more == 1 else 'hosts'}"]
    return named


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))
