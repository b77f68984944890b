"""What a move is made of: a list read from top to bottom.

* `Write` changes the ledger in one transaction together with the move's progress.
* `Place` offers the scheduler's candidates to the ledger until one is granted.
* `Ask` asks agents; an ask is idempotent and may be repeated.
* `Call` asks a neighbour; idempotent by the move's id.
* `Park` leaves the move to wait for its owner's next word; no lease, claims kept. A move that is
  walked back to one waits there.
* `PointOfNoReturn` divides the list. Above it every line has an undo, and a failed move is
  walked back, beginning with the line that failed, since a call that timed out may have
  happened. Below it nothing is undone: the line is tried again.

Each line carries what users see while it is being done: the instance-action event, the
task state, the migration's status.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from berthold.ledger.claims import Claim
from berthold.ledger.store import Tx
from berthold.neighbours import Neighbours

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Scene:
    """All that a line may look at: the move, its server, and the server's claims, as they are."""

    move: Mapping[str, Any]
    server: Mapping[str, Any]
    claims: tuple[Claim, ...]

    @property
    def id(self) -> str:
        move_id: str = self.move["id"]
        return move_id

    @property
    def facts(self) -> Facts:
        facts: Facts = self.move["facts"]
        return facts

    @property
    def wish(self) -> Facts:
        wish: Facts = self.move["wish"]
        return wish

    @property
    def same_host(self) -> bool:
        """Whether the server moves to where it already is (a resize in place)."""
        return self.move["source_id"] is not None and self.move["source_id"] == self.move["target_id"]

    def claims_in(self, *roles: str) -> list[Claim]:
        return [claim for claim in self.claims if claim.role in roles]

    def host_name(self, host_id: str | None) -> str | None:
        """The name of a host that the server has a claim on."""
        return next((claim.host_name for claim in self.claims if claim.host_id == host_id), None)


def target(scene: Scene) -> list[str]:
    """The host that the move goes to."""
    return [scene.move["target_id"]]


def source(scene: Scene) -> list[str]:
    """The host that the move comes from."""
    return [scene.move["source_id"]]


def other_target(scene: Scene) -> list[str]:
    """The host that the move goes to, unless it is where the server is already."""
    return [] if scene.same_host else target(scene)


def other_source(scene: Scene) -> list[str]:
    """The host that the move comes from, unless the server stays on it."""
    return [] if scene.same_host else source(scene)


def every_claimed_host(scene: Scene) -> list[str]:
    """Wherever the server may be, but for fenced hosts that it left: they are asked already."""
    return sorted({claim.host_id for claim in scene.claims if claim.role != "left"})


def nothing(scene: Scene) -> Facts:
    return {}


@dataclass(frozen=True)
class Errand:
    """What to ask of whom. `args` become the verb's arguments (see agent/driver.py)."""

    verb: str
    to: Callable[[Scene], list[str]]
    args: Callable[[Scene], Facts] = nothing


class _Nothing:
    """The undo of a line that changes nothing."""


NOTHING: Final = _Nothing()


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What users see while a line is being done."""

    event: str | None = None
    task: str | None = None
    migration: str | None = None


@dataclass(frozen=True)
class Write(Shown):
    """Change the ledger in the transaction that moves on; what `do` returns joins the move's facts."""

    name: str
    do: Callable[[Tx, Scene], Facts | None]
    undo: Callable[[Tx, Scene], Facts | None] | _Nothing | None = None


@dataclass(frozen=True)
class Place(Shown):
    """Claim a host for the server as `target`; undone by giving the claim up."""

    name: str
    leaves_source: bool = True  # whether the server must not stay where it is
    whole: bool = False  # for every member of its group, at once


@dataclass(frozen=True)
class Ask(Shown):
    """Ask agents and wait for all their answers. `decides`: if the answer is lost, whether the
    move goes on or back depends on who runs the guest, so the agents are asked that first."""

    name: str
    errand: Errand
    undo: Errand | _Nothing | None = None
    long: bool = False  # sends memory or disks, so it may take long
    decides: bool = False


@dataclass(frozen=True)
class Call(Shown):
    """Ask a neighbour. `then` writes what came of it, in the transaction that moves on; what it
    returns joins the move's facts. When only the host is changed its work is kept, since a
    repeated call is answered alike. `needless`: for such a move there is nothing to ask and to write."""

    name: str
    do: Callable[[Neighbours, Scene], Awaitable[Any]]
    undo: Callable[[Neighbours, Scene], Awaitable[None]] | _Nothing | None = None
    then: Callable[[Tx, Scene, Any], Facts | None] | None = None
    needless: Callable[[Scene], bool] | None = None


@dataclass(frozen=True)
class Park(Shown):
    """The move waits; its continuations are other playbooks."""

    name: str


@dataclass(frozen=True)
class PointOfNoReturn:
    """From here on the move goes forward, whatever happens. `because` says why."""

    because: str


Line = Write | Place | Ask | Call | Park


@dataclass(frozen=True, init=False)
class Playbook:
    """A move as a literal list. `ends` is the migration's status once it is done; `failed`
    writes what remains of a move that was walked back (a create leaves a server in error)."""

    name: str
    lines: tuple[Line, ...]
    no_return: int  # the number of the first line after the point of no return
    ends: str
    failed: Callable[[Tx, Scene], None] | None = field(default=None)

    def __init__(
        self,
        name: str,
        *lines: Line | PointOfNoReturn,
        ends: str = "completed",
        failed: Callable[[Tx, Scene], None] | None = None,
    ) -> None:
        marks = [i for i, line in enumerate(lines) if isinstance(line, PointOfNoReturn)]
        assert len(marks) == 1, f"{name}: exactly one point of no return"
        object.__setattr__(self, "name", name)
        object.__setattr__(
            self, "lines", tuple(line for line in lines if not isinstance(line, PointOfNoReturn))
        )
        object.__setattr__(self, "no_return", marks[0])
        object.__setattr__(self, "ends", ends)
        object.__setattr__(self, "failed", failed)
        for line in self.lines[: self.no_return]:
            assert isinstance(line, Place | Park) or getattr(line, "undo", None), (
                f"{name}: {line.name!r} comes before the point of no return and has no undo"
            )
        for line in self.lines[self.no_return :]:
            final = not isinstance(line, Place) and not getattr(line, "undo", None)
            assert final, f"{name}: {line.name!r} can no longer be undone"

    def line(self, number: int) -> Line:
        return self.lines[number]
