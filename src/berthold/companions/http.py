"""What the four companions share over HTTP: routes, tokens, bodies, faults, pages.

A companion is a `Service`: two literal tables of (method, path, function), one that needs
no token (version documents, logging in) and one that does. By the time a function is
called its caller is known. It raises the kinds of `berthold.errors`; the service turns each
into the fault that its own clients expect. Bad input is never a 5xx.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
import structlog
from sqlalchemy.exc import IntegrityError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import Receive, Scope, Send

from berthold.companions.embedded import Companions
from berthold.companions.logins import Bearer
from berthold.errors import (
    Failure,
    Malformed,
    NotAllowed,
    NotFound,
    Refused,
    TooLarge,
    Unauthenticated,
    Unavailable,
    WrongState,
)
from berthold.neighbours import Actor

log = structlog.get_logger("berthold.companions")

T = TypeVar("T")
Document = dict[str, Any]
NO_RIGHT = "you are not authorized to perform the requested action"


@dataclass
class Asked:
    """A request: who asks, what of, and where we are reached."""

    request: Request
    four: Companions
    home: str  # our own address, without the service's prefix
    path: dict[str, str]
    _bearer: Bearer | None = None

    @property
    def bearer(self) -> Bearer:
        assert self._bearer is not None, "a function of the open routes asked who the caller is"
        return self._bearer

    @property
    def actor(self) -> Actor:
        return self.bearer.actor

    @property
    def query(self) -> dict[str, str]:
        """The query, the last value of each name."""
        return dict(self.request.query_params)

    def need_admin(self) -> None:
        if not self.actor.is_admin:
            raise NotAllowed(NO_RIGHT)

    async def need_project(self, project_id: str) -> None:
        """Raise unless the project is the caller's own, or he is an administrator and there is one of that
        id. Nobody else learns by it which projects there are (T1)."""
        if project_id == self.actor.project_id:
            return
        self.need_admin()
        if not await self.four.identity.project_exists(project_id):
            raise Malformed(f"there is no project {project_id}; name one by its id")

    async def raw(self) -> bytes:
        """The body; `TooLarge` beyond what one may have here."""
        held, most = bytearray(), self.four.store.settings.body_max
        async for chunk in self.request.stream():
            held += chunk
            if len(held) > most:
                raise TooLarge(f"a body has at most {most} bytes here")
        return bytes(held)

    async def body(self, shape: type[T]) -> T:
        """The JSON body in this shape; `Malformed` says where it has another."""
        raw = await self.raw()
        try:
            wish = msgspec.json.decode(raw, type=shape)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise Malformed(f"the body does not fit: {error}") from error
        if b"\\u0000" in raw:
            raise Malformed("the body has a NUL character, which nothing here may contain")
        return wish


Function = Callable[[Asked], Awaitable[Response]]
Route = tuple[str, str, Function]
Fault = Callable[[int, str, str], Document]

STATUS: dict[type[Failure], int] = {
    Malformed: 400,
    Unauthenticated: 401,
    NotAllowed: 403,
    NotFound: 404,
    WrongState: 409,
    Refused: 409,
    TooLarge: 413,
    Unavailable: 503,
}
TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    413: "Request Entity Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


@dataclass
class Service:
    """One companion as an ASGI application, mounted at `prefix`."""

    four: Companions
    prefix: str
    open_routes: tuple[Route, ...]
    routes: tuple[Route, ...]
    fault: Fault
    statuses: dict[type[Failure], int] = field(default_factory=dict)
    titles: dict[type[Failure], str] = field(default_factory=dict)
    unscoped: bool = False  # whether a token without a project will do
    changed_by: str | None = None  # the role that whoever changes something here has at least
    base_url: str | None = None

    def __post_init__(self) -> None:
        self._table = [
            (re.compile(compile_path(path)[0]), method, function, is_open)
            for is_open, routes in ((True, self.open_routes), (False, self.routes))
            for method, path, function in routes
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        request_id = f"req-{self.four.store.clock.new_id()}"
        response = await self._answer(request, request_id)
        response.headers["x-openstack-request-id"] = request_id
        await response(scope, receive, send)

    async def _answer(self, request: Request, request_id: str) -> Response:
        try:
            return await self._dispatch(request)
        except Failure as failure:
            return self._failed(request, failure)
        except IntegrityError:
            # A constraint has judged between this request and one that was faster.
            return self._told(request, 409, "somebody else was faster; look again")
        except ClientDisconnect:
            return self._told(request, 400, "the client went away")
        except Exception:
            path = request.url.path
            log.exception("request failed", request=request_id, method=request.method, path=path)
            return self._told(request, 500, f"an error of ours; it is in our log under {request_id}")

    def _failed(self, request: Request, failure: Failure) -> Response:
        """What the service's clients expect of this kind, or of the nearest that it is one of."""
        kinds = type(failure).__mro__
        statuses = {**STATUS, **self.statuses}
        status = next((statuses[kind] for kind in kinds if kind in statuses), 400)
        title = next((self.titles[kind] for kind in kinds if kind in self.titles), None)
        headers = {"Retry-After": "0"} if isinstance(failure, Refused) and status == 413 else {}
        return self._told(request, status, failure.message, title, **headers)

    async def _dispatch(self, request: Request) -> Response:
        path = request.scope["path"].removeprefix(self.prefix)
        method = "GET" if request.method == "HEAD" else request.method
        if "\0" in path or any("\0" in value for _, value in request.query_params.multi_items()):
            raise Malformed("the address has a NUL character, which nothing here may contain")
        allowed = set()
        for pattern, known_method, function, is_open in self._table:
            match = pattern.match(path)
            if match and known_method == method:
                bearer = None if is_open else await self._bearer(request)
                if bearer is not None and method != "GET":
                    self._need_a_writer(bearer)
                return await function(
                    Asked(request, self.four, self._home(request), match.groupdict(), bearer)
                )
            if match:
                allowed.add(known_method)
        if allowed:
            return self._told(
                request, 405, "the method is not allowed here", Allow=", ".join(sorted(allowed))
            )
        raise NotFound("the resource could not be found")

    async def _bearer(self, request: Request) -> Bearer:
        token = request.headers.get("x-auth-token")
        if not token:
            raise Unauthenticated("the request you have made requires authentication")
        bearer = await self.four.identity.bearer(token)
        if bearer.project is None and not self.unscoped:
            raise Unauthenticated("the token is for no project; log in with one")
        return bearer

    def _need_a_writer(self, bearer: Bearer) -> None:
        if self.changed_by is not None and self.changed_by not in bearer.roles:
            raise NotAllowed(f"{NO_RIGHT}: it needs the role {self.changed_by}")

    def _home(self, request: Request) -> str:
        return self.base_url or f"{request.url.scheme}://{request.url.netloc}"

    def _told(
        self, request: Request, status: int, message: str, title: str | None = None, **headers: str
    ) -> Response:
        if status == 401:
            headers["WWW-Authenticate"] = f'Keystone uri="{self._home(request)}/identity"'
        return answer(self.fault(status, title or TITLES[status], message), status, **headers)


