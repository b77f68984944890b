"""Application credentials: what they open, what they do not, and what ends them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import delete, select

from berthold.companions.http import stamp
from berthold.companions.identity_api import STAMP
from berthold.companions.schema import identity_assignment, identity_credential
from berthold.ledger.store import Store
from companions_cloud import Cloud

REFUSED = "the request you have made requires authentication"


class Owner:
    """A user with a project of its own, and requests about the user's credentials."""

    def __init__(self, cloud: Cloud, name: str = "ann") -> None:
        self.cloud = cloud
        self.token = cloud.tenant(name) if name != "admin" else cloud.log_in()
        shown = cloud.ask("GET", "/identity/v3/auth/tokens", self.token, headers=subject(self.token)).json()
        self.id = shown["token"]["user"]["id"]
        self.project = shown["token"]["project"]["id"]
        self.path = f"/identity/v3/users/{self.id}/application_credentials"

    def try_to_make(self, token: str | None = None, **wish: Any) -> httpx.Response:
        body = {"application_credential": {"name": "robot", **wish}}
        return self.cloud.ask("POST", self.path, token or self.token, json=body)

    def make(self, **wish: Any) -> dict[str, Any]:
        response = self.try_to_make(**wish)
        assert response.status_code == 201, response.text
        made: dict[str, Any] = response.json()["application_credential"]
        return made


def subject(token: str) -> dict[str, str]:
    return {"X-Subject-Token": token}


def log_in(cloud: Cloud, scope: Any = None, **proof: Any) -> httpx.Response:
    auth: dict[str, Any] = {
        "identity": {"methods": ["application_credential"], "application_credential": proof}
    }
    if scope:
        auth["scope"] = scope
    return cloud.ask("POST", "/identity/v3/auth/tokens", json={"auth": auth})


def token_of(cloud: Cloud, made: dict[str, Any]) -> str:
    response = log_in(cloud, id=made["id"], secret=made["secret"])
    assert response.status_code == 201, response.text
    return str(response.headers["x-subject-token"])


def opens(cloud: Cloud, token: str) -> bool:
    return cloud.ask("GET", "/image/v2/images", token).status_code == 200


def test_a_credential_logs_in_to_its_project_with_its_roles_by_id_and_by_name(cloud: Cloud) -> None:
    ann = Owner(cloud)
    made = ann.make(description="for the night", roles=[{"name": "reader"}])
    assert (made["project_id"], made["unrestricted"], made["expires_at"]) == (ann.project, False, None)
    assert [role["name"] for role in made["roles"]] == ["reader"]

    by_name = {"name": "robot", "user": {"name": "ann", "domain": {"id": "default"}}}
    for call in ({"id": made["id"]}, by_name, {"name": "robot", "user": {"id": ann.id}}):
        response = log_in(cloud, secret=made["secret"], **call)
        assert response.status_code == 201, response.text
        token = response.json()["token"]
        assert (token["user"]["id"], token["project"]["id"]) == (ann.id, ann.project)
        assert [role["name"] for role in token["roles"]] == ["reader"]
        assert token["methods"] == ["application_credential"]
        assert token["application_credential"] == {"id": made["id"], "name": "robot", "restricted": True}
        assert opens(cloud, response.headers["x-subject-token"])


def test_without_wishes_it_has_what_its_maker_has(cloud: Cloud) -> None:
    assert {role["name"] for role in Owner(cloud).make()["roles"]} == {"member", "reader"}
    roles = Owner(cloud, "admin").make(roles=[{"name": "member"}])["roles"]
    assert [role["name"] for role in roles] == ["member"], "an admin's implied role may be given on alone"


def test_the_secret_is_shown_once_and_kept_as_a_hash(cloud: Cloud) -> None:
    ann = Owner(cloud)
    drawn, chosen = ann.make(), ann.make(name="other", secret="my own words")
    assert len(drawn["secret"]) > 64
    assert chosen["secret"] == "my own words"
    seen = cloud.ask("GET", ann.path, ann.token).text
    seen += cloud.ask("GET", f"{ann.path}/{drawn['id']}", ann.token).text
    seen += cloud.ask("GET", f"{ann.path}?name=other", ann.token).text
    kept = cloud.store.read_now(lambda tx: str(tx.execute(select(identity_credential)).all()))
    for secret in (drawn["secret"], chosen["secret"]):
        assert secret not in seen
        assert secret not in kept
    assert "secret" not in seen.replace('"secret_', "")


def test_no_log_has_a_secret_at_any_level(cloud: Cloud, caplog: pytest.LogCaptureFixture) -> None:
    ann = Owner(cloud)
    with caplog.at_level(logging.DEBUG):
        made = ann.make(secret="open sesame")
        token = token_of(cloud, made)
        log_in(cloud, id=made["id"], secret="open sesam")
        ann.try_to_make(secret="open sesame", expires_at="never")
        opens(cloud, token)
    assert "open sesam" not in caplog.text
    assert token not in caplog.text


