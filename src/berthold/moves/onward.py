"""Several lines of a move in one transaction: those that follow and ask nobody go with the one before.

A line that only writes needs no look and no transaction of its own, nor does a call for which there
is nothing to ask. What is written is what the lines write one after another, in the same order. If
any of it fails all of it is undone, and the runner goes line by line, so that each line meets its
own trouble at its own place in the list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from berthold.ledger import moves, outbox
from berthold.ledger.store import Tx
from berthold.moves.outcome import Outcome
from berthold.moves.playbook import Ask, Call, Write
from berthold.moves.sight import can_act, errands, hold, is_aborted, line_of
from berthold.moves.turns import end_line


def and_on(tx: Tx, lease: moves.Lease, turn: Callable[..., Outcome], *args: Any) -> Outcome:
    """`turn`, which ends a line, and what follows it."""
    return _on(tx, lease, turn(tx, lease, *args))


def answered(tx: Tx, lease: moves.Lease) -> Outcome | None:
    """`turns.ask_line` and what follows it, if all that was asked is answered well. None if not: nothing
    is written then, and a look will show why."""
    scene = hold(tx, lease)
    if not isinstance(line_of(scene), Ask) or scene.move["state"] != "running":
        return None
    if is_aborted(scene) or scene.facts.get("locating"):
        return None
    wanted = errands(scene)
    good = {ask.slot for ask in outbox.of_slot(tx, scene.id, [slot for slot, _ in wanted]) if ask.is_good}
    if not all(slot in good and can_act(scene, host_id) for slot, host_id in wanted):
        return None
    return _on(tx, lease, end_line(tx, lease, scene, fresh=True))


def _on(tx: Tx, lease: moves.Lease, outcome: Outcome) -> Outcome:
    while (scene := outcome.scene) is not None and not is_aborted(scene):
        line = line_of(scene)
        if isinstance(line, Write):
            outcome = end_line(tx, lease, scene, line.do(tx, scene))
        elif isinstance(line, Call) and line.needless and line.needless(scene):
            outcome = end_line(tx, lease, scene, fresh=True)
        else:
            break
    return outcome
