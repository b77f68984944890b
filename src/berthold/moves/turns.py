"""The transactions of a move: each ends one line and begins the next, forward or back.

Everything that a line did, what users may read of it (the event), the move's progress and
the asks of the next line are written together or not at all. Every function here runs
inside a transaction that holds the move's row at the caller's lease.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from berthold.ledger import claims, group_moves, moves, outbox, queue
from berthold.ledger.store import Tx, announce, moment
from berthold.moves import steps, waiting
from berthold.moves.outcome import LOOK_AGAIN_S, Outcome, Trouble
from berthold.moves.playbook import Call, Park, Place, Scene, Write
from berthold.moves.sight import (
    book_of,
    can_act,
    can_return,
    errand_of,
    errands,
    hold,
    is_aborted,
    line_of,
    scene_of,
)
from berthold.records import actions, tallies
from berthold.settings import Settings

# -- Asks ---------------------------------------------------------------------------------


def send(tx: Tx, scene: Scene) -> None:
    """Write the asks that the line rests on, but for those that are written already."""
    found = errand_of(scene)
    if found is None:
        return
    errand = found[1]
    for slot, host_id in errands(scene):
        if not can_act(scene, host_id):
            continue
        outbox.send(
            tx,
            move_id=scene.id,
            slot=slot,
            server_id=scene.server["id"],
            host_id=host_id,
            verb=errand.verb,
            args=errand.args(scene),
        )


def _give_up_on_fenced(tx: Tx, scene: Scene) -> None:
    """M5: what a fenced host was asked and nobody waits for, it must not do when it returns either: by
    then the server may have been evacuated from it."""
    if unanswered := [slot for slot, host_id in errands(scene) if not can_act(scene, host_id)]:
        outbox.void(tx, scene.id, unanswered)


# -- Forward ------------------------------------------------------------------------------


def end_line(
    tx: Tx,
    lease: moves.Lease,
    scene: Scene,
    facts: Mapping[str, Any] | None = None,
    *,
    fresh: bool = False,
    **columns: Any,
) -> Outcome:
    """The line is done: write its event, then begin the next line, park, or end the move. `fresh`: server
    and claims are still as the scene shows them."""
    _give_up_on_fenced(tx, scene)
    book, number = book_of(scene), scene.move["line"] + 1
    columns["facts"] = {**scene.facts, "locating": False, **(facts or {})}
    _tell(tx, scene, {**scene.move, **columns})
    if number == len(book.lines):
        return _end(tx, lease, scene, "done", **columns)
    if isinstance(book.lines[number], Park):
        return _end(tx, lease, scene, "waiting", line=number, **columns)
    return _begin(tx, lease, scene, line=number, fresh=fresh, **columns)


def write_line(tx: Tx, lease: moves.Lease) -> Outcome:
    """Do a `Write`."""
    scene = hold(tx, lease)
    line = line_of(scene)
    assert isinstance(line, Write)
    return end_line(tx, lease, scene, line.do(tx, scene))


def call_line(tx: Tx, lease: moves.Lease, made: Any) -> Outcome:
    """A neighbour has answered a `Call`."""
    scene = hold(tx, lease)
    line = line_of(scene)
    assert isinstance(line, Call)
    if line.then is None:
        return end_line(tx, lease, scene, fresh=True)
    return end_line(tx, lease, scene, line.then(tx, scene, made))


def send_line(tx: Tx, lease: moves.Lease) -> Outcome:
    """Ask what the line needs and nobody has asked yet: it is the first of its list."""
    scene = hold(tx, lease)
    send(tx, scene)
    return Outcome(scene.move["state"])


def ask_line(tx: Tx, lease: moves.Lease) -> Outcome:
    """All asks of the line are answered well."""
    return end_line(tx, lease, hold(tx, lease), fresh=True)


def place_line(tx: Tx, lease: moves.Lease, want: claims.Want) -> Outcome:
    """Claim the candidate and move on, together. Raises `Refused`, with nothing written."""
    scene = hold(tx, lease)
    claims.take(tx, [want])
    if want.gave_way:
        tallies.count(tx, tallies.SOFT_GAVE_WAY)
    scene = waiting.end(tx, scene)
    return end_line(tx, lease, scene_of(tx, scene.move), fresh=True, target_id=want.host_id)


def wait_for_place(
    tx: Tx, lease: moves.Lease, prospects: Mapping[str, waiting.Prospect], seconds: float
) -> Outcome | None:
    """M7: stand in the queue for these hosts, and let the move be until one of them changes. None if what
    it would wait for has begun to wait meanwhile: look again."""
    scene = hold(tx, lease)
    queue.alone(tx)
    if queue.waiting(tx, {move_id for each in prospects.values() for move_id in each.blockers}):
        return None
    rooms = {host_id: each.room for host_id, each in prospects.items()}
    queue.stand(tx, scene.id, scene.move["number"], waiting.group_waited_for(scene), rooms, seconds)
    told = waiting.waits(scene, prospects, moment(tx))
    if told != scene.facts.get("waits"):
        moves.write(tx, lease, facts={**scene.facts, "waits": told})
    wait_s = min(LOOK_AGAIN_S, seconds)
    moves.give_back(tx, lease, wait_s)
    news = (f"move:{scene.id}", *(f"host:{host_id}" for host_id in prospects))
    return Outcome(scene.move["state"], wait_s=wait_s, later=True, news=news)


def put_off(tx: Tx, lease: moves.Lease, seconds: float) -> Outcome:
    """Nothing can be done for the move now; any conductor tries again in `seconds`."""
    state = moves.hold(tx, lease)["state"]
    moves.give_back(tx, lease, seconds)
    return Outcome(state, wait_s=seconds, later=True)


def locate(tx: Tx, lease: moves.Lease, trouble: Trouble) -> Outcome:
    """The answer that decides is lost or bad: ask both hosts who runs the guest before choosing."""
    scene = hold(tx, lease)
    outbox.void(tx, scene.id, [slot for slot, _ in errands(scene)])
    facts = {**scene.facts, "locating": True, "doubt": trouble.message, "doubted": dict(trouble.hosts)}
    return _begin(tx, lease, scene, line=scene.move["line"], facts=facts)


def _begin(
    tx: Tx,
    lease: moves.Lease,
    scene: Scene,
    *,
    line: int,
    attempt: int = 0,
    state: str = "running",
    fresh: bool = False,
    **columns: Any,
) -> Outcome:
    """Begin a line, on the way forward or back, and ask at once what it has to ask."""
    columns |= {"line": line, "attempt": attempt, "state": state, "line_since": moment(tx)}
    moves.write(tx, lease, **columns)
    scene = replace(scene, move={**scene.move, **columns})
    if errand_of(scene) is None and state == "undoing":
        return Outcome(state)
    if not fresh:
        scene = scene_of(tx, scene.move)
    if errand_of(scene) is None:
        return Outcome(state, scene=scene)
    send(tx, scene)
    waits = any(can_act(scene, host_id) for _, host_id in errands(scene))
    return Outcome(state, wait_s=LOOK_AGAIN_S if waits else 0.0)


def _end(
    tx: Tx, lease: moves.Lease, scene: Scene, state: str, *, failed: bool = False, **columns: Any
) -> Outcome:
    moves.write(tx, lease, state=state, owner=None, until=0, **columns)
    if action := scene.facts.get("action"):
        actions.end(tx, action, failed=failed)
    if abort := scene.facts.get("abort"):
        _end_abort(tx, scene, abort, too_late=not failed)
    if scene.move["group_move_id"]:
        announce(tx, group_moves.TOPIC)
    announce(tx, f"server:{scene.server['id']}")
    there = scene.move["source_id"] if failed else columns.get("target_id", scene.move["target_id"])
    return Outcome(state, host=scene.host_name(there or scene.move["source_id"]))


def _end_abort(tx: Tx, scene: Scene, abort: Mapping[str, Any], *, too_late: bool) -> None:
    """Tell whoever aborted the move what came of that."""
    actions.record(
        tx,
        abort["action"],
        "compute_live_migration_abort",
        since=abort["since"],
        host=scene.host_name(scene.move["source_id"]),
        details="The abort came too late: the guest ran on its new host already." if too_late else None,
    )
    actions.end(tx, abort["action"], failed=too_late)


# -- Trouble and the way back -------------------------------------------------------------


def fail_line(tx: Tx, lease: moves.Lease, trouble: Trouble, settings: Settings) -> Outcome:
    """Above the point of no return: begin the way back with this very line. Below it: try again."""
    scene = waiting.end(tx, hold(tx, lease), trouble.message)
    if not can_return(scene):
        return _retry(tx, lease, scene, trouble, settings)
    _tell(tx, scene, scene.move, trouble)
    outbox.void(tx, scene.id, [slot for slot, _ in errands(scene)])
    tried = dict(scene.facts.get("tried", {}))
    if target := scene.move["target_id"]:
        tried[target] = trouble.against(scene.host_name(target))
    again = trouble.again and _may_go_elsewhere(scene) and len(tried) < settings.hosts_tried_max
    return _begin(
        tx,
        lease,
        scene,
        state="undoing",
        line=_begin_of_way_back(scene),
        failure={**trouble.document(), "aborted": is_aborted(scene), **steps.group_there(tx, scene)},
        facts={**scene.facts, "locating": False, "tried": tried, "again": again},
    )


def _begin_of_way_back(scene: Scene) -> int:
    """The line that failed; or the last call below it whose work was kept when a host was left."""
    failed: int = scene.move["line"]
    if not scene.facts.get("round"):
        return failed
    book = book_of(scene)
    calls = [n for n, line in enumerate(book.lines[: book.no_return]) if isinstance(line, Call) and line.undo]
    return max(failed, *calls) if calls else failed


def _may_go_elsewhere(scene: Scene) -> bool:
    """Whether the move chose its host itself, and nobody wants it undone."""
    chosen = any(isinstance(line, Place) for line in book_of(scene).lines[: scene.move["line"] + 1])
    return chosen and not scene.wish.get("host") and not scene.facts.get("abort")


def undo_line(tx: Tx, lease: moves.Lease) -> Outcome:
    """The line is undone (its asks and calls are answered): write that, and go one line back."""
    scene = hold(tx, lease)
    _give_up_on_fenced(tx, scene)
    line = line_of(scene)
    if isinstance(line, Write) and callable(line.undo):
        line.undo(tx, scene)
    if isinstance(line, Place):
        return _leave_place(tx, lease, scene)
    return _step_back(tx, lease, scene)


def _leave_place(tx: Tx, lease: moves.Lease, scene: Scene) -> Outcome:
    steps.release_target(tx, scene)
    if scene.facts.get("again"):
        facts = {**scene.facts, "again": False, "round": scene.facts.get("round", 0) + 1}
        return _begin(tx, lease, scene, line=scene.move["line"], facts=facts, target_id=None)
    return _step_back(tx, lease, scene)


def _step_back(tx: Tx, lease: moves.Lease, scene: Scene) -> Outcome:
    number = scene.move["line"] - 1
    if number >= 0 and isinstance(book_of(scene).lines[number], Park):
        return _end(tx, lease, scene, "waiting", failed=True, line=number)
    if number >= 0:
        return _begin(tx, lease, scene, state="undoing", line=number)
    if failed := book_of(scene).failed:
        failed(tx, scene)
    return _end(tx, lease, scene, "undone", failed=True)


def retry_undo(tx: Tx, lease: moves.Lease, trouble: Trouble, settings: Settings) -> Outcome:
    """The way back must be gone: try this line's undo again, a little later."""
    return _retry(tx, lease, hold(tx, lease), trouble, settings)


