"""The agents' door: the control plane's side of `agent/protocol.py`.

`AgentDoor` answers agents of this process directly and all others over HTTP (`routes`).
M5: whatever carries an older epoch than the host's is refused, in the transaction that
would write it. Heartbeats, and what they tell of sendings, are gathered and written once a
second, for all hosts together.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
import structlog
from sqlalchemy import bindparam, select
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from berthold.agent.protocol import (
    Answer,
    Ask,
    Asks,
    Beat,
    Fenced,
    Heard,
    Hello,
    Report,
    Take,
    Welcome,
)
from berthold.errors import Refused, Unavailable
from berthold.ledger import claims, hosts, outbox, reading, schema
from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Store, Tx
from berthold.moves import left
from berthold.records import progress

log = structlog.get_logger("berthold.agents")

EPOCH = Prepared(select(schema.host.c.epoch).where(schema.host.c.id == bindparam("host")))
TICK_S = 1.0
WAIT_MAX_S = 30.0
FORGOTTEN = -1  # no epoch of any host
# Who waits for something to do hears this too: it is told when the process ends.
ENDS = "the door closes"


class AgentDoor:
    """What agents may say to the control plane. `run` must run beside it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._beaten: set[str] = set()
        self._epochs: dict[str, int] = {}
        self._progress: dict[str, tuple[str, Mapping[str, int]]] = {}
        # Hosts whose agent was shown here, at this epoch, all that it has to do; nothing was told since.
        self._shown: dict[str, int] = {}
        self._closed = 0
        store.bus.hear(self._hear)

    async def register(self, hello: Hello) -> Welcome:
        try:
            host = await self.store.write(_register, hello)
        except Refused as refusal:
            log.warning("host refused", host=hello.name, rule=refusal.rule, reason=refusal.why)
            raise Fenced(refusal.why) from refusal
        self._epochs[host.id] = host.epoch
        log.info("host registered", host=hello.name, id=host.id, epoch=host.epoch, status=host.status)
        return Welcome(host.id, host.epoch)

    async def heartbeat(self, beat: Beat) -> Beat:
        """Refused once this process knows that the epoch is over, which takes a second at most."""
        if self._epochs.get(beat.host, beat.epoch) != beat.epoch:
            raise Fenced(f"epoch {beat.epoch} is over")
        self._beaten.add(beat.host)
        for ask, far in beat.progress.items():
            self._progress[ask] = (beat.host, msgspec.structs.asdict(far))
        return beat

    async def take(self, take: Take) -> Asks:
        if take.wait <= 0:
            return Asks(await self.store.read(_asks_for, take))
        until, closed = self.store.clock.now() + min(take.wait, WAIT_MAX_S), self._closed
        with self.store.bus.subscribe(f"asks:{take.host}", ENDS) as news:
            while True:
                asks = await self._news_for(take)
                remaining = until - self.store.clock.now()
                if asks or remaining <= 0 or closed != self._closed:
                    return Asks(asks)
                await news.wait(remaining)

    def close(self) -> None:
        """Answer all who wait now: their requests would be cut off when the process ends."""
        self._closed += 1
        self.store.bus.wake([ENDS])

    async def _news_for(self, take: Take) -> list[Ask]:
        """What the host has to do, if it may be something that it was not shown yet. Of what it was shown
        and did not get, `tick` tells again."""
        if self._epochs.get(take.host, take.epoch) != take.epoch:
            raise Fenced(f"epoch {take.epoch} is over")
        if self._shown.get(take.host) == take.epoch:
            return []
        self._shown[take.host] = take.epoch  # before the look: what is told meanwhile takes it away again
        try:
            return await self.store.read(_asks_for, take)
        except BaseException:
            self._shown.pop(take.host, None)
            raise

    def _hear(self, topics: list[str]) -> None:
        for topic in topics:
            if topic.startswith("asks:"):
                self._shown.pop(topic.removeprefix("asks:"), None)

    async def answer(self, answer: Answer) -> Heard:
        try:
            recorded = await self.store.write(_record, answer)
        except Refused as refusal:
            raise Fenced(refusal.why) from refusal
        self._beaten.add(answer.host)  # whoever answers is not dead, whatever became of its heartbeats
        if recorded and left.is_about_what_was_left(recorded[1]):
            await self._collect(recorded[0], answer)
        return Heard()

    async def _collect(self, claim: str, answer: Answer) -> None:
        """A host that was fenced has removed a guest that it left behind, or could not."""
        if not answer.ok:
            name = await self._name(answer.host)
            log.warning("what was left behind stays", host=name, claim=claim, reason=answer.reason)
        elif await self.store.write(left.collect, claim):
            log.info("host is clean", host=await self._name(answer.host))

    async def _name(self, host_id: str) -> str:
        """What operators call the host."""
        names = await self.store.read(reading.host_names)
        return next((name for name, known in names.items() if known == host_id), host_id)

    async def report(self, report: Report) -> Heard:
        """What really runs there. A guest that nothing accounts for is told to the operators and left
        alone: it may be somebody's only copy."""
        for server, state in await self.store.read(_unclaimed, report):
            name = await self._name(report.host)
            log.warning("guest without claim", host=name, server=server, state=state)
        if await self.store.read(claims.left_on, report.host):
            await self.store.write(left.ask_again, report.host)
        return Heard()

    async def run(self) -> None:
        """Once a second: write who was heard, learn whose epoch is over, wake who missed a call."""
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await self.tick()
            except Unavailable as error:
                log.warning("heartbeats wait", reason=error.message)

    async def tick(self) -> None:
        beaten, self._beaten = self._beaten, set()
        try:
            if beaten:
                await self.store.write(hosts.heard, beaten)
        except Unavailable:
            self._beaten |= beaten
            raise
        if self._progress:
            told, self._progress = self._progress, {}
            await self.store.write(progress.write, told)
        known = set(self._epochs)
        epochs, asked = await self.store.read(_news)
        # The agent of a host that an operator has forgotten introduces it again.
        self._epochs = {**dict.fromkeys(known, FORGOTTEN), **epochs}
        self.store.bus.wake(f"asks:{host_id}" for host_id in asked)


