"""Moves as rows: progress and lease. What they mean is in `berthold.moves`.

M3: beginning a move and superseding one both hold the server's row first, and an index
allows a server one unfinished move. M4: a conductor works on a move while it holds its
lease; a lease that is not renewed ends, and another conductor takes the move at a higher
epoch. Every write of progress names the epoch, so a conductor that slept can write nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import and_, bindparam, select, update

from berthold.errors import NotFound, Stale, WrongState
from berthold.ledger import conditions, group_moves, outbox, queue, schema
from berthold.ledger.conditions import IS_UNFINISHED, IS_WORKED_ON
from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Tx, announce, clock_of, moment, now

move = schema.move
WORKED_ON = conditions.WORKED_ON

INSERT = Prepared(move.insert())
UNFINISHED = Prepared(select(move).where(move.c.server_id == bindparam("server"), IS_UNFINISHED))
LEASED = select(move).where(
    move.c.id == bindparam("move"),
    move.c.epoch == bindparam("epoch"),
    IS_WORKED_ON,
)
SEE, HOLD = Prepared(LEASED), Prepared(LEASED.with_for_update())
FIND = Prepared(select(move).where(move.c.id == bindparam("move")))
REMEMBER = Prepared(update(move).where(move.c.id == bindparam("of_move")).values(facts=bindparam("known")))
WRITE = Prepared(update(move).where(move.c.id == bindparam("of_move"), move.c.epoch == bindparam("at_epoch")))


@dataclass(frozen=True)
class Lease:
    """The right to write a move's progress: until somebody takes the move at a higher epoch. `about` is
    for the log: what is moved how, and who asked."""

    move_id: str
    epoch: int
    about: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)


def begin(
    tx: Tx,
    *,
    server_id: str,
    kind: str,
    playbook: str,
    wish: Mapping[str, Any],
    request_id: str,
    user_id: str,
    project_id: str,
    source_id: str | None = None,
    **part: Any,
) -> str:
    """A new move, for any conductor to take; its id. The caller holds the server's row. `part`: further
    columns of one that is a member's part of a whole-group move.

    Raises `WrongState` while the server has an unfinished move (M3).
    """
    if standing := unfinished(tx, server_id):
        raise WrongState(
            f"Cannot begin '{kind}' of instance {server_id} while its {standing['kind']} is"
            f" {standing['state']} (move {standing['id']})"
        )
    new, present = clock_of(tx).new_id(), moment(tx)
    row = {
        "id": new,
        "server_id": server_id,
        "kind": kind,
        "playbook": playbook,
        "state": "running",
        "line_since": present,
        "source_id": source_id,
        "wish": dict(wish),
        "request_id": request_id,
        "user_id": user_id,
        "project_id": project_id,
        "created_at": present,
        "updated_at": present,
        **part,
    }
    INSERT.change(tx, row)
    announce(tx, "moves")
    return new


def unfinished(tx: Tx, server_id: str) -> Mapping[str, Any] | None:
    """The server's one unfinished move, if it has one."""
    return UNFINISHED.mapping(tx, {"server": server_id})


def supersede(tx: Tx, server_id: str) -> Mapping[str, Any] | None:
    """M3: end the server's unfinished move where it stands; its claims are the caller's now.

    The caller holds the server's row. Whoever works on the move finds its lease `Stale`.
    """
    standing = unfinished(tx, server_id)
    if standing is None:
        return None
    tx.execute(
        update(move)
        .where(move.c.id == standing["id"], IS_UNFINISHED)
        .values(state="superseded", owner=None, epoch=move.c.epoch + 1, updated_at=now(tx))
    )
    outbox.void(tx, standing["id"])
    queue.leave(tx, standing["id"])
    if standing["group_move_id"]:
        announce(tx, group_moves.TOPIC)
    return standing


def resume(
    tx: Tx,
    move_id: str,
    *,
    playbook: str,
    request_id: str,
    facts: Mapping[str, Any],
    line: int = 0,
    **columns: Any,
) -> None:
    """Go on with a parked move: `playbook` is one of its continuations, which begins at `line`.

    Raises `WrongState`.
    """
    row = tx.execute(
        update(move)
        .where(move.c.id == move_id, move.c.state == "waiting")
        .values(
            playbook=playbook,
            state="running",
            line=line,
            attempt=0,
            until=0,
            facts=dict(facts),
            request_id=request_id,
            line_since=now(tx),
            updated_at=now(tx),
            **columns,
        )
        .returning(move.c.id)
    ).first()
    if row is None:
        raise WrongState(f"move {move_id} does not wait any more")
    announce(tx, "moves")


