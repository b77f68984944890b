"""The OpenAPI document: the routes' table, the bodies' shapes and the views' fields, once more.

Nothing in it is written by hand, so it cannot say anything else than what is served. A path
that is served in several microversions is one operation here: its body has the fields of
all of them, its answer requires those that every version has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, get_type_hints

import msgspec

from berthold.api.dispatch import WAIT, Route
from berthold.api.microversions import HEADER, HISTORY, NEWEST, OLDEST
from berthold.api.problems import PROBLEMS
from berthold.api.schemas import actions as bodies
from berthold.api.schemas.body import Body
from berthold.api.server_actions import ACTIONS
from berthold.settings import Settings

Json = dict[str, Any]
# Where a request may say for how long its move may wait for a place, and how long that is at most.
BEGINS_MOVES = frozenset({"/servers", "/servers/{server_id}/action", "/os-server-groups/{group_id}/action"})
WAIT_MAX = int(Settings.wait_max_s)
REF = "#/components/schemas/{name}"


def document(routes: Sequence[Route], base: str) -> Json:
    """The whole surface, for the API at the address `base`."""
    shapes = {id(body): body.shape for body in _bodies(routes)}
    schemas, components = msgspec.json.schema_components(shapes.values(), ref_template=REF)
    of_body: dict[int, Json] = dict(zip(shapes, schemas, strict=True))
    paths: dict[str, Json] = {}
    for route in routes:
        operation = paths.setdefault(f"/v2.1{route.path}", {}).setdefault(route.method.lower(), {})
        _describe(operation, route, of_body)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Compute",
            "version": str(NEWEST),
            "description": f"Microversions {OLDEST} to {NEWEST}, by the header {HEADER}.",
        },
        "servers": [{"url": base}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": {**components, "Fault": _fault()},
            "securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
        },
    }


def _bodies(routes: Iterable[Route]) -> Iterable[Body]:
    yield from (route.body for route in routes if route.body is not None)
    yield from (action.body for action in ACTIONS.values())


def _describe(operation: Json, route: Route, of_body: Mapping[int, Json]) -> None:
    """Add a row to its operation, which rows of other versions may have begun."""
    summary = (route.function.__doc__ or "").split("\n\n")[0]
    operation["summary"] = " ".join(summary.split())
    operation["operationId"] = operation.get("operationId") or _name(route)
    operation["description"] = f"Rule: {route.rule}. Microversions: {route.when}."
    operation["parameters"] = _parameters(route)
    if route.body is bodies.ANY:
        operation["requestBody"] = {"required": True, **_json(_one_action(of_body))}
    elif route.body is not None:
        operation["requestBody"] = {"required": True, **_json(of_body[id(route.body)])}
    answers = operation.setdefault("responses", {})
    if (answer := _answer(route)) is not None:
        answers[str(route.status)] = answer
    if route.body is bodies.ANY:
        answers |= _answers_of_actions()
    if route.also:
        answers[str(route.also)] = {"description": "It was so already."}
    fault = _json({"$ref": REF.format(name="Fault")})
    answers["4XX"] = {"description": "Refused, with a sentence that says why.", **fault}
    answers["503"] = {"description": "A part that is needed does not answer now.", **fault}


def _name(route: Route) -> str:
    """Module and function: there is one row of a function for each of its paths."""
    module = route.function.__module__.rpartition(".")[2]
    return f"{module}.{route.function.__name__}"


def _parameters(route: Route) -> list[Json]:
    text = {"type": "string"}
    in_path = re.findall(r"\{(\w+)\}", route.path)
    waits = [{"name": WAIT, "in": "header", "schema": {"type": "integer", "minimum": 0, "maximum": WAIT_MAX}}]
    return [
        *({"name": name, "in": "path", "required": True, "schema": text} for name in in_path),
        *({"name": name, "in": "query", "schema": text} for name in sorted(route.query)),
        {
            "name": HEADER,
            "in": "header",
            "schema": {"type": "string", "enum": [f"compute {version}" for version in HISTORY]},
        },
        *(waits if route.path in BEGINS_MOVES and route.method == "POST" else []),
    ]


def _one_action(of_body: Mapping[int, Json]) -> Json:
    """Exactly one action, under its name."""
    return {
        "oneOf": [
            {
                "type": "object",
                "properties": {name: of_body[id(action.body)]},
                "required": [name],
                "additionalProperties": False,
            }
            for name, action in ACTIONS.items()
        ]
    }


def _answers_of_actions() -> Json:
    """Of each status what the actions show that end with it; others, and older versions, show nothing."""
    shown: dict[int, list[Json]] = {}
    for action in ACTIONS.values():
        schemas = shown.setdefault(action.status, [])
        if action.shows is not None and (schema := action.shows.schema()) not in schemas:
            schemas.append(schema)
    return {
        str(status): {
            "description": "Begun." if status == 202 else "Done.",
            **(_json({"anyOf": schemas}) if schemas else {}),
        }
        for status, schemas in shown.items()
    }


def _answer(route: Route) -> Json | None:
    """What success is; None for what is refused whatever it asks."""
    if route.shows is not None:
        return {"description": "As asked.", **_json(route.shows.schema())}
    if get_type_hints(route.function)["return"] is NoReturn:
        return None
    return {"description": "Done, or begun; nothing to say."}


def _json(schema: Json) -> Json:
    return {"content": {"application/json": {"schema": schema}}}


def _fault() -> Json:
    """One key that names the kind, with status and sentence."""
    inner = {
        "type": "object",
        "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
        "required": ["code", "message"],
        "additionalProperties": False,
    }
    kinds = sorted({name for _, name in PROBLEMS.values()})
    return {
        "type": "object",
        "properties": dict.fromkeys(kinds, inner),
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
    }
