"""Who goes when an affinity group moves as a whole, and what keeps it from going.

Only what is in flight is worth waiting for (M7): a member whose move has yet to end, unless that
waits itself. All else is at rest until somebody changes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from berthold.errors import NotFound, WrongState
from berthold.ledger import claims, group_moves, moves, schema, servers, view
from berthold.ledger.store import Tx
from berthold.moves.begin import By

Row = Mapping[str, Any]

CAN_GO = frozenset({"active", "stopped"})
# Of a move that ends one way or the other; one that is stuck does not.
ENDS = frozenset(schema.UNFINISHED) - {"stuck"}


@dataclass(frozen=True)
class Problem:
    """Why the group cannot go now, in the name of a member. If there is a `move`, that will be over by
    itself, and then this is."""

    name: str
    says: str
    move: Row | None = None


@dataclass(frozen=True)
class Departure:
    """A group that is to move: its row, the host it lives on, and who goes."""

    group: Row
    source: claims.Claim
    servers: tuple[Row, ...]


@dataclass(frozen=True)
class Outlook:
    """Who would go (nobody, if none is on a host), and why not now."""

    group: Row
    going: Departure | None
    problems: tuple[Problem, ...]

    @property
    def ready(self) -> Departure:
        """Who goes. Raises what `refusal` says."""
        if self.problems or self.going is None:
            raise self.refusal()
        return self.going

    def refusal(self) -> WrongState:
        """Why not; it names each member that cannot go and why."""
        if not self.problems:
            return WrongState(f"Group {self.group['name']} cannot move: none of its members is on a host.")
        why = "; ".join(problem.says for problem in self.problems)
        return WrongState(f"Group {self.group['name']} cannot move now: {why}.")

    @property
    def may_yet_go(self) -> bool:
        """Whether only moves that will be over are in the way of those who would go."""
        return self.going is not None and all(problem.move for problem in self.problems)


def departure(
    tx: Tx, group_id: str, by: By, members: Iterable[Row] | None = None, waited: str | None = None
) -> Departure:
    """The group, if it can move as a whole. `members`: their rows, where the caller holds them; `waited`:
    the group move that has waited for this, if one has.

    Raises `NotFound`; `WrongState`, which names each member that cannot go and why. Whoever has no
    place (it is shelved and offloaded, or was never built) stays as it is.
    """
    if members is None:
        return outlook(tx, group_id, by, waited).ready
    return _outlook(tx, _group(tx, group_id), by, members, waited).ready


def outlook(tx: Tx, group_id: str, by: By, waited: str | None = None) -> Outlook:
    """The same, with all that is in its way. Raises `NotFound`; `WrongState` for a group that is on its way
    or waits already, and for one that never moves."""
    group = _group(tx, group_id)
    _must_stand(tx, group, waited)
    return _outlook(tx, group, by, servers.of_group(tx, group_id), waited)


def _group(tx: Tx, group_id: str) -> Row:
    group = view.group_of(tx, group_id)
    if group is None:
        raise NotFound(f"Instance group {group_id} could not be found.")
    if group["policy"] != "affinity":
        raise WrongState(
            f"Group {group['name']} cannot move as a whole: its policy is {group['policy']}, and only the"
            " members of an affinity group share a host."
        )
    return group


def _outlook(tx: Tx, group: Row, by: By, members: Iterable[Row], waited: str | None) -> Outlook:
    homes = [(row, claims.home_of(tx, row["id"])) for row in members]
    problems = [_problem(tx, row, home, by, waited) for row, home in homes]
    going = [(row, home) for row, home in homes if home is not None]
    departing = Departure(group, going[0][1], tuple(row for row, _ in going)) if going else None
    return Outlook(group, departing, tuple(each for each in problems if each))


def _must_stand(tx: Tx, group: Row, waited: str | None) -> None:
    """A group on its way is said to be so once, not member by member."""
    whole = group_moves.latest(tx, group["id"])
    if whole is None or whole["state"] == "done":
        return
    if group["moving"]:
        way = "back" if whole["goal_id"] == whole["source_id"] else "already"
        why = f"the group is on its way {way} (group move {whole['id']})"
        raise WrongState(f"Group {group['name']} cannot move now: {why}.")
    if whole["state"] == "waiting" and whole["id"] != waited:
        raise WrongState(
            f"Group {group['name']} cannot move now: it waits for a host already (group move {whole['id']})."
            " Let it, or take that back."
        )


def _problem(tx: Tx, server: Row, home: claims.Claim | None, by: By, waited: str | None) -> Problem | None:
    """Why this member keeps its group from moving, if it does."""
    move = moves.unfinished(tx, server["id"])
    name, named = server["name"], f"{server['name']} ({server['id']})"
    if move and (waited is None or move["group_move_id"] != waited):
        says = f"the {move['kind']} of {named} is {move['state']}"
        return Problem(name, says, move if move["state"] in ENDS else None)
    if home is None:
        return None
    if server["condition"] not in CAN_GO:
        return Problem(name, f"{named} is {server['condition']}, and can only go active or stopped")
    if server["locked"] and not by.is_admin:
        return Problem(name, f"{named} is locked")
    if home.host_status == "fenced":
        return Problem(name, f"the host of {named} is fenced: evacuate it")
    return None
