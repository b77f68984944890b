"""Domains: names of projects and users within them, made and removed; and what the catalog is made of,
shown one by one, as clients look it up."""

from __future__ import annotations

import asyncio

import pytest

from berthold.companions import bootstrap
from companions_cloud import Cloud

DOMAINS = "/identity/v3/domains"


def domain(cloud: Cloud, name: str = "lab") -> str:
    made = cloud.ask("POST", DOMAINS, cloud.log_in(), json={"domain": {"name": name, "enabled": True}})
    assert made.status_code == 201, made.text
    return str(made.json()["domain"]["id"])


def test_a_name_means_another_in_each_domain(cloud: Cloud) -> None:
    admin, lab = cloud.log_in(), domain(cloud)
    project = {"project": {"name": "admin", "domain_id": lab}}
    user = {"user": {"name": "admin", "password": "other", "domain_id": lab}}
    made = cloud.ask("POST", "/identity/v3/projects", admin, json=project).json()["project"]
    theirs = cloud.ask("POST", "/identity/v3/users", admin, json=user).json()["user"]
    (member,) = cloud.ask("GET", "/identity/v3/roles?name=member", admin).json()["roles"]
    path = f"/identity/v3/projects/{made['id']}/users/{theirs['id']}/roles/{member['id']}"
    assert cloud.ask("PUT", path, admin).status_code == 204

    def log_in(password: str, named: dict[str, str]) -> int:
        known = {"name": "admin", "domain": named, "password": password}
        auth = {"identity": {"methods": ["password"], "password": {"user": known}}}
        scope = {"project": {"name": "admin", "domain": named}}
        answer = cloud.ask("POST", "/identity/v3/auth/tokens", json={"auth": {**auth, "scope": scope}})
        if answer.status_code == 201:
            assert answer.json()["token"]["project"]["domain"]["name"] == "lab"
        return answer.status_code

    assert log_in("other", {"name": "lab"}) == log_in("other", {"id": lab}) == 201
    assert log_in("secret", {"name": "lab"}) == 401
    assert cloud.try_to_log_in("admin", "other", "admin").status_code == 401
    listed = cloud.ask("GET", f"/identity/v3/projects?domain_id={lab}", admin).json()["projects"]
    assert [each["id"] for each in listed] == [made["id"]]
    # The cloud begins again, and knows its own admin from theirs.
    asyncio.run(bootstrap(cloud.four, "secret"))
    assert cloud.try_to_log_in("admin", "secret", "admin").status_code == 201


def test_a_domain_is_renamed_and_removed_when_it_is_empty(cloud: Cloud) -> None:
    admin, lab = cloud.log_in(), domain(cloud)
    change = cloud.ask("PATCH", f"{DOMAINS}/{lab}", admin, json={"domain": {"name": "works"}})
    assert (change.status_code, change.json()["domain"]["name"]) == (200, "works")
    project = {"project": {"name": "p", "domain_id": lab}}
    made = cloud.ask("POST", "/identity/v3/projects", admin, json=project).json()["project"]
    refused = cloud.ask("DELETE", f"{DOMAINS}/{lab}", admin)
    assert refused.status_code == 409
    assert "still has a project" in refused.text
    assert cloud.ask("DELETE", f"/identity/v3/projects/{made['id']}", admin).status_code == 204
    assert cloud.ask("DELETE", f"{DOMAINS}/{lab}", admin).status_code == 204
    assert cloud.ask("GET", f"{DOMAINS}/{lab}", admin).status_code == 404


def test_what_a_domain_cannot_be(cloud: Cloud) -> None:
    admin, lab = cloud.log_in(), domain(cloud)
    for wrong in ({"enabled": False}, {"description": "x"}):
        assert cloud.ask("PATCH", f"{DOMAINS}/{lab}", admin, json={"domain": wrong}).status_code == 400
        both = {"domain": {"name": "other", **wrong}}
        assert cloud.ask("POST", DOMAINS, admin, json=both).status_code == 400
    assert cloud.ask("POST", DOMAINS, admin, json={"domain": {"name": "lab"}}).status_code == 409
    same = {"domain": {"name": "Default"}}
    assert cloud.ask("PATCH", f"{DOMAINS}/{lab}", admin, json=same).status_code == 409
    assert cloud.ask("DELETE", f"{DOMAINS}/default", admin).status_code == 409
    ann = cloud.tenant("ann")
    assert cloud.ask("POST", DOMAINS, ann, json={"domain": {"name": "anns"}}).status_code == 403
    assert cloud.ask("DELETE", f"{DOMAINS}/{lab}", ann).status_code == 403


@pytest.mark.parametrize("noun", ["service", "endpoint", "region"])
def test_what_the_catalog_lists_is_shown_by_its_id(cloud: Cloud, noun: str) -> None:
    admin = cloud.log_in()
    listed = cloud.ask("GET", f"/identity/v3/{noun}s", admin).json()[f"{noun}s"]
    assert listed
    for row in listed:
        assert cloud.ask("GET", f"/identity/v3/{noun}s/{row['id']}", admin).json() == {noun: row}
    assert cloud.ask("GET", f"/identity/v3/{noun}s/nobody", admin).status_code == 404
    if noun != "region":
        assert cloud.ask("GET", f"/identity/v3/{noun}s/nobody", cloud.tenant("ann")).status_code == 403
