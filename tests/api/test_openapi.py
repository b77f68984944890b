"""The OpenAPI document is served and true: Schemathesis throws at every operation what its schema
allows, and finds no 5xx and no answer that its schema does not allow.

In one process and one thread, no socket: cases are Schemathesis', transport is the tests' own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from berthold.api.routes import ROUTES

EXAMPLES = 4


@pytest.fixture
def hosts_at_work(cloud: Any) -> Iterator[asyncio.Runner]:
    """A loop in which every host does what it is asked."""
    cloud.host()
    with asyncio.Runner() as runner:
        task = runner.get_loop().create_task(cloud.obeying())
        yield runner
        task.cancel()


def test_the_document_needs_no_token_and_has_every_route(cloud: Any, fault: Any) -> None:
    answer = cloud.send("GET", "/openapi.json", who=None)
    assert answer.status == 200
    paths = answer.json["paths"]
    served = {(f"/v2.1{route.path}", route.method.lower()) for route in ROUTES}
    assert {(path, method) for path, operations in paths.items() for method in operations} == served
    operations = [operation for each in paths.values() for operation in each.values()]
    assert all(operation["summary"].endswith(".") for operation in operations)
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    assert answer.json["servers"] == [{"url": "http://cloud"}]
    fault(cloud.send("POST", "/openapi.json", who=None), 405)


def test_every_operation_says_what_is_in_its_answer(cloud: Any) -> None:
    """Or that there is none. That it is true of every answer is asked at each that the tests get."""
    paths = cloud.send("GET", "/openapi.json", who=None).json["paths"]
    silent = {
        (method, path, status)
        for path, operations in paths.items()
        for method, operation in operations.items()
        for status, answer in operation["responses"].items()
        if "content" in answer and not says_what(answer["content"]["application/json"]["schema"])
    }
    assert silent == set()
    # Refused whatever it asks: there is no console proxy.
    never = {(route.method, route.path) for route in ROUTES} - {
        (method.upper(), path.removeprefix("/v2.1"))
        for path, operations in paths.items()
        for method, operation in operations.items()
        if any(status.startswith("2") for status in operation["responses"])
    }
    assert never == {("POST", "/servers/{server_id}/remote-consoles")}


def says_what(schema: dict[str, Any]) -> bool:
    if "anyOf" in schema:
        return all(map(says_what, schema["anyOf"]))
    return "$ref" in schema or bool(
        schema["properties"] if "properties" in schema else schema["maxProperties"]
    )


@pytest.mark.parametrize(
    ("action", "wish", "version", "key"),
    [
        ("rebuild", {}, "2.1", "server"),
        ("rebuild", {}, "2.74", "server"),
        ("rebuild", {}, "2.96", "server"),
        ("createImage", {"name": "snap"}, "2.45", "image_id"),
        ("rescue", None, "2.96", "adminPass"),
        ("evacuate", {"onSharedStorage": False}, "2.1", "adminPass"),
    ],
)
def test_what_an_action_answers_has_its_form_in_the_document(
    cloud: Any, action: str, wish: Any, version: str, key: str
) -> None:
    cloud.host()
    cloud.flavor("200", disk=1)
    image = cloud.image()
    server = cloud.server(flavorRef="200", imageRef=image, block_device_mapping_v2=[])
    if action == "evacuate":
        cloud.put(f"/os-services/{cloud.world.host_id('node1')}", {"forced_down": True}, version="2.53")
    if action == "rebuild":
        wish = {"imageRef": image}
    answer = cloud.act(server, action, wish, version=version)
    document = cloud.send("GET", "/openapi.json", who=None).json
    described = document["paths"]["/v2.1/servers/{server_id}/action"]["post"]["responses"]
    form = jsonschema_rs.validator_for(described[str(answer.status)]["content"]["application/json"]["schema"])
    form.validate(answer.json)
    assert set(answer.json) == {key}
    assert not form.is_valid({**answer.json, "more": 1}), "it says of no other document that it may come"


def test_schemathesis_finds_no_5xx_and_no_answer_that_breaks_its_schema(
    cloud: Any, hosts_at_work: asyncio.Runner
) -> None:
    cloud.network()
    known = things(cloud)
    schema = schemathesis.openapi.from_dict(cloud.send("GET", "/openapi.json", who=None).json)
    operations = [each.ok() for each in schema.get_all_operations() if isinstance(each, Ok)]
    assert len(operations) == len({(route.path, route.method) for route in ROUTES})
    asked = 0

    async def ask(case: Any) -> httpx.Response:
        transport = httpx.ASGITransport(cloud.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://cloud") as client:
            parts = {name: known.get(name, value) for name, value in (case.path_parameters or {}).items()}
            path = case.operation.path
            for name, value in parts.items():
                path = path.replace(f"{{{name}}}", str(value))
            headers = {**(case.headers or {}), "X-Auth-Token": "admin"}
            more = {"json": case.body} if case.operation.body else {}
            return await client.request(case.method, path, headers=headers, params=case.query, **more)

    for operation in operations:

        @seed(1)
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=GenerationMode.POSITIVE))
        def holds(case: Any) -> None:
            nonlocal asked
            asked += 1
            answer = hosts_at_work.run(ask(case))
            assert answer.status_code < 500, (case.method, str(answer.url), case.body, answer.text)
            case.validate_response(answer, checks=[response_schema_conformance, status_code_conformance])

        holds()
    assert asked > EXAMPLES * 60


def things(cloud: Any) -> dict[str, str]:
    """Things that are there, by the name of the parameter that stands for each."""
    server = cloud.server(hints={"group": cloud.group()}, metadata={"k": "v"})
    cloud.post("/os-keypairs", {"keypair": {"name": "key"}}, version="2.2")
    made = cloud.post("/os-aggregates", {"aggregate": {"name": "rack"}}).json["aggregate"]
    return {
        "server_id": server,
        "move_id": cloud.world.rows("move")[0]["id"],
        "flavor_id": "100",
        "aggregate_id": str(made["id"]),
        "project_id": "a" * 32,
        "quota_class": "default",
        "hypervisor_id": cloud.world.host_id("node1"),
    }
