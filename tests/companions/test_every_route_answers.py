"""Every route of the four tables, on both engines: it answers, and knows when nothing is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from berthold.companions import identity_admin_api, image_api, ports_api, volume_routes
from berthold.companions.http import Route
from berthold.ledger.store import Store
from companions_cloud import Cloud

NOBODY = "00000000-0000-4000-8000-000000000000"
TABLES: list[tuple[str, tuple[Route, ...], tuple[Route, ...]]] = [
    ("/identity", identity_admin_api.OPEN_ROUTES, identity_admin_api.ROUTES),
    ("/image", image_api.OPEN_ROUTES, image_api.ROUTES),
    ("/volume", volume_routes.OPEN_ROUTES, volume_routes.ROUTES),
    ("/network", ports_api.OPEN_ROUTES, ports_api.ROUTES),
]


@pytest.fixture
def cloud(store: Store, tmp_path: Path) -> Cloud:
    return Cloud(tmp_path, store)


@pytest.mark.parametrize(("prefix", "open_routes", "routes"), TABLES)
def test_every_address_answers_for_an_admin_and_only_open_ones_for_a_stranger(
    cloud: Cloud, prefix: str, open_routes: tuple[Route, ...], routes: tuple[Route, ...]
) -> None:
    token = cloud.log_in()
    for method, path, _ in open_routes:
        assert cloud.ask(method, prefix + path).status_code != 401 or path.endswith("/tokens")
    for method, path, _ in routes:
        address = prefix + path
        for name in (
            "{project_id}",
            "{project}",
            "{user}",
            "{role}",
            "{id}",
            "{tag}",
            "{key}",
            "{credential}",
        ):
            address = address.replace(name, NOBODY)
        assert cloud.ask(method, address).status_code == 401
        answered = cloud.ask(method, address, token, json={} if method in ("POST", "PUT", "PATCH") else None)
        assert answered.status_code < 500, (method, address, answered.text)
        if method == "GET" and "{" not in path and not path.endswith("/tokens"):
            assert answered.status_code in (200, 300), (address, answered.text)


def test_a_bug_is_in_the_log_under_the_id_that_the_client_is_told(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: Any) -> None:
        raise RuntimeError("images are upside down")

    monkeypatch.setattr("berthold.companions.image.images_of", breaks)
    with capture_logs() as lines:
        answered = cloud.ask("GET", "/image/v2/images", cloud.log_in())
    (line,) = [line for line in lines if line["event"] == "request failed"]
    assert (answered.status_code, "upside down" in answered.text) == (500, False)
    assert line["request"] == answered.headers["x-openstack-request-id"]
    assert line["request"] in answered.text


def test_what_was_made_over_http_is_listed_by_its_filters(cloud: Cloud) -> None:
    token = cloud.log_in()
    image = cloud.ask(
        "POST", "/image/v2/images", token, json={"name": "i", "tags": ["a"], "kind": "b"}
    ).json()
    content = bytes(range(256)) * 5000
    path = f"/image/v2/images/{image['id']}"
    assert cloud.ask("PUT", f"{path}/file", token, content=content).status_code == 204
    assert cloud.ask("PUT", f"{path}/file", token, content=b"again").status_code == 409
    assert cloud.ask("GET", f"{path}/file", token).content == content
    for query in (
        f"id=in:{image['id']},x",
        "name=i",
        "tag=a",
        "kind=b",
        "kind=b&sort=name:asc",
    ):
        found = cloud.ask("GET", f"/image/v2/images?{query}", token).json()["images"]
        assert [row["id"] for row in found] == [image["id"]], query
    assert cloud.ask("GET", "/image/v2/images?id=in%3A", token).json()["images"] == []

    body = {"volume": {"size": 1, "name": "v", "imageRef": image["id"]}}
    volume = cloud.ask("POST", "/volume/v3/volumes", token, json=body).json()["volume"]
    assert volume["volume_image_metadata"]["image_id"] == image["id"]
    assert (volume["bootable"], volume["status"]) == ("true", "available")
    for query in (
        "name=v",
        "status=available",
        "bootable=true",
        "all_tenants=1&limit=1",
        f"id={volume['id']}",
    ):
        found = cloud.ask("GET", f"/volume/v3/volumes/detail?{query}", token).json()["volumes"]
        assert [row["id"] for row in found] == [volume["id"]], query
    assert cloud.ask("GET", "/volume/v3/volumes/detail?name=w", token).json() == {"volumes": []}

    (private,) = cloud.ask("GET", "/network/v2.0/networks?name=private&shared=true", token).json()["networks"]
    made = cloud.ask(
        "POST", "/network/v2.0/ports", token, json={"port": {"network_id": private["id"]}}
    ).json()
    for query in (f"network_id={private['id']}", f"mac_address={made['port']['mac_address']}"):
        found = cloud.ask("GET", f"/network/v2.0/ports?{query}", token).json()["ports"]
        assert [row["id"] for row in found] == [made["port"]["id"]], query
    assert cloud.ask("GET", "/network/v2.0/ports?device_id=nobody", token).json() == {"ports": []}