def test_whatever_is_wrong_the_refusal_is_the_same(cloud: Cloud) -> None:
    ann = Owner(cloud)
    made = ann.make()
    for proof in (
        {"id": made["id"], "secret": "wrong"},
        {"id": "nobody", "secret": made["secret"]},
        {"name": "robot", "user": {"name": "nobody"}, "secret": made["secret"]},
        {"name": "other", "user": {"id": ann.id}, "secret": made["secret"]},
    ):
        response = log_in(cloud, **proof)
        assert (response.status_code, response.json()["error"]["message"]) == (401, REFUSED)
    scope = {"project": {"id": ann.project}}
    scoped = log_in(cloud, scope, id=made["id"], secret=made["secret"])
    assert scoped.status_code == 401
    assert "cannot request a scope" in scoped.text
    assert log_in(cloud, name="robot", secret="x").status_code == 400


def test_nobody_gives_on_more_than_he_has(cloud: Cloud) -> None:
    ann = Owner(cloud)
    roles: Any
    for roles in ([{"name": "admin"}], [{"id": "nothing"}], [{"name": "reader"}, {"name": "no such"}], [{}]):
        assert ann.try_to_make(roles=roles).status_code == 400
    assert "say which role" in ann.try_to_make(roles=[{}]).text
    reader = token_of(cloud, ann.make(roles=[{"name": "reader"}], unrestricted=True))
    assert ann.try_to_make(reader, name="more", roles=[{"name": "member"}]).status_code == 400
    less = ann.try_to_make(reader, name="less").json()["application_credential"]
    assert [role["name"] for role in less["roles"]] == ["reader"]


def test_a_restricted_one_makes_and_removes_none_whatever_its_token_is_traded_for(cloud: Cloud) -> None:
    admin = Owner(cloud, "admin")
    made = admin.make()
    token = token_of(cloud, made)
    auth = {"identity": {"methods": ["token"], "token": {"id": token}}}
    traded = cloud.ask("POST", "/identity/v3/auth/tokens", json={"auth": auth})
    assert traded.json()["token"]["project"]["id"] == admin.project
    for restricted in (token, traded.headers["x-subject-token"]):
        assert admin.try_to_make(restricted, name="child").status_code == 403
        assert cloud.ask("DELETE", f"{admin.path}/{made['id']}", restricted).status_code == 403
        assert cloud.ask("GET", admin.path, restricted).status_code == 200

    other = cloud.ask(
        "POST", "/identity/v3/projects", admin.token, json={"project": {"name": "other"}}
    ).json()
    (role,) = cloud.ask("GET", "/identity/v3/roles?name=admin", admin.token).json()["roles"]
    where = f"/identity/v3/projects/{other['project']['id']}/users/{admin.id}/roles/{role['id']}"
    assert cloud.ask("PUT", where, admin.token).status_code == 204
    elsewhere = {**auth, "scope": {"project": {"id": other["project"]["id"]}}}
    assert cloud.ask("POST", "/identity/v3/auth/tokens", json={"auth": elsewhere}).status_code == 401

    free = token_of(cloud, admin.make(name="free", unrestricted=True))
    child = admin.try_to_make(free, name="child").json()["application_credential"]
    assert cloud.ask("DELETE", f"{admin.path}/{child['id']}", free).status_code == 204


def test_it_ends_at_its_time_and_so_does_its_token(cloud: Cloud) -> None:
    ann = Owner(cloud)
    for wrong in ("yesterday", "1970-01-01T00:00:00", "2030-13-01T00:00:00", "0001-01-01T00:00:00+23:59"):
        assert ann.try_to_make(expires_at=wrong).status_code == 400, wrong
    lasting = token_of(cloud, ann.make(name="lasting"))
    ends = cloud.clock.now() + 60
    text = stamp(ends, STAMP)
    made = ann.make(expires_at=text)
    assert made["expires_at"] == text
    token = token_of(cloud, made)
    assert opens(cloud, token)
    cloud.clock.advance(61)
    assert not opens(cloud, token)
    assert log_in(cloud, id=made["id"], secret=made["secret"]).status_code == 401
    assert opens(cloud, lasting)
    cloud.clock.advance(cloud.store.settings.token_s)
    assert not opens(cloud, lasting)


