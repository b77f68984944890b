"""Identity v3 over HTTP: logging in, and the lists that administrators keep."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec import field as named
from sqlalchemy import Row, Table
from starlette.responses import Response

from berthold.companions import identity
from berthold.companions.catalog import catalog
from berthold.companions.http import Asked, Document, answer, nothing, stamp, yes
from berthold.companions.identity import DEFAULT_DOMAIN, DEFAULT_DOMAIN_NAME, Called
from berthold.companions.logins import Bearer
from berthold.companions.schema import identity_domain, identity_role
from berthold.errors import Malformed, NotFound, Unauthenticated

STAMP = "%Y-%m-%dT%H:%M:%S.%fZ"

Name = Annotated[str, Meta(min_length=1, max_length=255)]
Password = Annotated[str, Meta(min_length=1, max_length=4096)]
Words = Annotated[str, Meta(max_length=65535)]


def fault(status: int, title: str, message: str) -> Document:
    """A failure as Keystone says it."""
    return {"error": {"code": status, "message": message, "title": title}}


# -- Bodies -------------------------------------------------------------------------------


class Domain(Struct):
    id: str | None = None
    name: str | None = None


class KnownUser(Struct):
    password: Annotated[str, Meta(max_length=4096)]
    id: str | None = None
    name: str | None = None
    domain: Domain | None = None


class ByPassword(Struct):
    user: KnownUser


class ByToken(Struct):
    id: str


class NamedUser(Struct):
    id: str | None = None
    name: str | None = None
    domain: Domain | None = None


class ByCredential(Struct):
    secret: Annotated[str, Meta(max_length=4096)]
    id: str | None = None
    name: str | None = None
    user: NamedUser | None = None


class Proof(Struct):
    methods: list[str]
    password: ByPassword | None = None
    token: ByToken | None = None
    application_credential: ByCredential | None = None


class KnownProject(Struct):
    id: str | None = None
    name: str | None = None
    domain: Domain | None = None


class ProjectScope(Struct):
    project: KnownProject


class Login(Struct):
    identity: Proof
    scope: ProjectScope | Literal["unscoped"] | None = None


class LoginBody(Struct):
    auth: Login


class NewProject(Struct):
    name: Name
    domain_id: str | None = None
    description: Words | None = None
    enabled: bool = True


class NewProjectBody(Struct):
    project: NewProject


class ProjectChange(Struct, omit_defaults=True):
    name: Name | UnsetType = UNSET
    description: Words | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class ProjectChangeBody(Struct):
    project: ProjectChange


class NewDomain(Struct):
    name: Name
    description: Words | None = None
    enabled: bool = True


class NewDomainBody(Struct):
    domain: NewDomain


class DomainChange(Struct):
    name: Name | UnsetType = UNSET
    description: Words | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET


class DomainBody(Struct):
    domain: DomainChange


class NewUser(Struct):
    name: Name
    password: Password | None = None
    domain_id: str | None = None
    default_project_id: str | None = None
    email: Words | None = None
    description: Words | None = None
    enabled: bool = True


class NewUserBody(Struct):
    user: NewUser


class UserChange(Struct, omit_defaults=True):
    name: Name | UnsetType = UNSET
    password: Password | UnsetType = UNSET
    default_project_id: str | UnsetType | None = UNSET
    email: Words | UnsetType = UNSET
    description: Words | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class UserChangeBody(Struct):
    user: UserChange


class OwnPassword(Struct):
    password: Password
    original: Annotated[str, Meta(max_length=4096)] = named(name="original_password")


class OwnPasswordBody(Struct):
    user: OwnPassword


# -- Versions, logging in -----------------------------------------------------------------


def version(asked: Asked) -> Document:
    return {
        "id": "v3.14",
        "status": "stable",
        "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": f"{asked.home}/identity/v3/"}],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}],
    }


async def versions(asked: Asked) -> Response:
    return answer({"versions": {"values": [version(asked)]}}, 300)


async def version_3(asked: Asked) -> Response:
    return answer({"version": version(asked)})


async def log_in(asked: Asked) -> Response:
    """A token, by password, by application credential, or for another token."""
    wish = (await asked.body(LoginBody)).auth
    project = None
    if isinstance(wish.scope, ProjectScope):
        project = called(wish.scope.project, wish.scope.project.domain)
    proof = wish.identity
    if proof.methods == ["password"] and proof.password is not None:
        user = proof.password.user
        token, bearer = await asked.four.identity.log_in(called(user, user.domain), user.password, project)
    elif proof.methods == ["token"] and proof.token is not None:
        token, bearer = await asked.four.identity.trade(proof.token.id, project)
    elif proof.methods == ["application_credential"] and proof.application_credential is not None:
        if wish.scope is not None:
            raise Unauthenticated("Application credentials cannot request a scope.")
        token, bearer = await log_in_by_credential(asked, proof.application_credential)
    else:
        raise Unauthenticated(
            "log in by `password`, `token` or `application_credential`, and say it in that part of the body"
        )
    return answer(await token_document(asked, bearer), 201, **{"X-Subject-Token": token})


async def log_in_by_credential(asked: Asked, proof: ByCredential) -> tuple[str, Bearer]:
    user = None
    if proof.id is None:
        if proof.name is None or proof.user is None:
            raise Malformed("say which application credential: its id, or its name and its user")
        user = called(proof.user, proof.user.domain)
    return await asked.four.identity.log_in_by_credential(proof.id, proof.name, user, proof.secret)


def called(thing: KnownUser | NamedUser | KnownProject, domain: Domain | None) -> Called:
    if thing.id is None and thing.name is None:
        raise Malformed("say which user or project: its id, or its name and domain")
    return Called(thing.id, thing.name, domain.id if domain else None, domain.name if domain else None)


async def token_document(asked: Asked, bearer: Bearer) -> Document:
    ticket = bearer.ticket
    default = {"id": DEFAULT_DOMAIN, "name": DEFAULT_DOMAIN_NAME}
    domains = {row.id: row.name for row in await asked.four.store.read(identity.listed, identity_domain)}

    def domain(row: Row[Any]) -> Document:
        return {"id": row.domain_id, "name": domains[row.domain_id]} if row.domain_id in domains else default

    user = {"id": bearer.user.id, "name": bearer.user.name, "domain": domain(bearer.user)}
    token: Document = {
        "methods": list(ticket.methods),
        "user": {**user, "password_expires_at": None},
        "audit_ids": [ticket.id],
        "issued_at": stamp(ticket.issued_at, STAMP),
        "expires_at": stamp(ticket.expires_at, STAMP),
    }
    if bearer.project is not None:
        roles = await asked.four.store.read(identity.listed, identity_role)
        project = {"id": bearer.project.id, "name": bearer.project.name, "domain": domain(bearer.project)}
        token["project"] = project
        token["is_domain"] = False
        token["roles"] = [{"id": r.id, "name": r.name} for r in roles if r.name in bearer.roles]
        token["catalog"] = catalog(asked)
    if bearer.credential is not None:
        used = bearer.credential.row
        restricted = not used.unrestricted
        token["application_credential"] = {"id": used.id, "name": used.name, "restricted": restricted}
    return {"token": token}


async def subject(asked: Asked) -> tuple[str, Bearer]:
    """The token that the request is about: the caller's own, or, for an admin, anybody's."""
    token = asked.request.headers.get("x-subject-token")
    if not token:
        raise Malformed("say which token in X-Subject-Token")
    try:
        bearer = await asked.four.identity.bearer(token)
    except Unauthenticated as unknown:
        raise NotFound("this token is not known or no longer valid") from unknown
    if bearer.user.id != asked.actor.user_id:
        asked.need_admin()
    return token, bearer


async def show_token(asked: Asked) -> Response:
    token, bearer = await subject(asked)
    return answer(await token_document(asked, bearer), 200, **{"X-Subject-Token": token})


async def revoke_token(asked: Asked) -> Response:
    token, _ = await subject(asked)
    await asked.four.identity.revoke(token)
    return nothing()


# -- Projects, users, roles, domains ------------------------------------------------------


def listing(asked: Asked, noun: str, documents: list[Document]) -> Document:
    here = asked.home + asked.request.url.path
    return {noun: documents, "links": {"self": here, "next": None, "previous": None}}


def document_of(asked: Asked, noun: str, row: Row[Any]) -> Document:
    links = {"self": f"{asked.home}/identity/v3/{noun}s/{row.id}"}
    if noun == "role":
        return {"id": row.id, "name": row.name, "domain_id": None, "description": None, "links": links}
    if noun == "domain":
        return {"id": row.id, "name": row.name, "description": "", "enabled": True, "links": links}
    shared = {"id": row.id, "name": row.name, "domain_id": row.domain_id, "enabled": row.enabled}
    shared |= {"description": row.description, "options": {}, "links": links}
    if noun == "project":
        return {**shared, "parent_id": row.domain_id, "is_domain": False, "tags": []}
    return {
        **shared,
        "email": row.email or None,
        "default_project_id": row.default_project_id,
        "password_expires_at": None,
    }


async def listed(asked: Asked, noun: str, table: Table) -> Response:
    """A list, by name, domain and whether it is enabled."""
    where: Document = {key: asked.query[key] for key in ("name", "domain_id") if key in asked.query}
    where = {key: value for key, value in where.items() if key in table.c}
    if "enabled" in asked.query and "enabled" in table.c:
        where["enabled"] = yes(asked.query["enabled"])
    rows = await asked.four.store.read(identity.listed, table, where)
    return answer(listing(asked, noun + "s", [document_of(asked, noun, row) for row in rows]))


async def shown(asked: Asked, noun: str, table: Table) -> Response:
    row = await asked.four.store.read(identity.found, table, asked.path["id"])
    return answer({noun: document_of(asked, noun, row)})


async def made(asked: Asked, noun: str, table: Table, fields: Document) -> Response:
    kept = {key: value for key, value in fields.items() if value is not None}
    if "domain_id" in table.c:
        kept.setdefault("domain_id", DEFAULT_DOMAIN)
    row = await asked.four.store.write(lambda tx: identity.add(tx, table, **kept))
    return answer({noun: document_of(asked, noun, row)}, 201)


async def changed(asked: Asked, noun: str, table: Table, fields: Document) -> Response:
    kept = {key: value for key, value in fields.items() if value is not UNSET}
    row = await asked.four.store.write(lambda tx: identity.alter(tx, table, asked.path["id"], **kept))
    asked.four.identity.forget()
    return answer({noun: document_of(asked, noun, row)})


async def removed(asked: Asked, table: Table) -> Response:
    asked.need_admin()
    await asked.four.store.write(identity.remove, table, asked.path["id"])
    asked.four.identity.forget()
    return nothing()