def recall(tx: Tx, move_id: str) -> None:
    """Let a move that is on its way forward turn back, if it still can; whoever works on it reads that."""
    row = tx.execute(select(move.c.state, move.c.facts).where(move.c.id == move_id).with_for_update()).first()
    if row is not None and row.state == "running":
        remember(tx, move_id, {**row.facts, "recalled": True})
        announce(tx, f"move:{move_id}")


def unstick(tx: Tx, move_id: str) -> None:
    """M6: an operator has repaired what kept the move: it goes on where it was, in the direction it
    had, and asks anew. Raises `NotFound`, or `WrongState` for a move that is not stuck."""
    row = tx.execute(select(move).where(move.c.id == move_id).with_for_update()).mappings().first()
    if row is None:
        raise NotFound(f"There is no move {move_id}.")
    if row["state"] != "stuck":
        raise WrongState(f"Move {move_id} is {row['state']}, not stuck: there is nothing to resume.")
    tx.execute(
        update(move)
        .where(move.c.id == move_id)
        .values(
            state=row["failure"]["was"],
            failure=row["failure"]["before"],
            # The answers that it got stuck on are in the slots of this round.
            facts={**row["facts"], "round": row["facts"].get("round", 0) + 1},
            attempt=0,
            until=0,
            line_since=now(tx),
            updated_at=now(tx),
        )
    )
    announce(tx, "moves")


def take(tx: Tx, owner: str, seconds: float, limit: int = 1) -> list[Lease]:
    """Lease up to `limit` moves that nobody works on, oldest first."""
    free = and_(IS_WORKED_ON, move.c.until < now(tx))
    ids = tx.execute(
        select(move.c.number)
        .where(free)
        .order_by(move.c.number)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).scalars()
    rows = tx.execute(
        update(move)
        .where(move.c.number.in_(list(ids)), free)
        .values(owner=owner, epoch=move.c.epoch + 1, until=now(tx) + seconds)
        .returning(move.c.id, move.c.epoch, move.c.server_id, move.c.kind, move.c.request_id)
    )
    return [
        Lease(
            row.id,
            row.epoch,
            {"server": row.server_id, "move": row.id, "kind": row.kind, "request": row.request_id},
        )
        for row in rows
    ]


def renew(tx: Tx, owner: str, leases: list[Lease], seconds: float) -> None:
    """Hold these leases for `seconds` more; those that were lost stay lost."""
    mine = update(move).where(
        move.c.owner == owner, move.c.id == bindparam("of_move"), move.c.epoch == bindparam("at_epoch")
    )
    held = [{"of_move": lease.move_id, "at_epoch": lease.epoch} for lease in leases]
    if held:
        tx.execute(mine.values(until=now(tx) + seconds), held)


def give_back(tx: Tx, lease: Lease, seconds: float = 0.0) -> None:
    """Let go of a lease; nobody takes the move for `seconds`."""
    tx.execute(
        update(move)
        .where(move.c.id == lease.move_id, move.c.epoch == lease.epoch, IS_WORKED_ON)
        .values(owner=None, until=now(tx) + seconds if seconds else 0)
    )
    if not seconds:
        announce(tx, "moves")


def call(tx: Tx, move_id: str) -> None:
    """There is news for a move that was let be: whoever is free takes it at once."""
    let_be = and_(move.c.id == move_id, move.c.owner.is_(None), IS_WORKED_ON)
    tx.execute(update(move).where(let_be).values(until=0))
    announce(tx, "moves")


def hold(tx: Tx, lease: Lease) -> Mapping[str, Any]:
    """The move's row, held until the transaction ends. Raises `Stale` when the lease is over (M5)."""
    row = HOLD.mapping(tx, {"move": lease.move_id, "epoch": lease.epoch})
    if row is None:
        raise Stale(f"move {lease.move_id} is not worked on at epoch {lease.epoch} any more")
    return row


def seen(tx: Tx, lease: Lease) -> Mapping[str, Any]:
    """The move's row, not held. Raises `Stale` when the lease is over."""
    row = SEE.mapping(tx, {"move": lease.move_id, "epoch": lease.epoch})
    if row is None:
        raise Stale(f"move {lease.move_id} is not worked on at epoch {lease.epoch} any more")
    return row


def remember(tx: Tx, move_id: str, facts: Mapping[str, Any]) -> None:
    """The facts that are known of a move. The caller holds its row, or began it in this transaction."""
    REMEMBER.change(tx, {"of_move": move_id, "known": dict(facts)})


def write(tx: Tx, lease: Lease, **columns: Any) -> None:
    """Write progress. The caller holds the row."""
    key = {"of_move": lease.move_id, "at_epoch": lease.epoch}
    written = WRITE.change(tx, {**key, "updated_at": moment(tx), **columns})
    assert written == 1, f"move {lease.move_id} was not held"


def find(tx: Tx, move_id: str) -> Mapping[str, Any] | None:
    return FIND.mapping(tx, {"move": move_id})