@pytest.fixture(params=["deleted", "role lost", "user disabled", "user gone", "project gone"])
def ending(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_what_ends_it(store: Store, tmp_path: Path, ending: str) -> None:
    cloud = Cloud(tmp_path, store)
    ann, admin = Owner(cloud), cloud.log_in()
    made = ann.make(roles=[{"name": "reader"}])
    token = token_of(cloud, made)
    (member,) = cloud.ask("GET", "/identity/v3/roles?name=member", admin).json()["roles"]
    role = f"/identity/v3/projects/{ann.project}/users/{ann.id}/roles/{member['id']}"
    match ending:
        case "deleted":
            answered = cloud.ask("DELETE", f"{ann.path}/{made['id']}", ann.token)
        case "role lost":
            answered = cloud.ask("DELETE", role, admin)
        case "user disabled":
            off = {"user": {"enabled": False}}
            answered = cloud.ask("PATCH", f"/identity/v3/users/{ann.id}", admin, json=off)
        case "user gone":
            answered = cloud.ask("DELETE", f"/identity/v3/users/{ann.id}", admin)
        case _:
            answered = cloud.ask("DELETE", f"/identity/v3/projects/{ann.project}", admin)
    assert answered.status_code in (200, 204)
    assert not opens(cloud, token)
    assert log_in(cloud, id=made["id"], secret=made["secret"]).status_code == 401
    rows = store.read_now(lambda tx: tx.execute(select(identity_credential)).all())
    assert len(rows) == (1 if ending == "user disabled" else 0)
    if ending == "role lost":
        # Not even the same role brings it back.
        assert cloud.ask("PUT", role, admin).status_code == 204
        assert log_in(cloud, id=made["id"], secret=made["secret"]).status_code == 401


def test_a_role_that_is_still_implied_keeps_it(cloud: Cloud) -> None:
    ann, admin = Owner(cloud), cloud.log_in()
    made = ann.make(roles=[{"name": "reader"}])
    roles = {
        role["name"]: role["id"] for role in cloud.ask("GET", "/identity/v3/roles", admin).json()["roles"]
    }
    path = f"/identity/v3/projects/{ann.project}/users/{ann.id}/roles"
    assert cloud.ask("PUT", f"{path}/{roles['reader']}", admin).status_code == 204
    assert cloud.ask("DELETE", f"{path}/{roles['member']}", admin).status_code == 204
    assert opens(cloud, token_of(cloud, made))


def test_others_do_not_see_it_and_an_administrator_may_list_and_remove_but_not_make_it(cloud: Cloud) -> None:
    ann, bob, admin = Owner(cloud), Owner(cloud, "bob"), cloud.log_in()
    made = ann.make()
    one = f"{ann.path}/{made['id']}"
    for method, path in (("GET", ann.path), ("POST", ann.path), ("GET", one), ("DELETE", one)):
        assert cloud.ask(method, path, bob.token, json={} if method == "POST" else None).status_code == 404
    assert cloud.ask("GET", f"{bob.path}/{made['id']}", bob.token).status_code == 404
    assert cloud.ask("DELETE", f"{bob.path}/{made['id']}", bob.token).status_code == 404
    assert ann.try_to_make(admin, name="planted").status_code == 403
    assert cloud.ask("GET", one, admin).status_code == 200
    assert cloud.ask("DELETE", one, admin).status_code == 204


def test_names_are_one_users_and_bad_wishes_are_refused(cloud: Cloud) -> None:
    ann, bob = Owner(cloud), Owner(cloud, "bob")
    ann.make()
    bob.make()
    assert ann.try_to_make().status_code == 409
    for wish in (
        {"name": ""},
        {"name": 1},
        {"roles": "all"},
        {"access_rules": [{"path": "/v2.1/servers", "method": "GET", "service": "compute"}]},
        {"project_id": bob.project},
        {"secret": ""},
    ):
        assert ann.try_to_make(**wish).status_code == 400, wish
    for late in ("9999-12-31T23:59:59-01:00", "2001-01-01T00:00:00", "soon"):
        refused = ann.try_to_make(name="more", expires_at=late)
        assert (refused.status_code, "expires_at is a" in refused.text) == (400, True), late
    unscoped = cloud.try_to_log_in("ann", "pw", None).headers["x-subject-token"]
    assert ann.try_to_make(unscoped, name="more").status_code == 403


def test_a_changed_password_voids_tokens_and_not_the_credential(cloud: Cloud) -> None:
    ann, admin = Owner(cloud), cloud.log_in()
    made = ann.make()
    token = token_of(cloud, made)
    new = {"user": {"password": "other"}}
    assert cloud.ask("PATCH", f"/identity/v3/users/{ann.id}", admin, json=new).status_code == 200
    assert not opens(cloud, token)
    assert opens(cloud, token_of(cloud, made))


def test_a_credential_whose_role_went_behind_its_back_opens_nothing(cloud: Cloud) -> None:
    """Removed where credentials are not known of: the look at login judges, not the removal alone."""
    ann, admin = Owner(cloud), cloud.log_in()
    made = ann.make(name="more", roles=[{"name": "member"}])
    (member,) = cloud.ask("GET", "/identity/v3/roles?name=member", admin).json()["roles"]
    given = identity_assignment.c.user_id == ann.id, identity_assignment.c.role_id == member["id"]
    cloud.store.write_now(lambda tx: tx.execute(delete(identity_assignment).where(*given)))
    assert log_in(cloud, id=made["id"], secret=made["secret"]).status_code == 401