def _retry(tx: Tx, lease: moves.Lease, scene: Scene, trouble: Trouble, settings: Settings) -> Outcome:
    """What must succeed is tried again, each time a little later; in the end an operator is called."""
    attempt = scene.move["attempt"] + 1
    state = scene.move["state"]
    if attempt >= settings.tries_max:
        # `moves.unstick` goes on from here: it wants to know what was being done, and why.
        failure = {**trouble.document(), "was": state, "before": scene.move["failure"]}
        moves.write(tx, lease, state="stuck", owner=None, until=0, failure=failure)
        return Outcome("stuck")
    _begin(tx, lease, scene, attempt=attempt, state=state, line=scene.move["line"])
    seconds = min(settings.retry_first_s * 2 ** min(attempt - 1, 10), settings.retry_last_s)
    moves.give_back(tx, lease, seconds)
    return Outcome(state, later=True)


def _tell(tx: Tx, scene: Scene, move: Mapping[str, Any], trouble: Trouble | None = None) -> None:
    """Write the line's event, if it has one that users know. Trouble is told in any case, as of the event
    that was to follow: a volume or a port that cannot be had is part of attaching it."""
    book, number = book_of(scene), scene.move["line"]
    ahead = book.lines[number : book.no_return] if trouble else book.lines[number : number + 1]
    event = next((line.event for line in ahead if line.event), None)
    if event is None:
        return
    actions.record(
        tx,
        scene.facts["action"],
        event,
        since=move["line_since"],
        host=scene.host_name(move["target_id"] or move["source_id"]),
        details=trouble.message if trouble else None,
        traceback=trouble.trace if trouble else None,
    )
