"""Who is told that something was committed.

A `Bus` wakes those of this process who wait for a topic. On PostgreSQL a `Notifier` carries
topics between processes (LISTEN/NOTIFY), after the commit and gathered, never inside a
claim's transaction. A lost wake-up costs a second, never a move: whoever waits also polls.

Topics: `moves` (there is a move to work on), `asks:<host id>` (its agent has something to
do), `move:<id>` (an answer for that move was recorded), `host:<id>` (the scheduler may see
something new of that host), `hosts` (of any of them), `server:<id>` (its move has ended).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable


class Bus:
    """Wakes waiting tasks of this process; may be told from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._loops: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._listeners: list[Callable[[list[str]], None]] = []
        self._hearers: list[Callable[[list[str]], None]] = []

    def tell(self, topics: Iterable[str]) -> None:
        """Wake everybody who waits for one of `topics`, here and wherever listeners carry it."""
        told = list(dict.fromkeys(topics))
        self.wake(told)
        for listener in self._listeners:
            listener(told)

    def wake(self, topics: Iterable[str]) -> None:
        """Wake those of this process only."""
        topics = list(topics)
        for hearer in self._hearers:
            hearer(topics)
        with self._lock:
            events = [e for topic in topics for e in self._waiting.get(topic, ())]
            loops = [(self._loops[e], e) for e in events]
        for loop, waiting in loops:
            loop.call_soon_threadsafe(waiting.set)

    def carry(self, listener: Callable[[list[str]], None]) -> None:
        """Hand every told topic to `listener` too (a notifier to other processes)."""
        self._listeners.append(listener)

    def hear(self, hearer: Callable[[list[str]], None]) -> None:
        """Hand every topic that this process hears, its own and others', to `hearer`, in the thread
        that brings it: it must not wait for anything."""
        self._hearers.append(hearer)

    def subscribe(self, *topics: str) -> Subscription:
        """Begin to listen; what is told from now on is not missed."""
        return Subscription(self, topics)

    def _join(self, topics: tuple[str, ...], waiting: asyncio.Event) -> None:
        with self._lock:
            self._loops[waiting] = asyncio.get_running_loop()
            for topic in topics:
                self._waiting.setdefault(topic, set()).add(waiting)

    def _leave(self, topics: tuple[str, ...], waiting: asyncio.Event) -> None:
        with self._lock:
            self._loops.pop(waiting, None)
            for topic in topics:
                others = self._waiting.get(topic, set())
                others.discard(waiting)
                if not others:
                    self._waiting.pop(topic, None)


class Subscription:
    """`with bus.subscribe("moves") as news: await news.wait(1.0)`."""

    def __init__(self, bus: Bus, topics: tuple[str, ...]) -> None:
        self._bus = bus
        self._topics = topics
        self._event = asyncio.Event()

    def __enter__(self) -> Subscription:
        self._bus._join(self._topics, self._event)
        return self

    def __exit__(self, *_: object) -> None:
        self._bus._leave(self._topics, self._event)

    async def wait(self, seconds: float) -> bool:
        """Until something is told, `seconds` at most; whether something was. Then listen on."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return False
        self._event.clear()
        return True
