"""Volumes and interfaces are attached and detached one after another.

A server has one unfinished move (M3), and users ask for several volumes at once. Who asks for the next
while another such move of the server is under way waits until that has ended, outside of any
transaction and holding nothing; then he asks anew, and everything is looked at again. Of several who
wait any is the next. Other moves are refused at once, and refuse at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from berthold.errors import WrongState
from berthold.ledger.store import Store

T = TypeVar("T")

# What ends otherwise (a delete took its place, its process was lost) is seen by looking again.
LOOK_S = 1.0


async def in_turn(store: Store, server_id: str, wait_s: float, ask: Callable[[], Awaitable[T]]) -> T:
    """What `ask` returns, which begins a move of the server: asked again while it is told to `wait`.

    Raises what `ask` raises; after `wait_s` seconds also that its turn has not come.
    """
    until = store.clock.now() + wait_s
    with store.bus.subscribe(f"server:{server_id}") as news:
        while True:
            try:
                return await ask()
            except WrongState as refused:
                left = until - store.clock.now()
                if not refused.wait or left <= 0:
                    raise
            await news.wait(min(left, LOOK_S))
