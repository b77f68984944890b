"""Looking at a guest: asks that are no moves.

A look changes nothing, so it needs no move, no lease and no place in the server's line: it is an
ask of its own, answered beside whatever else goes on, and its row goes with the answer.
Any control process may ask, whichever of them the agent calls.
"""

from __future__ import annotations

import structlog

from berthold.errors import Unavailable, WrongState
from berthold.ledger import claims, outbox
from berthold.ledger.store import Store, Tx, clock_of

log = structlog.get_logger("berthold.moves")

SLOT = "look"
WAIT_S = 10.0


async def console(store: Store, server_id: str, lines: int | None, *, wait_s: float = WAIT_S) -> str:
    """What the server's guest has written to its console, the last `lines` of it (None: all).

    The caller has found the server and may see it. Raises `WrongState` for a server on no host and
    for a guest without a console, `Unavailable` when its host does not answer in `wait_s` seconds.
    """
    look = await store.write(ask_console, server_id, lines)
    until = store.clock.now() + wait_s
    try:
        with store.bus.subscribe(f"move:{look}") as news:
            while (sent := await store.read(seen, look)).state == "open":
                left = until - store.clock.now()
                if left <= 0:
                    raise Unavailable(f"The host of instance {server_id} does not answer; try again.")
                await news.wait(min(left, 1.0))
    finally:
        await store.write(outbox.forget, look)
    return output_of(server_id, sent)


def ask_console(tx: Tx, server_id: str, lines: int | None) -> str:
    """Ask the server's home for the console; the look's id. Raises `WrongState` or `Unavailable`."""
    home = claims.home_of(tx, server_id)
    if home is None:
        raise WrongState(f"Instance {server_id} is not ready")
    if home.host_status == "fenced":
        raise Unavailable(f"The host of instance {server_id} does not answer; try again.")
    look = clock_of(tx).new_id()
    outbox.send(
        tx,
        move_id=look,
        slot=SLOT,
        server_id=server_id,
        host_id=home.host_id,
        verb="console",
        args={"lines": lines},
    )
    return look


def seen(tx: Tx, look: str) -> outbox.Sent:
    """What came of the look."""
    return outbox.of_slot(tx, look, [SLOT])[0]


def output_of(server_id: str, sent: outbox.Sent) -> str:
    """The text of an answered look. Raises `WrongState`; the agent's reason is for operators."""
    if not sent.answer.get("ok"):
        log.warning("no console", server=server_id, host=sent.host_id, reason=sent.answer.get("reason"))
        raise WrongState(f"The console of instance {server_id} cannot be read now.")
    output: str = sent.answer["facts"]["output"]
    return output
