"""What holds for every row of the table of routes."""

from __future__ import annotations

import asyncio
import itertools
import re
from pathlib import Path
from typing import Any

import httpx
from msgspec import Struct
from msgspec.structs import fields

from berthold import api
from berthold.api.dispatch import Route
from berthold.api.microversions import HISTORY, version
from berthold.api.policy import RULES
from berthold.api.routes import ROUTES
from berthold.api.schemas.body import Body
from berthold.api.server_actions import ACTIONS

API = Path(api.__file__).parent

JUNK_PARTS = ["x", "0", "-1", "9" * 40, "%F0%9F%92%A9", "a%00b", "%2E%2E", "x" * 3000, "'%20OR%201=1", "%FF"]
JUNK_BODIES: list[Any] = [
    None,
    7,
    "x",
    [],
    {},
    {"x": {}},
    [{}],
    {"name": {}},
    {"host": [1]},
    {"name": "a\0b", "host": "\0"},
    {"name": "💩" * 300},
]


def test_rows_for_one_path_never_overlap() -> None:
    rows: dict[tuple[str, str], list[Route]] = {}
    for route in ROUTES:
        rows.setdefault((route.method, route.path), []).append(route)
    for same in rows.values():
        for text in HISTORY:
            assert sum(version(text) in route.versions for route in same) <= 1, (same[0].path, text)


def test_every_handler_says_what_it_does_and_every_action_has_a_rule() -> None:
    for route in ROUTES:
        assert route.function.__doc__, route.function
    for name, action in ACTIONS.items():
        assert action.rule in RULES, name
        assert getattr(action.run, "func", action.run).__doc__, name


def test_every_policy_rule_is_asked_for_and_every_one_asked_for_is_there() -> None:
    source = "\n".join(path.read_text() for path in API.rglob("*.py") if path.name != "policy.py")
    asked = {route.rule for route in ROUTES} | set(
        re.findall(r'"((?:os_compute_api|compute):[\w:-]+)"', source)
    )
    whole = {rule for rule in asked if not rule.endswith(":")}
    named = {f"os_compute_api:os-aggregates:{name}" for name in ("add_host", "remove_host", "set_metadata")}
    hosts = {f"os_compute_api:os-migrate-server:{name}:host" for name in ("migrate", "migrate_live")}
    assert whole | named | hosts == set(RULES)


def test_no_junk_anywhere_makes_a_5xx(cloud: Any) -> None:
    cloud.host()
    server = cloud.server()

    async def throw() -> list[tuple[str, str, Any, int]]:
        broken = []
        hosts = asyncio.create_task(cloud.obeying())
        transport = httpx.ASGITransport(cloud.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://cloud") as client:
            for route, asked in itertools.product(ROUTES, ("2.1", "2.96")):
                for part, body in junk_for(route, server):
                    path = "/v2.1" + filled(route.path, part)
                    headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": f"compute {asked}"}
                    answer = await client.request(route.method, path, headers=headers, json=body)
                    if answer.status_code >= 500:
                        broken.append((route.method, path[:80], body, answer.status_code))
        hosts.cancel()
        return broken

    assert asyncio.run(throw()) == []


def junk_for(route: Route, server: str) -> list[tuple[str, Any]]:
    """Junk in the path, and for a path that is good junk in the body, at every depth of it."""
    pairs: list[tuple[str, Any]] = [(part, {}) for part in JUNK_PARTS] if "{" in route.path else [("x", {})]
    if route.body is not None:
        keys = [field.encode_name for field in fields(route.body.shape)] if is_struct(route.body) else ["a"]
        if route.path.endswith("/action"):
            keys = [*ACTIONS, "addTenantAccess", "add_host", "set_metadata"]
        pairs += [(server, body) for body in JUNK_BODIES]
        pairs += [(server, {key: body}) for key in keys for body in JUNK_BODIES]
    return pairs


def is_struct(body: Body) -> bool:
    return isinstance(body.shape, type) and issubclass(body.shape, Struct)


def filled(path: str, part: str) -> str:
    while "{" in path:
        before, _, rest = path.partition("{")
        path = before + part + rest.partition("}")[2]
    return path