def _register(tx: Tx, hello: Hello) -> hosts.Locked:
    return hosts.register(
        tx,
        name=hello.name,
        key=hello.key,
        offers=hello.inventory,
        traits=hello.traits,
        facts=hello.facts,
        zone=hello.zone,
    )


def _asks_for(tx: Tx, take: Take) -> list[Ask]:
    """What the host has to do and has not in hand. Raises `Fenced`."""
    if EPOCH.row(tx, {"host": take.host}) != (take.epoch,):
        raise Fenced(f"epoch {take.epoch} is over")
    return [
        Ask(
            id=row["id"],
            seq=row["seq"],
            epoch=row["host_epoch"],
            move=row["move_id"],
            server=row["server_id"],
            verb=row["verb"],
            args=row["args"],
        )
        for row in outbox.open_for(tx, take.host)
        if row["id"] not in take.busy
    ]


def _record(tx: Tx, answer: Answer) -> tuple[str, str] | None:
    hosts.check_epoch(tx, answer.host, answer.epoch)
    return outbox.record_answer(
        tx, answer.ask, answer.host, {"ok": answer.ok, "reason": answer.reason, "facts": answer.facts}
    )


def _unclaimed(tx: Tx, report: Report) -> list[tuple[str, str]]:
    claimed = set(
        tx.execute(select(schema.claim.c.server_id).where(schema.claim.c.host_id == report.host)).scalars()
    )
    return [(guest.server, guest.state) for guest in report.guests if guest.server not in claimed]


def _news(tx: Tx) -> tuple[dict[str, int], list[str]]:
    epochs = {row[0]: row[1] for row in tx.execute(select(schema.host.c.id, schema.host.c.epoch))}
    return epochs, outbox.hosts_asked(tx)


# -- Over HTTP ----------------------------------------------------------------------------

Handler = Callable[[Request], Awaitable[Response]]


def routes(door: AgentDoor, token: str) -> list[Route]:
    """`POST /agents/v1/…` for agents that show `token`."""
    says: Mapping[str, tuple[type[Any], Callable[[Any], Awaitable[Any]]]] = {
        "register": (Hello, door.register),
        "heartbeat": (Beat, door.heartbeat),
        "take": (Take, door.take),
        "answer": (Answer, door.answer),
        "report": (Report, door.report),
    }
    return [
        Route(f"/agents/v1/{word}", _handler(kind, hear, token), methods=["POST"])
        for word, (kind, hear) in says.items()
    ]


def _handler(kind: type[Any], hear: Callable[[Any], Awaitable[Any]], token: str) -> Handler:
    async def handle(request: Request) -> Response:
        shown = request.headers.get("x-agent-token", "")
        if not hmac.compare_digest(shown.encode(), token.encode()):
            return _problem(401, "show the agents' token in X-Agent-Token")
        try:
            said = msgspec.json.decode(await request.body(), type=kind)
            return Response(msgspec.json.encode(await hear(said)), media_type="application/json")
        except msgspec.DecodeError as error:
            return _problem(400, str(error))
        except Fenced as error:
            return _problem(409, str(error))
        except Unavailable as error:
            return _problem(503, error.message)

    return handle


def _problem(status: int, message: str) -> Response:
    return Response(msgspec.json.encode({"message": message}), status, media_type="application/json")
