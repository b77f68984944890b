"""Attending to whole-group moves: whatever is due for one is done, by whoever looks first.

Every conductor looks when somebody says that a part has ended, and once a second. What is due
follows from the rows (`together.tend`), so it does not matter who looks, how often, or who died.
"""

from __future__ import annotations

import structlog

from berthold.errors import Unavailable
from berthold.ledger import group_moves
from berthold.ledger.store import Store
from berthold.moves import together

log = structlog.get_logger("berthold.moves")


async def attend(store: Store, scan_s: float) -> None:
    """Do what is due for every group move, for as long as this runs."""
    with store.bus.subscribe(group_moves.TOPIC) as news:
        while True:
            if not await attend_once(store):
                await news.wait(scan_s)


async def attend_once(store: Store) -> bool:
    """Do what is due now; whether anything was."""
    try:
        waiting = await store.read(group_moves.unfinished)
    except Unavailable as error:
        log.warning("group moves cannot be looked at", reason=error.message)
        return False
    except Exception:
        log.exception("group moves were not looked at")
        return False
    return any([await _tended(store, group_move) for group_move in waiting])


async def _tended(store: Store, group_move: str) -> bool:
    """One that cannot be seen to keeps no other from it."""
    try:
        return await store.write(together.tend, group_move)
    except Unavailable as error:
        log.warning("group move waits", group_move=group_move, reason=error.message)
    except Exception:
        log.exception("a group move failed in a way that must not be", group_move=group_move)
    return False
