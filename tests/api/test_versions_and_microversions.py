"""Version documents, the two headers, and what happens to a version that we do not have."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.applications import Starlette

from berthold.api.app import mounted
from berthold.api.microversions import HISTORY, NEWEST, Version, Versions


def test_every_microversion_from_2_1_to_2_96_has_its_line() -> None:
    assert list(HISTORY) == [f"2.{minor}" for minor in range(1, 97)]
    assert all(line.endswith(".") for line in HISTORY.values())


def test_a_set_of_versions_is_written_as_ranges() -> None:
    tags = Versions("2.32-2.36 2.42")
    inside = [minor for minor in range(1, 97) if Version(2, minor) in tags]
    assert inside == [*range(32, 37), *range(42, 97)]


@pytest.mark.parametrize("path", ["/v2.1", "/v2.1/"])
def test_the_version_document_needs_no_token(cloud: Any, path: str) -> None:
    answer = cloud.send("GET", path, who=None)
    assert answer.status == 200
    version = answer.json["version"]
    assert set(version) == {"id", "status", "version", "min_version", "updated", "links", "media-types"}
    assert (version["id"], version["status"]) == ("v2.1", "CURRENT")
    assert (version["min_version"], version["version"]) == ("2.1", "2.96")
    assert version["links"][0] == {"rel": "self", "href": "http://cloud/v2.1/"}


def test_the_list_of_versions_needs_no_token(cloud: Any) -> None:
    answer = cloud.send("GET", "/", who=None)
    assert [version["id"] for version in answer.json["versions"]] == ["v2.1"]


def test_the_address_of_the_api_is_answered_with_300_and_below_its_slash_with_200(cloud: Any) -> None:
    cloud.app = Starlette(routes=mounted("/compute", cloud.app))
    bare, slashed = (cloud.send("GET", path, who=None) for path in ("/compute", "/compute/"))
    assert (bare.status, slashed.status) == (300, 200)
    assert bare.json == slashed.json
    assert bare.json["versions"][0]["links"][0]["href"] == "http://cloud/compute/v2.1/"
    assert cloud.send("GET", "/compute/v2.1", who=None).status == 200


@pytest.mark.parametrize(
    ("headers", "served"),
    [
        ({}, "2.1"),
        ({"OpenStack-API-Version": "compute 2.64"}, "2.64"),
        ({"OpenStack-API-Version": "compute 2.9"}, "2.9"),
        ({"OpenStack-API-Version": "volume 3.71, compute 2.12"}, "2.12"),
        ({"OpenStack-API-Version": "volume 3.71"}, "2.1"),
        ({"X-OpenStack-Nova-API-Version": "2.53"}, "2.53"),
        ({"OpenStack-API-Version": "compute latest"}, str(NEWEST)),
        ({"X-OpenStack-Nova-API-Version": "latest"}, str(NEWEST)),
        ({"OpenStack-API-Version": "compute 2.64", "X-OpenStack-Nova-API-Version": "2.2"}, "2.64"),
    ],
)
def test_an_answer_says_in_which_version_it_was_served(cloud: Any, headers: Any, served: str) -> None:
    answer = cloud.get("/flavors", headers=headers)
    assert answer.status == 200
    assert answer.headers["OpenStack-API-Version"] == f"compute {served}"
    assert answer.headers["X-OpenStack-Nova-API-Version"] == served
    assert answer.headers["Vary"] == "OpenStack-API-Version, X-OpenStack-Nova-API-Version"


@pytest.mark.parametrize("asked", ["2.97", "2.0", "1.1", "3.1", "2.999"])
def test_a_version_that_we_do_not_have_is_406(cloud: Any, fault: Any, asked: str) -> None:
    message = fault(cloud.get("/flavors", version=asked), 406)
    assert "Minimum is 2.1 and maximum is 2.96" in message


@pytest.mark.parametrize(
    "asked", ["", "2", "2.x", "two", "2.01", "2.1.1", "-2.1", "2.99999", "٢.١", "2.1 2.2"]
)
def test_a_version_that_cannot_be_read_is_400(cloud: Any, fault: Any, asked: str) -> None:
    answer = cloud.get("/flavors", headers={"X-OpenStack-Nova-API-Version": asked.encode()})
    if asked:
        fault(answer, 400)
    else:
        assert answer.status in (200, 400)


def test_every_answer_has_a_request_id_of_its_own(cloud: Any) -> None:
    answers = [cloud.get("/flavors"), cloud.get("/nowhere"), cloud.send("GET", "/v2.1/flavors", who=None)]
    assert [answer.status for answer in answers] == [200, 404, 401]
    ids = [answer.headers["x-openstack-request-id"] for answer in answers]
    assert all(i.startswith("req-") and len(i) == 40 for i in ids)
    assert len(set(ids)) == 3
