"""The API as one ASGI application: a literal list of middleware around the dispatcher.

A request travels down the list and its answer up. Whatever goes wrong below `Faults`
becomes a JSON fault there; above it there is only the request's id.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.routing import Route as Exact
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from berthold.api import microversions, openapi, problems
from berthold.api.call import Services
from berthold.api.dispatch import Dispatch, Route, open_to_all, where
from berthold.api.routes import ROUTES
from berthold.errors import Failure, TooLarge, Unauthenticated

__all__ = ["Services", "compute_app", "mounted"]

log = structlog.get_logger("berthold.api")


def compute_app(services: Services, routes: Sequence[Route] = ROUTES) -> ASGIApp:
    """The compute API. It may be mounted anywhere; links follow the address that clients use."""
    app: ASGIApp = Dispatch(services, routes, partial(openapi.document, routes))
    layers = [
        Middleware(RequestId, services=services),
        Middleware(Faults),
        Middleware(BodyLimit, body_max=services.settings.body_max),
        Middleware(Tokens, services=services),
        Middleware(Microversions),
    ]
    for layer in reversed(layers):
        app = layer.cls(app, *layer.args, **layer.kwargs)
    return app


def mounted(prefix: str, app: ASGIApp) -> list[BaseRoute]:
    """The API below `prefix`, and at `prefix` itself, where a mount alone would redirect."""

    class Bare:
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, "root_path": scope.get("root_path", "") + prefix}, receive, send)

    return [Exact(prefix, Bare(), methods=None), Mount(prefix, app=app)]


class Layer:
    """What every layer is: passes on whatever is not HTTP."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope.setdefault("state", {})
            await self.http(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def http(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        raise NotImplementedError


class RequestId(Layer):
    """Gives each request the id under which log, instance actions and answer speak of it."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        super().__init__(app)
        self.clock = services.store.clock

    async def http(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = f"req-{self.clock.new_id()}"
        scope["state"]["request_id"] = request_id

        async def with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["x-openstack-request-id"] = headers["x-compute-request-id"] = request_id
            await send(message)

        await self.app(scope, receive, with_id)


class Faults(Layer):
    """Turns failures into JSON faults, and adds the version headers that the request was served with."""

    async def http(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_version(message: Message) -> None:
            if message["type"] == "http.response.start" and "version" in scope["state"]:
                headers = MutableHeaders(scope=message)
                asked = str(scope["state"]["version"])
                headers[microversions.HEADER] = f"compute {asked}"
                headers[microversions.LEGACY_HEADER] = asked
                headers["Vary"] = f"{microversions.HEADER}, {microversions.LEGACY_HEADER}"
            await send(message)

        try:
            await self.app(scope, receive, with_version)
        except Failure as failure:
            status, name = problems.status_of(failure)
            if status >= 500:
                log.warning("request failed", **_about(scope), reason=failure.message)
            headers = {}
            if isinstance(failure, problems.WrongMethod):
                headers["Allow"] = ", ".join(failure.allowed)
            if isinstance(failure, Unauthenticated):
                headers["WWW-Authenticate"] = "Keystone"
            await _fault(status, name, failure.message, headers)(scope, receive, with_version)
        except Exception:
            # The last resort: a bug. What it is stays in the log; the client gets the id to ask with.
            log.exception("request failed", **_about(scope))
            message = f"Unexpected API Error. It is in this cloud's log under {scope['state']['request_id']}."
            await _fault(*problems.UNEXPECTED, message, {})(scope, receive, with_version)


def _about(scope: Scope) -> dict[str, str]:
    """What every line of the log says of a request."""
    return {"request": scope["state"]["request_id"], "method": scope["method"], "path": scope["path"]}


class BodyLimit(Layer):
    """Refuses a body that is larger than `body_max`, by its header or as it comes in."""

    def __init__(self, app: ASGIApp, body_max: int) -> None:
        super().__init__(app)
        self.body_max = body_max

    async def http(self, scope: Scope, receive: Receive, send: Send) -> None:
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdigit() or int(length[:20]) > self.body_max:
            raise TooLarge(f"Request is too large: a body may have {self.body_max} bytes.")
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.body_max:
                raise TooLarge(f"Request is too large: a body may have {self.body_max} bytes.")
            return message

        await self.app(scope, counted, send)


class Tokens(Layer):
    """Asks the identity service who is behind the token. Version documents need none."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        super().__init__(app)
        self.identity = services.neighbours.identity

    async def http(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not open_to_all(where(Request(scope))[2]):
            token = Headers(scope=scope).get("x-auth-token")
            if not token:
                raise Unauthenticated("The request you have made requires authentication.")
            scope["state"]["actor"] = await self.identity.who(token)
        await self.app(scope, receive, send)


class Microversions(Layer):
    """Reads which microversion is asked for."""

    async def http(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not open_to_all(where(Request(scope))[2]):
            scope["state"]["version"] = microversions.asked_for(Headers(scope=scope))
        await self.app(scope, receive, send)


def _fault(status: int, name: str, message: str, headers: dict[str, str]) -> Response:
    document = {name: {"code": status, "message": message}}
    return Response(msgspec.json.encode(document), status, headers, "application/json")
