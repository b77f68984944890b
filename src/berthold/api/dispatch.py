"""From a request to its row in `routes.ROUTES`, and from what the handler returns to an answer."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from berthold.api import policy, versions
from berthold.api.answers import Shown
from berthold.api.call import Call, Reply, Services
from berthold.api.microversions import Version, Versions
from berthold.api.problems import BadMediaType, WrongMethod
from berthold.api.query import Query
from berthold.api.schemas.body import Body
from berthold.errors import Malformed, NotFound
from berthold.settings import Settings

Handler = Callable[..., Awaitable[Any]]
OPENAPI = ["openapi.json"]
# A request header of our own: for how many seconds a move may wait for a place.
WAIT = "Berthold-Wait"
NO_SUCH_PAGE = "The resource could not be found."


@dataclass(frozen=True)
class Route:
    """A row: `{name}` parts of the path become arguments of the function, which returns JSON or None.

    `rule` may leave out `os_compute_api:`, with which nearly all rules begin.
    """

    method: str
    path: str
    function: Handler
    rule: str
    status: int = 200
    when: str = "2.1"
    body: Body | None = None
    query: frozenset[str] = frozenset()
    strict: str = "2.75"  # from which version unknown query parameters are refused
    shows: Shown | None = None  # what the answer is, where it has a document
    also: int | None = None  # a second status of success, without a document
    parts: tuple[str, ...] = field(init=False, default=())
    versions: Versions = field(init=False, default=Versions())
    strict_in: Versions = field(init=False, default=Versions())

    def __post_init__(self) -> None:
        if self.rule not in policy.RULES:
            object.__setattr__(self, "rule", f"os_compute_api:{self.rule}")
        assert self.rule in policy.RULES, f"{self.path} names a rule that is not in policy.py: {self.rule}"
        object.__setattr__(self, "parts", tuple(self.path.strip("/").split("/")))
        object.__setattr__(self, "versions", Versions(self.when))
        object.__setattr__(self, "strict_in", Versions(self.strict))

    def arguments(self, parts: Sequence[str]) -> dict[str, str] | None:
        """What stands in the place of each name, if `parts` is a path of this row."""
        found = {}
        for mine, given in zip(self.parts, parts, strict=True):
            if mine.startswith("{"):
                found[mine[1:-1]] = given
            elif mine != given:
                return None
        return found


class Dispatch:
    """The application inside the middleware. `described` gives the OpenAPI document for an address."""

    def __init__(
        self, services: Services, routes: Sequence[Route], described: Callable[[str], dict[str, Any]]
    ) -> None:
        self.services, self.described = services, described
        self.rows: dict[tuple[str, int], list[Route]] = defaultdict(list)
        for route in routes:
            self.rows[route.parts[0], len(route.parts)].append(route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
            return
        request = Request(scope, receive)
        answer = await self.answer(request)
        await answer(scope, receive, send)

    async def answer(self, request: Request) -> Response:
        """Find the row, decide its rule, check query and body, call the function."""
        base, path, parts = where(request)
        if parts == OPENAPI:
            return self.openapi(request, base)
        if len(parts) < 2 and (not parts or parts == ["v2.1"]):
            return _version_document(request, base, parts)
        version: Version = request.state.version
        route, arguments = self.find(request.method, parts, version)
        self.services.policy.check(request.state.actor, route.rule)
        query = Query(parse_qsl(request.url.query, keep_blank_values=True, max_num_fields=200))
        if version in route.strict_in:
            query.refuse_others(route.query)
        call = Call(
            self.services,
            request.state.actor,
            version,
            request.state.request_id,
            base,
            path,
            query,
            await _body(request, route, version),
            wait_s=_patience(request, self.services.settings),
        )
        document = await route.function(call, **arguments)
        status = route.status
        if isinstance(document, Reply):
            status, document = document.status, document.document
        content = b"" if document is None else msgspec.json.encode(document)
        return Response(content, status, call.headers, "application/json" if document is not None else None)

    def openapi(self, request: Request, base: str) -> Response:
        """`GET /openapi.json`."""
        if request.method != "GET":
            raise WrongMethod(["GET"])
        return _json(self.described(base))

    def find(self, method: str, parts: list[str], version: Version) -> tuple[Route, dict[str, str]]:
        """The row for a path. A row of other versions is as if it were not there."""
        inner = parts[1:]
        if len(inner) > 1 and _is_project(inner[0]):
            inner = inner[1:]
        allowed = set()
        for route in self.rows.get((inner[0], len(inner)), ()) if parts[0] == "v2.1" else ():
            arguments = route.arguments(inner)
            if arguments is None or version not in route.versions:
                continue
            if route.method == method:
                return route, arguments
            allowed.add(route.method)
        if allowed:
            raise WrongMethod(sorted(allowed))
        raise NotFound(NO_SUCH_PAGE)


def where(request: Request) -> tuple[str, str, list[str]]:
    """Where the API is mounted, the path behind that, and its parts."""
    root = request.scope.get("root_path", "")
    path = request.scope["path"].removeprefix(root)
    if "\0" in path:
        raise NotFound(NO_SUCH_PAGE)
    base = f"{request.url.scheme}://{request.url.netloc}{root}"
    return base, path, [part for part in path.split("/") if part]


def open_to_all(parts: Sequence[str]) -> bool:
    """Whether a path needs no token: the version documents, and what describes the API."""
    return not parts or list(parts) in (["v2.1"], OPENAPI)


def _is_project(part: str) -> bool:
    """Whether a path part is the project id that older clients put before every noun."""
    return len(part) in (32, 36) and not set(part) - set("0123456789abcdef-")


def _version_document(request: Request, base: str, parts: list[str]) -> Response:
    if request.method != "GET":
        raise WrongMethod(["GET"])
    if parts:
        return _json(versions.one_version(base))
    # Without a slash at its end the address names several things, and says which; as others do.
    bare = not request.scope["path"].endswith("/")
    return _json(versions.all_versions(base), 300 if bare else 200)


def _json(document: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(document), status, media_type="application/json")


def _patience(request: Request, settings: Settings) -> float:
    """For how long what the request begins may wait for a place (M7): what it says, or the default."""
    asked = request.headers.get(WAIT)
    if asked is None:
        return settings.wait_s
    if not re.fullmatch(r"[0-9]{1,9}", asked) or int(asked) > settings.wait_max_s:
        raise Malformed(
            f"{WAIT}: expected whole seconds from 0 to {settings.wait_max_s:g}, not '{asked[:20]}'."
        )
    return float(asked)


async def _body(request: Request, route: Route, version: Version) -> Any:
    if route.body is None:
        return None
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise BadMediaType(f"Unsupported Content-Type {kind[:60]}; expected application/json.")
    raw = await request.body()
    if not raw:
        raise Malformed("Malformed request body: it is empty, expected a JSON object.")
    return route.body.decode(raw, version)