def answer(document: Any, status: int = 200, **headers: str) -> Response:
    """A JSON answer."""
    return Response(msgspec.json.encode(document), status, headers, "application/json")


def nothing(status: int = 204) -> Response:
    """An answer without a body."""
    return Response(status_code=status)


def page(asked: Asked, documents: list[Document]) -> tuple[list[Document], str | None]:
    """What `limit` and `marker` ask for, and the query of the next page if there is one."""
    most = asked.four.store.settings.page_max
    marker, limit = asked.query.get("marker"), whole_number(asked.query.get("limit"), "limit", most)
    if marker:
        ids = [document["id"] for document in documents]
        if marker not in ids:
            raise Malformed(f"the marker {marker} is not in this list")
        documents = documents[ids.index(marker) + 1 :]
    chosen = documents[: min(limit, most)]
    if len(chosen) == len(documents) or not chosen:
        return chosen, None
    return chosen, urlencode({**asked.query, "marker": chosen[-1]["id"]})


def whole_number(text: str | None, name: str, default: int) -> int:
    """A query's number, not negative."""
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Malformed(f"{name} is a whole number, not {text!r}")
    return int(text)


def yes(text: str) -> bool:
    """A query's truth."""
    if text.lower() in ("true", "1", "yes"):
        return True
    if text.lower() in ("false", "0", "no", ""):
        return False
    raise Malformed(f"{text!r} is neither true nor false")


def stamp(moment: float, form: str = "%Y-%m-%dT%H:%M:%SZ") -> str:
    """A moment as these APIs write it."""
    return datetime.datetime.fromtimestamp(moment, datetime.UTC).strftime(form)
