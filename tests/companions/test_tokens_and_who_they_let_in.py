"""Logging in, and what voids a token."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from berthold.companions import identity
from berthold.companions.logins import REMEMBERED_SECONDS, EmbeddedIdentity
from berthold.companions.schema import identity_domain
from berthold.errors import Unauthenticated
from berthold.settings import Settings
from companions_cloud import CHEAP, KEY, Cloud


def refused(cloud: Cloud, token: str) -> bool:
    """Whether the token is refused, by the protocol and over HTTP alike."""
    try:
        asyncio.run(cloud.four.identity.who(token))
    except Unauthenticated:
        assert cloud.ask("GET", "/image/v2/images", token).status_code == 401
        return True
    assert cloud.ask("GET", "/image/v2/images", token).status_code == 200
    return False


def test_who_is_said_by_the_token_with_implied_roles(cloud: Cloud) -> None:
    actor = asyncio.run(cloud.four.identity.who(cloud.tenant("ann")))
    assert (actor.user_name, actor.project_name) == ("ann", "ann")
    assert actor.roles == {"member", "reader"}
    assert not actor.is_admin
    assert actor.token_expires_at == cloud.clock.now() + cloud.store.settings.token_s


def test_a_token_lasts_as_long_as_it_is_set_to(tmp_path: Path) -> None:
    cloud = Cloud(tmp_path, settings=Settings(token_s=60.0))
    token = cloud.log_in()
    assert not refused(cloud, token)
    cloud.clock.advance(61)
    assert refused(cloud, token)
    cloud.store.close()


@pytest.mark.parametrize(
    ("user", "password", "project"),
    [
        ("admin", "wrong", "admin"),
        ("nobody", "secret", "admin"),
        ("admin", "secret", "nowhere"),
        ("admin", "", None),
    ],
)
def test_a_failed_login_does_not_say_what_was_wrong(
    cloud: Cloud, user: str, password: str, project: str | None
) -> None:
    response = cloud.try_to_log_in(user, password, project)
    assert response.status_code == 401
    assert response.json()["error"]["message"] == "the request you have made requires authentication"


def test_an_unknown_user_costs_as_much_as_a_known_one(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []

    def matches(known: str, _: str) -> bool:
        checked.append(known)
        return False

    monkeypatch.setattr(cloud.four.identity, "_matches", matches)
    cloud.try_to_log_in("admin", "wrong", "admin")
    cloud.try_to_log_in("nobody", "wrong", "admin")
    parameters = [known.rsplit("$", 2)[0] for known in checked]
    assert len(parameters) == 2
    assert parameters[0] == parameters[1]


def test_a_token_ends_with_its_time_or_when_it_is_given_back(cloud: Cloud) -> None:
    token = cloud.log_in()
    assert not refused(cloud, token)
    cloud.clock.advance(cloud.store.settings.token_s)
    assert refused(cloud, token)

    token = cloud.log_in()
    revoked = cloud.ask("DELETE", "/identity/v3/auth/tokens", token, headers={"X-Subject-Token": token})
    assert revoked.status_code == 204
    assert refused(cloud, token)


def test_a_changed_or_foreign_token_is_none(cloud: Cloud) -> None:
    head, body, signature = cloud.log_in().split(".")
    for token in (
        f"{head}.{body}.{signature[:-4]}AAAA",
        f"{head}.{body}.",
        "x",
        "a.b.c",
        "é",
        f"{head}.e30.{signature}",
    ):
        with pytest.raises(Unauthenticated):
            asyncio.run(cloud.four.identity.who(token))


@pytest.mark.parametrize("change", [{"enabled": False}, {"password": "other"}])
def test_disabling_a_user_or_changing_the_password_voids_tokens_at_once(
    cloud: Cloud, change: dict[str, Any]
) -> None:
    token = cloud.tenant("ann")
    user = asyncio.run(cloud.four.identity.who(token)).user_id
    response = cloud.ask("PATCH", f"/identity/v3/users/{user}", cloud.log_in(), json={"user": change})
    assert response.status_code == 200
    assert refused(cloud, token)


def test_what_another_process_takes_away_ends_within_seconds(cloud: Cloud) -> None:
    token = cloud.tenant("ann")
    assert not refused(cloud, token)
    elsewhere = EmbeddedIdentity(cloud.store, KEY, hasher=CHEAP)
    asyncio.run(elsewhere.revoke(token))
    cloud.clock.advance(REMEMBERED_SECONDS)
    assert refused(cloud, token)


def test_a_disabled_project_and_a_lost_role_end_access(cloud: Cloud) -> None:
    ann, bob = cloud.tenant("ann"), cloud.tenant("bob")
    admin = cloud.log_in()
    project = asyncio.run(cloud.four.identity.who(ann)).project_id
    off = {"project": {"enabled": False}}
    assert cloud.ask("PATCH", f"/identity/v3/projects/{project}", admin, json=off).status_code == 200
    assert refused(cloud, ann)

    actor = asyncio.run(cloud.four.identity.who(bob))
    (member,) = cloud.ask("GET", "/identity/v3/roles?name=member", admin).json()["roles"]
    path = f"/identity/v3/projects/{actor.project_id}/users/{actor.user_id}/roles/{member['id']}"
    assert cloud.ask("GET", path, admin).status_code == 204
    assert cloud.ask("DELETE", path, admin).status_code == 204
    assert refused(cloud, bob)


def test_an_unscoped_token_logs_in_to_a_project_and_does_nothing_else(cloud: Cloud) -> None:
    token = cloud.log_in(project=None)
    assert refused(cloud, token)
    (project,) = cloud.ask("GET", "/identity/v3/auth/projects", token).json()["projects"]
    proof = {"methods": ["token"], "token": {"id": token}}
    auth = {"identity": proof, "scope": {"project": {"id": project["id"]}}}
    cloud.clock.advance(60)
    response = cloud.ask("POST", "/identity/v3/auth/tokens", json={"auth": auth})
    assert response.status_code == 201
    traded = response.headers["x-subject-token"]
    assert not refused(cloud, traded)
    ends = [asyncio.run(cloud.four.identity.bearer(t)).ticket.expires_at for t in (token, traded)]
    assert ends[0] == ends[1], "trading does not prolong"


def test_names_are_unique_and_passwords_are_not_kept(cloud: Cloud) -> None:
    cloud.tenant("ann")
    again = cloud.ask("POST", "/identity/v3/users", cloud.log_in(), json={"user": {"name": "ann"}})
    assert again.status_code == 409
    users = cloud.ask("GET", "/identity/v3/users", cloud.log_in()).text
    assert "argon2" not in users


def test_links_and_catalog_name_the_address_that_was_asked(cloud: Cloud) -> None:
    assert cloud.ask("GET", "/identity").status_code == 300
    shown = cloud.ask("GET", "/identity/v3").json()["version"]
    assert shown["links"][0]["href"] == "http://cloud:5000/identity/v3/"
    catalog = cloud.ask("GET", "/identity/v3/auth/catalog", cloud.log_in()).json()["catalog"]
    urls = {service["type"]: service["endpoints"][0]["url"] for service in catalog}
    assert urls["block-storage"] == "http://cloud:5000/volume/v3"
    for path, status in (("/image", 300), ("/volume/v3/", 200), ("/network", 200), ("/identity/v3/", 200)):
        assert cloud.ask("GET", path).status_code == status


def test_a_name_means_a_user_or_a_project_in_its_domain(cloud: Cloud) -> None:
    admin = cloud.log_in()
    cloud.tenant("ann")
    cloud.store.write_now(lambda tx: identity.add(tx, identity_domain, id="other", name="Other"))
    listed = cloud.ask("GET", "/identity/v3/domains", admin).json()["domains"]
    assert {domain["id"]: domain["name"] for domain in listed} == {"default": "Default", "other": "Other"}
    assert cloud.ask("GET", "/identity/v3/domains/other", admin).json()["domain"]["name"] == "Other"
    assert cloud.ask("GET", "/identity/v3/domains/none", admin).status_code == 404

    wish: dict[str, Any] = {"name": "ann", "password": "hers", "domain_id": "other"}
    hers = cloud.ask("POST", "/identity/v3/users", admin, json={"user": wish})
    assert (hers.status_code, hers.json()["user"]["domain_id"]) == (201, "other")
    for noun in ("user", "project"):
        nowhere = {"name": "x", "domain_id": "none"}
        assert cloud.ask("POST", f"/identity/v3/{noun}s", admin, json={noun: nowhere}).status_code == 404

    def log_in(domain: dict[str, str], password: str) -> str | None:
        user = {"name": "ann", "domain": domain, "password": password}
        auth = {"identity": {"methods": ["password"], "password": {"user": user}}}
        response = cloud.ask("POST", "/identity/v3/auth/tokens", json={"auth": auth})
        return response.json()["token"]["user"]["id"] if response.status_code == 201 else None

    other = hers.json()["user"]["id"]
    assert log_in({"id": "other"}, "hers") == log_in({"name": "Other"}, "hers") == other
    assert log_in({"id": "default"}, "pw") not in (None, other)
    for domain, password in (({"id": "other"}, "pw"), ({"id": "default"}, "hers"), ({"name": "none"}, "pw")):
        assert log_in(domain, password) is None


def test_the_names_of_who_has_which_role_are_told_when_asked_for(cloud: Cloud) -> None:
    admin = cloud.log_in()
    path = "/identity/v3/role_assignments"
    for query, named in (("", False), ("?include_names", True), ("?include_names=True", True)):
        (told,) = cloud.ask("GET", path + query, admin).json()["role_assignments"]
        assert (told["user"].get("name") == told["scope"]["project"].get("name") == "admin") is named
    assert cloud.ask("GET", f"{path}?include_names=0", admin).json()["role_assignments"][0][
        "role"
    ].keys() == {"id"}
    assert cloud.ask("GET", f"{path}?include_names=perhaps", admin).status_code == 400


def test_identity_says_which_projects_there_are(cloud: Cloud) -> None:
    identity, admin = cloud.four.identity, cloud.log_in()
    made = cloud.ask("POST", "/identity/v3/projects", admin, json={"project": {"name": "short-lived"}})
    project = made.json()["project"]["id"]
    assert asyncio.run(identity.project_exists(project))
    assert cloud.ask("DELETE", f"/identity/v3/projects/{project}", admin).status_code == 204
    assert not asyncio.run(identity.project_exists(project))
    assert not asyncio.run(identity.project_exists("anything"))
