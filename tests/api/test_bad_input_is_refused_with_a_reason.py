"""Whatever a client sends, the answer is a 4xx that helps, never a 5xx, and nothing is stored."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from berthold.records import flavors

GROUPS = "/v2.1/os-server-groups"


def stored(cloud: Any) -> int:
    return len(cloud.get("/os-server-groups?all_projects=1").json["server_groups"])


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"server_group"',
        b"{}",
        b'{"server_group": null}',
        b'{"server_group": []}',
        b'{"server_group": {"name": "a", "policies": ["affinity"], "surprise": 1}}',
        b'{"server_group": {"name": "a", "policies": ["affinity"]}, "surprise": 1}',
        b'{"server_group": {"name": 7, "policies": ["affinity"]}}',
        b'{"server_group": {"name": "", "policies": ["affinity"]}}',
        b'{"server_group": {"name": " a", "policies": ["affinity"]}}',
        b'{"server_group": {"name": "a\\u0000b", "policies": ["affinity"]}}',
        b'{"server_group": {"name": "a", "policies": ["chaos"]}}',
        b'{"server_group": {"name": "a", "policies": []}}',
        b'{"server_group": {"name": "a", "policies": ["affinity", "anti-affinity"]}}',
        b'{"server_group": {"name": "a", "policies": "affinity"}}',
        b'{"server_group": {"name": "a"}}',
        b'{"server_group": {"name": "a", "policy": "affinity"}}',
        b'{"server_group": {"name": "\xff\xfe", "policies": ["affinity"]}}',
        b'{"server_group": {"name": "\\ud800", "policies": ["affinity"]}}',
        b'{"server_group": {"name": "' + b"x" * 256 + b'", "policies": ["affinity"]}}',
        b'{"server_group": {"name": "a", "policies": ["soft-affinity"]}}',
        b"[" * 100_000,
        b'{"server_group":' * 500 + b"1" + b"}" * 500,
        b"9" * 6000,
        b'{"server_group": 1e999}',
    ],
)
def test_a_bad_body_is_400(cloud: Any, fault: Any, raw: bytes) -> None:
    answer = cloud.send("POST", GROUPS, "ann", "2.1", content=raw)
    assert fault(answer, 400)
    assert stored(cloud) == 0


@pytest.mark.parametrize("count", [0, -1, 10**30, "x", None, 1.5, True, [], {}])
def test_a_number_that_cannot_be_is_400(cloud: Any, count: Any) -> None:
    body = {"server_group": {"name": "a", "policy": "anti-affinity", "rules": {"max_server_per_host": count}}}
    answer = cloud.post("/os-server-groups", body, "ann", "2.64")
    assert answer.status == (200 if count is None else 400), answer.json


def test_the_fault_says_where_and_what_was_expected(cloud: Any, fault: Any) -> None:
    body = {"server_group": {"name": 7, "policies": ["affinity"]}}
    message = fault(cloud.post("/os-server-groups", body, "ann"), 400)
    assert "Expected `str`, got `int`" in message
    assert "$.server_group.name" in message


def test_a_body_of_10_mb_is_413_announced_or_not(cloud: Any, fault: Any) -> None:
    big = b'{"server_group": {"name": "' + b"x" * 10_000_000 + b'"}}'
    assert "1000000 bytes" in fault(cloud.send("POST", GROUPS, "ann", content=big), 413)

    async def slowly() -> Any:
        for start in range(0, len(big), 100_000):
            yield big[start : start + 100_000]

    fault(cloud.send("POST", GROUPS, "ann", content=slowly()), 413)
    assert stored(cloud) == 0


def test_a_body_that_is_not_json_by_its_own_word_is_415(cloud: Any, fault: Any) -> None:
    answer = cloud.send("POST", GROUPS, "ann", content=b"<a/>", headers={"Content-Type": "application/xml"})
    assert "application/json" in fault(answer, 415)


@pytest.mark.parametrize("path", ["/nothing", "/flavors/1/2/3", "/os-server-groups/%00", "/flavors%00"])
def test_an_unknown_path_is_404(cloud: Any, fault: Any, path: str) -> None:
    fault(cloud.get(path), 404)


def test_an_unknown_api_version_in_the_path_is_404(cloud: Any, fault: Any) -> None:
    fault(cloud.send("GET", "/v3/flavors"), 404)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"])
def test_a_method_that_is_not_there_is_405_and_says_which_are(cloud: Any, method: str) -> None:
    answer = cloud.send(method, GROUPS, "ann")
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, POST"


@pytest.mark.parametrize(
    "query",
    [
        "limit=x",
        "limit=-1",
        "limit=" + "9" * 30,
        "marker=nobody",
        "sort_key=moon",
        "sort_dir=sideways",
        "minRam=a",
        "is_public=maybe",
        "marker=%00",
        "marker=" + "x" * 2000,
    ],
)
def test_a_bad_query_is_400(cloud: Any, fault: Any, query: str) -> None:
    fault(cloud.get(f"/flavors?{query}"), 400)


def test_unknown_query_parameters_are_refused_from_2_75_on(cloud: Any, fault: Any) -> None:
    assert cloud.get("/flavors?colour=red", version="2.74").status == 200
    assert "colour" in fault(cloud.get("/flavors?colour=red", version="2.75"), 400)


@pytest.mark.parametrize("token", [None, "nobody", "", "\xff"])
def test_without_a_valid_token_nothing_is_answered(cloud: Any, fault: Any, token: str | None) -> None:
    headers = {} if token is None else {"X-Auth-Token": token.encode("latin-1")}
    for path in ("/v2.1/flavors", "/v2.1/nowhere", "/v9"):
        answer = cloud.send("GET", path, None, headers=headers)
        fault(answer, 401)
        assert answer.headers["WWW-Authenticate"]


def test_a_bug_is_a_500_that_tells_the_client_nothing_and_the_log_everything(
    cloud: Any, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bug(*_: Any, **__: Any) -> None:
        raise KeyError("the secret of flavor 100")

    monkeypatch.setattr(flavors, "page", bug)
    with capture_logs() as lines:
        answer = cloud.send("GET", "/v2.1/flavors", "ann")
    request = answer.headers["x-openstack-request-id"]
    told = fault(answer, 500)
    assert told == f"Unexpected API Error. It is in this cloud's log under {request}."
    (line,) = [line for line in lines if line["event"] == "request failed"]
    assert (line["request"], line["method"], line["path"]) == (request, "GET", "/v2.1/flavors")
    assert line["exc_info"]
