"""Asks: what agents are asked to do, written in the transaction that decides it.

An ask is never taken back from an agent that already has it. Instead every ask carries
`seq`, unique and rising on its host, and an agent ignores an ask for a server that is older
than what it has begun for it. M5: an answer is recorded once, at the host's own epoch, and
changes nothing else; the runner draws the conclusions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, delete, select, update

from berthold.ledger import schema
from berthold.ledger.conditions import IS_OPEN
from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Tx, announce, clock_of, moment

ask = schema.ask
host = schema.host

INSERT = Prepared(ask.insert())
ASKED = Prepared(select(ask.c.id).where(ask.c.move_id == bindparam("move"), ask.c.slot == bindparam("slot")))
NUMBER = Prepared(
    update(host)
    .where(host.c.id == bindparam("host"))
    .values(asks=host.c.asks + 1)
    .returning(host.c.asks, host.c.epoch)
)
SENT = select(ask.c.id, ask.c.slot, ask.c.host_id, ask.c.verb, ask.c.state, ask.c.answer).where(
    ask.c.move_id == bindparam("move")
)
OF_SLOTS = SENT.where(ask.c.slot.in_(bindparam("slots", expanding=True)))
OF_ONE_SLOT = Prepared(SENT.where(ask.c.slot == bindparam("slot")))
OPEN = Prepared(select(ask).where(IS_OPEN, ask.c.host_id == bindparam("host")).order_by(ask.c.seq))
HOSTS_ASKED = Prepared(select(ask.c.host_id).where(IS_OPEN).distinct())
ANSWER = Prepared(
    update(ask)
    .where(ask.c.id == bindparam("ask"), ask.c.host_id == bindparam("of_host"), ask.c.state == "open")
    .values(state="done", answer=bindparam("answer"), answered_at=bindparam("answered_at"))
    .returning(ask.c.move_id, ask.c.slot)
)


@dataclass(frozen=True)
class Sent:
    """An ask as the runner sees it again. `state`: open, done or void."""

    id: str
    slot: str
    host_id: str
    verb: str
    state: str
    answer: Mapping[str, Any]

    @property
    def is_good(self) -> bool:
        """Whether it was done."""
        return self.state == "done" and bool(self.answer.get("ok"))


def send(
    tx: Tx, *, move_id: str, slot: str, server_id: str, host_id: str, verb: str, args: Mapping[str, Any]
) -> None:
    """Ask the host's agent to do `verb`. Repeated for the same slot it asks nothing new."""
    if ASKED.row(tx, {"move": move_id, "slot": slot}):
        return
    numbered = NUMBER.row(tx, {"host": host_id})
    assert numbered is not None, f"there is no host {host_id}"
    number, epoch = numbered
    row = {
        "id": clock_of(tx).new_id(),
        "move_id": move_id,
        "slot": slot,
        "server_id": server_id,
        "host_id": host_id,
        "host_epoch": epoch,
        "seq": number,
        "verb": verb,
        "args": dict(args),
        "asked_at": moment(tx),
    }
    INSERT.change(tx, row)
    announce(tx, f"asks:{host_id}")


def of_slot(tx: Tx, move_id: str, slots: Iterable[str]) -> list[Sent]:
    """What was asked for these slots, and what came of it."""
    wanted = list(slots)
    if len(wanted) == 1:
        return [Sent(*row) for row in OF_ONE_SLOT.rows(tx, {"move": move_id, "slot": wanted[0]})]
    return [Sent(*row) for row in tx.execute(OF_SLOTS, {"move": move_id, "slots": wanted})]


def all_of(tx: Tx, move_id: str) -> list[Sent]:
    """Everything that was ever asked for the move, of each host in the order in which it was asked."""
    columns = ask.c.id, ask.c.slot, ask.c.host_id, ask.c.verb, ask.c.state, ask.c.answer
    rows = select(*columns).where(ask.c.move_id == move_id).order_by(ask.c.host_id, ask.c.seq)
    return [Sent(*row) for row in tx.execute(rows)]


def open_for(tx: Tx, host_id: str) -> list[dict[str, Any]]:
    """What the host has not yet answered, oldest first."""
    return OPEN.mappings(tx, {"host": host_id})


def hosts_asked(tx: Tx) -> list[str]:
    """Every host that has something to answer."""
    return [host_id for (host_id,) in HOSTS_ASKED.rows(tx, {})]


def record_answer(tx: Tx, ask_id: str, host_id: str, answer: Mapping[str, Any]) -> tuple[str, str] | None:
    """Write an answer down, once; if this was the first, (move, slot) of its ask. The caller has
    checked the epoch."""
    heard = {"ask": ask_id, "of_host": host_id, "answer": dict(answer), "answered_at": moment(tx)}
    row = ANSWER.row(tx, heard)
    if row is None:
        return None
    of_move, slot = row
    announce(tx, f"move:{of_move}")
    return of_move, slot


def void(tx: Tx, move_id: str, slots: Iterable[str] | None = None) -> None:
    """Nobody waits for these answers any more (all of the move's where `slots` is None)."""
    mine = [ask.c.move_id == move_id, ask.c.state == "open"]
    if slots is not None:
        mine.append(ask.c.slot.in_(list(slots)))
    tx.execute(update(ask).where(*mine).values(state="void"))


def forget(tx: Tx, move_id: str) -> None:
    """Remove all asks of a look (see `moves/look.py`): nobody needs them any more. An answer that comes
    later finds nothing. A move's own asks stay."""
    tx.execute(delete(ask).where(ask.c.move_id == move_id))


def readdress(tx: Tx, host_id: str, epoch: int) -> None:
    """The host acts at `epoch` now: what it has not answered is asked of it at that epoch."""
    tx.execute(update(ask).where(ask.c.host_id == host_id, IS_OPEN).values(host_epoch=epoch))
    announce(tx, f"asks:{host_id}")
