"""The claim in one call: what `turns.place_line` does in steps, PostgreSQL does in a function.

The steps are some two dozen statements, and on PostgreSQL it is their number that makes the
claim slow. The plain claim is written by the function `place_4` (migrations/place_4.sql), in one
statement, with nothing else but such calls in its transaction (`SHARING`). All that does not depend
on what is locked is worked out here, from the move as its runner saw it: its next line, the ask of that line.

The function grants or declines, it never refuses. It declines what is not plain, what was
changed since it was seen, and what a promise forbids, and has written nothing then; the
steps follow in a transaction of theirs, and look for themselves. So there is one place that
says why something is refused, and nobody needs to know which of the two it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, Double, Text, bindparam, cast, func, select
from sqlalchemy.types import TypeEngine

from berthold.clock import Clock
from berthold.ledger import claims, moves, queue, schema, seats
from berthold.ledger.calls import Sharing
from berthold.ledger.store import Statement, Store
from berthold.moves import turns
from berthold.moves.outcome import LOOK_AGAIN_S, Outcome
from berthold.moves.playbook import Park, Scene
from berthold.moves.sight import book_of, errand_of, errands, line_of

# The engines that have the function.
ENGINES = frozenset({"postgresql"})

# What it is given, in its order. Documents are given as text.
GIVEN: Mapping[str, TypeEngine[Any]] = {
    "move": Text(),
    "epoch": BigInteger(),
    "line": BigInteger(),
    "seen_facts": Text(),
    "seen_server": Double(),
    "server": Text(),
    "host": Text(),
    "host_name": Text(),
    "host_epoch": BigInteger(),
    "claim": Text(),
    "role": Text(),
    **{column: BigInteger() for column in claims.AMOUNTS.values()},
    "wants": JSON(),
    "facts": JSON(),
    "action": BigInteger(),
    "event": Text(),
    "since": Double(),
    "at": Double(),
    "ask": Text(),
    "slot": Text(),
    "verb": Text(),
    "args": JSON(),
    "ticket": BigInteger(),
    "patient": Boolean(),
}


def _given(name: str, kind: TypeEngine[Any]) -> Any:
    if isinstance(kind, JSON):
        return cast(bindparam(name, type_=Text()), kind)
    return bindparam(name, type_=kind)


PLACE = select(func.place_4(*(_given(name, kind) for name, kind in GIVEN.items()), type_=Boolean))

# Claims that wait may share a transaction. Locks in the order of the steps: moves, then hosts by id.
SHARING = Sharing(
    select(schema.move.c.id).where(schema.move.c.id == bindparam("move")).with_for_update(), "move", "host"
)


@dataclass(frozen=True)
class Claiming:
    """A plain claim: the statement that takes it, and what is to be told and done once it is granted."""

    statement: Statement
    values: Mapping[str, Any]
    topics: tuple[str, ...]
    outcome: Outcome


async def place(store: Store, lease: moves.Lease, want: claims.Want, seen: Scene, host_name: str) -> Outcome:
    """`turns.place_line`, at once where that can be. `seen`: the move as its runner saw it."""
    plain = claiming(store, lease, want, seen, host_name)
    if plain and await store.call(plain.statement, plain.values, SHARING):
        store.bus.tell(plain.topics)
        return plain.outcome
    return await store.write(turns.place_line, lease, want)


def claiming(
    store: Store, lease: moves.Lease, want: claims.Want, seen: Scene, host_name: str
) -> Claiming | None:
    """The claim as one statement, if the engine has the function and the claim is plain."""
    if store.writer.dialect.name not in ENGINES or not _is_plain(seen, want):
        return None
    found = _values(store.clock, lease, want, seen, host_name)
    if found is None:
        return None
    values, after = found
    asks = (f"asks:{want.host_id}",) if values["ask"] else ()
    outcome = Outcome("running", wait_s=LOOK_AGAIN_S) if asks else Outcome("running", scene=after)
    return Claiming(PLACE, values, (f"host:{want.host_id}", *asks), outcome)


def _is_plain(seen: Scene, want: claims.Want) -> bool:
    """A claim of a server without a group or of an anti-affinity group that has not waited; another
    line comes after it."""
    ruled = {"none": None, "anti-affinity": seats.take_seat}
    rule = seen.server["rule"]
    if seen.facts.get("waits") or rule not in ruled:
        return False
    if seats.RULES.get(rule) is not ruled[rule] or want.group_generation is not None:
        return False
    lines, number = book_of(seen).lines, seen.move["line"] + 1
    return number < len(lines) and not isinstance(lines[number], Park)


def _values(
    clock: Clock, lease: moves.Lease, want: claims.Want, seen: Scene, host_name: str
) -> tuple[dict[str, Any], Scene] | None:
    """What is to be true before and what is to be written, and the scene then. None where other hosts
    are asked too."""
    amounts = claims.columns_of(want.resources)
    if amounts is None:
        return None
    claim_id, present = clock.new_id(), clock.now()
    facts = {**seen.facts, "locating": False}
    after = _after(seen, want, facts, present, claim_id, host_name)
    asked, errand = errands(after), errand_of(after)
    if any(host_id != want.host_id for _, host_id in asked):
        return None
    values = {
        "move": seen.id,
        "epoch": lease.epoch,
        "line": seen.move["line"],
        "seen_facts": json.dumps(seen.facts),
        "seen_server": seen.server["updated_at"],
        "server": want.server_id,
        "host": want.host_id,
        "host_name": host_name,
        "host_epoch": want.host_epoch,
        "claim": claim_id,
        "role": want.role,
        **amounts,
        "wants": json.dumps(dict(want.resources)),
        "facts": json.dumps(facts),
        "action": seen.facts["action"],
        "event": line_of(seen).event,
        "since": seen.move["line_since"],
        "at": present,
        "ask": clock.new_id() if asked else None,
        "slot": asked[0][0] if asked else None,
        "verb": errand[1].verb if asked and errand else None,
        "args": json.dumps(errand[1].args(after)) if asked and errand else None,
        "ticket": queue.LAST if want.ticket is None else want.ticket,
        "patient": want.patient,
    }
    return values, after


def _after(
    seen: Scene, want: claims.Want, facts: Mapping[str, Any], present: float, claim_id: str, host_name: str
) -> Scene:
    """The scene once the claim is taken."""
    move = {"line": seen.move["line"] + 1, "attempt": 0, "line_since": present, "updated_at": present}
    claim = claims.Claim(claim_id, want.server_id, want.host_id, host_name, "up", want.role, want.move_id)
    changed = {**seen.move, **move, "target_id": want.host_id, "facts": facts}
    return Scene(changed, seen.server, (*seen.claims, claim))
