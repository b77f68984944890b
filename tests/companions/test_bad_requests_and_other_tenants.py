"""Tenants are kept apart, and a request that makes no sense is told so and stores nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from berthold.ledger.schema import metadata
from berthold.settings import Settings
from companions_cloud import Cloud

NOBODY = "00000000-0000-4000-8000-000000000000"


# -- Tenants ------------------------------------------------------------------------------


def test_what_is_not_yours_looks_like_what_is_not_there(cloud: Cloud) -> None:
    ann, bob = cloud.tenant("ann"), cloud.tenant("bob")
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("/image/v2/images", {"name": "i"}),
        ("/volume/v3/volumes", {"volume": {"size": 1}}),
        ("/network/v2.0/networks", {"network": {"name": "n"}}),
    ]
    made = {}
    for path, body in bodies:
        answered = cloud.ask("POST", path, ann, json=body).json()
        made[path] = answered.get("id") or next(iter(answered.values()))["id"]
    for collection, thing in made.items():
        for method in ("GET", "DELETE"):
            theirs = cloud.ask(method, f"{collection}/{thing}", bob)
            nobodys = cloud.ask(method, f"{collection}/{NOBODY}", bob)
            assert theirs.status_code == nobodys.status_code == 404
            assert theirs.text.replace(thing, NOBODY) == nobodys.text
        assert thing not in cloud.ask("GET", collection, bob).text
        assert cloud.ask("GET", f"{collection}/{thing}", ann).status_code == 200


def test_members_do_not_administrate(cloud: Cloud) -> None:
    ann = cloud.tenant("ann")
    for path in ("projects", "users", "roles", "domains", "services", "endpoints", "role_assignments"):
        assert cloud.ask("GET", f"/identity/v3/{path}", ann).status_code == 403
    assert cloud.ask("POST", "/identity/v3/users", ann, json={"user": {"name": "x"}}).status_code == 403
    public = {"name": "i", "visibility": "public"}
    assert cloud.ask("POST", "/image/v2/images", ann, json=public).status_code == 403
    shared = {"network": {"name": "n", "shared": True}}
    assert cloud.ask("POST", "/network/v2.0/networks", ann, json=shared).status_code == 403
    (cirros,) = cloud.ask("GET", "/image/v2/images", ann).json()["images"]
    assert cloud.ask("DELETE", f"/image/v2/images/{cirros['id']}", ann).status_code == 403


# -- Requests that make no sense ----------------------------------------------------------

WRITES = [
    ("POST", "/identity/v3/auth/tokens", "auth"),
    ("POST", "/identity/v3/projects", "project"),
    ("POST", "/identity/v3/users", "user"),
    ("POST", "/image/v2/images", "name"),
    ("POST", "/identity/v3/users/{me}/application_credentials", "application_credential"),
    ("POST", "/volume/v3/volumes", "volume"),
    ("POST", "/volume/v3/volumes/{volume}/action", "os-extend"),
    ("POST", "/volume/v3/volumes/{volume}/action", "os-reset_status"),
    ("POST", "/volume/v3/volumes/{volume}/metadata", "metadata"),
    ("POST", "/volume/v3/snapshots", "snapshot"),
    ("PUT", "/volume/v3/os-quota-sets/{project}", "quota_set"),
    ("POST", "/network/v2.0/networks", "network"),
    ("POST", "/network/v2.0/subnets", "subnet"),
    ("POST", "/network/v2.0/ports", "port"),
    ("PUT", "/network/v2.0/quotas/{project}", "quota"),
]
NONSENSE = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'"text"',
    b"\xff\xfe",
    b'{"KEY": 1e999}',
    b'{"KEY": 12}',
    b'{"KEY": ["a"]}',
    b'{"KEY": "\\ud800"}',
    b'{"KEY": {"name": "a\\u0000b", "size": 1}}',
    b'{"KEY": {"name": {"a": 1}, "size": 1}}',
    b'{"KEY": {"size": 123456789012345678901234567890}}',
    b'{"KEY": {"size": -1, "name": 7}}',
    b'{"KEY": ' + b"[" * 200_000,
]


@pytest.mark.parametrize(("method", "path", "key"), WRITES)
def test_a_body_that_makes_no_sense_is_a_bad_request_and_stores_nothing(
    cloud: Cloud, method: str, path: str, key: str
) -> None:
    token = cloud.log_in()
    disk = cloud.ask("POST", "/volume/v3/volumes", token, json={"volume": {"size": 1}}).json()["volume"]
    me = asyncio.run(cloud.four.identity.who(token))
    path = path.format(me=me.user_id, project=me.project_id, volume=disk["id"])
    before = picture(cloud)
    for body in NONSENSE:
        response = cloud.ask(method, path, token, content=body.replace(b"KEY", key.encode()))
        assert response.status_code == 400, (body[:60], response.text)
        assert "message" in response.text
    assert cloud.ask(method, path, token, content=b" " * (1 << 20) + b"{}").status_code == 413
    assert picture(cloud) == before


def picture(cloud: Cloud) -> dict[str, int]:
    """How many rows every table has."""

    def count(tx: Any) -> dict[str, int]:
        return {name: len(tx.execute(table.select()).all()) for name, table in metadata.tables.items()}

    return cloud.store.read_now(count)


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("/identity/v3/nothing", ("error", "code")),
        ("/image/v2/nothing", ("code",)),
        ("/volume/v3/nothing", ("itemNotFound", "code")),
        ("/network/v2.0/nothing", ("NeutronError", "type")),
    ],
)
def test_each_service_has_its_own_faults(cloud: Cloud, path: str, where: tuple[str, ...]) -> None:
    response = cloud.ask("GET", path, cloud.log_in())
    assert response.status_code == 404
    said: Any = response.json()
    for key in where:
        said = said[key]
    assert said in (404, "404 Not Found", "NotFound")
    known = {"identity": "v3/roles", "image": "v2/images", "volume": "v3/volumes", "network": "v2.0/ports"}
    service = path.split("/")[1]
    collection = f"/{service}/{known[service]}"
    wrong = cloud.ask("PUT", collection, cloud.log_in())
    assert wrong.status_code == 405
    assert "GET" in wrong.headers["allow"]
    assert cloud.ask("GET", collection).status_code == 401


@pytest.mark.parametrize(
    "query",
    ["limit=x", "limit=-1", "marker=nobody", "limit=99999999999999999999", "name=a%00b", "limit=%D9%A1"],
)
@pytest.mark.parametrize("path", ["/image/v2/images", "/volume/v3/volumes/detail", "/network/v2.0/networks"])
def test_a_query_that_makes_no_sense_is_a_bad_request(cloud: Cloud, path: str, query: str) -> None:
    assert cloud.ask("GET", f"{path}?{query}", cloud.log_in()).status_code == 400


def test_pages_follow_each_other_to_the_end(cloud: Cloud) -> None:
    token = cloud.log_in()
    for i in range(5):
        cloud.ask("POST", "/image/v2/images", token, json={"name": f"i{i}"})
        cloud.clock.advance(1)
    names: list[str] = []
    following: str | None = "/v2/images?limit=2"
    while following:
        page = cloud.ask("GET", f"/image{following}", token).json()
        names += [row["name"] for row in page["images"]]
        following = page.get("next")
    assert names == ["i4", "i3", "i2", "i1", "i0", "cirros"]


def test_the_largest_body_and_the_longest_page_are_those_of_all_services(tmp_path: Path) -> None:
    cloud = Cloud(tmp_path, settings=Settings(body_max=400, page_max=2))
    token = cloud.log_in()
    for name in ("one", "two"):
        assert cloud.ask("POST", "/image/v2/images", token, json={"name": name}).status_code == 201
    refused = cloud.ask("POST", "/image/v2/images", token, json={"name": "x" * 400})
    assert (refused.status_code, "at most 400 bytes" in refused.text) == (413, True)
    for query in ("", "?limit=3"):
        page = cloud.ask("GET", f"/image/v2/images{query}", token).json()
        assert [len(page["images"]), "next" in page] == [2, True]
    cloud.store.close()


def test_a_patch_changes_what_it_may_and_nothing_else(cloud: Cloud) -> None:
    token = cloud.log_in()
    made = cloud.ask("POST", "/image/v2/images", token, json={"name": "i", "os_distro": "none"}).json()
    path = f"/image/v2/images/{made['id']}"
    for change, status in (
        ({"op": "replace", "path": "/name", "value": "j"}, 200),
        ({"op": "remove", "path": "/os_distro"}, 200),
        ({"op": "add", "path": "/hw_a~1b", "value": "c"}, 200),
        ({"op": "add", "path": "/status", "value": "active"}, 403),
        ({"op": "remove", "path": "/name"}, 403),
        ({"op": "replace", "path": "/absent", "value": "x"}, 400),
        ({"op": "add", "path": "/deep/down", "value": "x"}, 400),
        ({"op": "add", "path": "/number", "value": 5}, 400),
        ({"op": "swap", "path": "/name"}, 400),
    ):
        answered = cloud.ask("PATCH", path, token, content=json.dumps([change]))
        assert answered.status_code == status, (change, answered.text)
    shown = cloud.ask("GET", path, token).json()
    assert (shown["name"], shown["hw_a/b"], "os_distro" in shown) == ("j", "c", False)


def test_a_volume_tolerates_nulls_and_must_be_large_enough(cloud: Cloud) -> None:
    token = cloud.log_in()
    nulls = dict.fromkeys(
        ("imageRef", "source_volid", "snapshot_id", "metadata", "description", "volume_type")
    )
    made = cloud.ask("POST", "/volume/v3/volumes", token, json={"volume": {"size": 2, **nulls}})
    assert made.status_code == 202
    source = made.json()["volume"]["id"]
    small = cloud.ask(
        "POST", "/volume/v3/volumes", token, json={"volume": {"size": 1, "source_volid": source}}
    )
    assert small.status_code == 400
    asyncio.run(cloud.four.volumes.attach(source, "s1", "m", device="/dev/vdb"))
    assert cloud.ask("DELETE", f"/volume/v3/volumes/{source}", token).status_code == 400
    shown = cloud.ask("GET", f"/volume/v3/volumes/{source}", token).json()["volume"]
    assert (shown["status"], shown["attachments"][0]["server_id"]) == ("in-use", "s1")


def test_subnets_stay_apart_and_used_networks_stay(cloud: Cloud) -> None:
    token = cloud.log_in()

    def post(noun: str, **fields: Any) -> httpx.Response:
        return cloud.ask("POST", f"/network/v2.0/{noun}s", token, json={noun: fields})

    on = post("network", name="n").json()["network"]["id"]
    assert post("subnet", network_id=on, cidr="10.1.0.0/24").status_code == 201
    for cidr in ("10.1.0.128/25", "10.1.0.1/24", "rubbish", "10.3.0.0/31"):
        assert post("subnet", network_id=on, cidr=cidr).status_code == 400
    assert post("subnet", network_id=on, cidr="10.2.0.0/24", gateway_ip="10.9.0.1").status_code == 400
    pool = [{"start": "10.2.0.9", "end": "10.2.0.5"}]
    assert post("subnet", network_id=on, cidr="10.2.0.0/24", allocation_pools=pool).status_code == 400
    port = post("port", network_id=on).json()["port"]["id"]
    assert cloud.ask("DELETE", f"/network/v2.0/networks/{on}", token).status_code == 409
    assert cloud.ask("DELETE", f"/network/v2.0/ports/{port}", token).status_code == 204
    assert cloud.ask("DELETE", f"/network/v2.0/networks/{on}", token).status_code == 204
