"""The control plane's door over HTTP(S), as an agent knocks at it."""

from __future__ import annotations

import ssl
from types import TracebackType
from typing import TypeVar

import httpx
import msgspec

from berthold.agent.protocol import Answer, Asks, Beat, Fenced, Heard, Hello, Report, Take, Welcome

T = TypeVar("T")

TIMEOUT_S = 10.0
# Passing trouble, although its status is below 500.
AGAIN = frozenset({httpx.codes.REQUEST_TIMEOUT, httpx.codes.TOO_MANY_REQUESTS})


class Rejected(Exception):
    """The control plane will not have it: a wrong token, a message it does not understand. To say
    it again would not help."""


class HttpDoor:
    """`Door` against `{base_url}/agents/v1/…`. `verify`: as in httpx, or the path of a CA bundle."""

    def __init__(
        self,
        base_url: str,
        token: str,
        *,
        verify: ssl.SSLContext | bool | str = True,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        if isinstance(verify, str):
            verify = ssl.create_default_context(cafile=verify)
        self._client = httpx.AsyncClient(
            base_url=f"{base_url.rstrip('/')}/agents/v1/",
            headers={"X-Agent-Token": token, "Content-Type": "application/json"},
            timeout=TIMEOUT_S,
            verify=verify,
            transport=transport,
            # Agents sit in the control plane's own network; a proxy for the way out is not meant.
            trust_env=False,
        )

    async def __aenter__(self) -> HttpDoor:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, wrong: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Hang up."""
        await self._client.aclose()

    async def register(self, hello: Hello) -> Welcome:
        return await self._post("register", hello, Welcome)

    async def heartbeat(self, beat: Beat) -> Beat:
        return await self._post("heartbeat", beat, Beat)

    async def take(self, take: Take) -> Asks:
        return await self._post("take", take, Asks, patience_s=take.wait)

    async def answer(self, answer: Answer) -> Heard:
        return await self._post("answer", answer, Heard)

    async def report(self, report: Report) -> Heard:
        return await self._post("report", report, Heard)

    async def _post(self, path: str, message: object, kind: type[T], patience_s: float = 0.0) -> T:
        """Say it once. Raises `Fenced`, `ConnectionError` (try again) or `Rejected` (do not)."""
        try:
            reply = await self._client.post(
                path, content=msgspec.json.encode(message), timeout=TIMEOUT_S + patience_s
            )
        except httpx.TransportError as wrong:
            raise ConnectionError(f"{path}: {type(wrong).__name__}: {wrong}") from wrong
        if reply.status_code == httpx.codes.CONFLICT:
            raise Fenced(_words(reply))
        if reply.is_server_error or reply.status_code in AGAIN:
            raise ConnectionError(f"{path}: HTTP {reply.status_code}: {_words(reply)}")
        if not reply.is_success:
            raise Rejected(f"{path}: HTTP {reply.status_code}: {_words(reply)}")
        try:
            return msgspec.json.decode(reply.content, type=kind)
        except msgspec.DecodeError as wrong:
            raise Rejected(f"{path}: not an answer that agents understand: {wrong}") from wrong


def _words(reply: httpx.Response) -> str:
    """What a refusal says: its message, or its text if something else than the control plane wrote it."""
    try:
        return msgspec.json.decode(reply.content, type=dict[str, str])["message"]
    except (msgspec.DecodeError, KeyError):
        return reply.text[:500]
