"""A move as its runner sees it: where it stands in its list, and which asks that line rests on.

Nothing is written here. What ends a line and begins the next is in turns.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from berthold.ledger import moves, outbox, servers, view
from berthold.ledger.store import Tx
from berthold.moves.books import PLAYBOOKS
from berthold.moves.playbook import Ask, Errand, Line, Playbook, Scene


@dataclass(frozen=True)
class Sight:
    """A move as the runner sees it: its scene, what was asked for its line and whether that is all
    that the line needs, and when each host that has not answered was last heard."""

    scene: Scene
    asks: tuple[outbox.Sent, ...] = ()
    all_sent: bool = True
    heard_at: Mapping[str, float] = field(default_factory=dict)


def book_of(scene: Scene) -> Playbook:
    return PLAYBOOKS[scene.move["playbook"]]


def line_of(scene: Scene) -> Line:
    number: int = scene.move["line"]
    return book_of(scene).lines[number]


def can_return(scene: Scene) -> bool:
    """Whether the move is still above its point of no return."""
    number: int = scene.move["line"]
    return number < book_of(scene).no_return


def is_aborted(scene: Scene) -> bool:
    """Whether somebody wants the move undone and it still can be."""
    return bool(scene.facts.get("abort") or scene.facts.get("recalled")) and can_return(scene)


def scene_of(tx: Tx, row: Mapping[str, Any]) -> Scene:
    found = servers.with_claims(tx, row["server_id"])
    assert found is not None, f"move {row['id']} has no server"
    return Scene(row, *found)


def hold(tx: Tx, lease: moves.Lease) -> Scene:
    """The scene, with the move's row held. Raises `Stale` when the lease is over."""
    return scene_of(tx, moves.hold(tx, lease))


def look(tx: Tx, lease: moves.Lease) -> Sight:
    """The scene without holding anything. Raises `Stale` when the lease is over."""
    scene = scene_of(tx, moves.seen(tx, lease))
    slots = [slot for slot, _ in errands(scene)]
    if not slots:
        return Sight(scene)
    asks = tuple(ask for ask in outbox.of_slot(tx, scene.id, slots) if can_act(scene, ask.host_id))
    unanswered = [ask.host_id for ask in asks if ask.state == "open"]
    all_sent = {ask.slot for ask in asks} >= {
        slot for slot, host_id in errands(scene) if can_act(scene, host_id)
    }
    return Sight(scene, asks, all_sent, view.heard(tx, unanswered) if unanswered else {})


# -- Errands: which asks a line rests on --------------------------------------------------


def errand_of(scene: Scene) -> tuple[str, Errand] | None:
    """What the move's agents are to do now, with the word that tells its asks from others."""
    line = line_of(scene)
    if not isinstance(line, Ask):
        return None
    if scene.move["state"] == "undoing":
        return ("undo", line.undo) if isinstance(line.undo, Errand) else None
    if scene.facts.get("locating"):
        return "locate", Errand("locate", _both_ends)
    return "do", line.errand


def _both_ends(scene: Scene) -> list[str]:
    return sorted({host for host in (scene.move["source_id"], scene.move["target_id"]) if host})


def errands(scene: Scene) -> list[tuple[str, str]]:
    """(slot, host id) of each ask that the line rests on, in its present attempt."""
    found = errand_of(scene)
    if found is None:
        return []
    word, errand = found
    move = scene.move
    prefix = f"{move['playbook']}/{scene.facts.get('round', 0)}/{move['line']}/{word}/{move['attempt']}"
    # A move that has left its target and found no other asks nothing of it.
    return [(f"{prefix}/{host_id}", host_id) for host_id in errand.to(scene) if host_id]


def can_act(scene: Scene, host_id: str) -> bool:
    """M5: a fenced host cannot, so nothing is asked of it and nobody waits for its answer."""
    return not any(claim.host_id == host_id and claim.host_status == "fenced" for claim in scene.claims)
