"""Identity v3 over HTTP: projects, users, roles and domains, and the whole table of routes."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, structs
from sqlalchemy import Row
from starlette.responses import Response

from berthold.companions import identity
from berthold.companions.catalog_api import (
    list_endpoints,
    list_regions,
    list_services,
    show_catalog,
    show_endpoint,
    show_region,
    show_service,
)
from berthold.companions.credentials_api import (
    list_credentials,
    make_credential,
    remove_credential,
    show_credential,
)
from berthold.companions.http import Asked, Document, Route, answer, nothing, yes
from berthold.companions.identity import Called
from berthold.companions.identity_api import (
    DomainBody,
    DomainChange,
    NewDomain,
    NewDomainBody,
    NewProjectBody,
    NewUserBody,
    OwnPasswordBody,
    ProjectChangeBody,
    UserChangeBody,
    changed,
    document_of,
    listed,
    listing,
    log_in,
    made,
    removed,
    revoke_token,
    show_token,
    shown,
    version_3,
    versions,
)
from berthold.companions.schema import identity_domain, identity_project, identity_role, identity_user
from berthold.errors import Malformed, NotFound
from berthold.ledger.store import Tx


async def list_projects(asked: Asked) -> Response:
    asked.need_admin()
    return await listed(asked, "project", identity_project)


async def own_projects(asked: Asked) -> Response:
    """The projects that a user may log in to; another's only for an admin."""
    user_id = asked.path.get("id", asked.actor.user_id)
    if user_id != asked.actor.user_id:
        asked.need_admin()
    rows = await asked.four.store.read(identity.projects_of, user_id)
    return answer(listing(asked, "projects", [document_of(asked, "project", row) for row in rows]))


async def show_project(asked: Asked) -> Response:
    if asked.path["id"] != asked.actor.project_id and not asked.actor.is_admin:
        raise NotFound(f"could not find project: {asked.path['id']}")
    return await shown(asked, "project", identity_project)


async def make_project(asked: Asked) -> Response:
    asked.need_admin()
    wish = (await asked.body(NewProjectBody)).project
    return await made(asked, "project", identity_project, structs.asdict(wish))


async def change_project(asked: Asked) -> Response:
    asked.need_admin()
    wish = (await asked.body(ProjectChangeBody)).project
    return await changed(asked, "project", identity_project, structs.asdict(wish))


async def remove_project(asked: Asked) -> Response:
    return await removed(asked, identity_project)


async def list_users(asked: Asked) -> Response:
    asked.need_admin()
    return await listed(asked, "user", identity_user)


async def show_user(asked: Asked) -> Response:
    if asked.path["id"] != asked.actor.user_id and not asked.actor.is_admin:
        raise NotFound(f"could not find user: {asked.path['id']}")
    return await shown(asked, "user", identity_user)


async def make_user(asked: Asked) -> Response:
    asked.need_admin()
    fields = structs.asdict((await asked.body(NewUserBody)).user)
    return await made(asked, "user", identity_user, await hashed(asked, fields))


async def change_user(asked: Asked) -> Response:
    asked.need_admin()
    fields = structs.asdict((await asked.body(UserChangeBody)).user)
    return await changed(asked, "user", identity_user, await hashed(asked, fields))


async def change_own_password(asked: Asked) -> Response:
    """A new password for the caller, who must know the old one."""
    wish = (await asked.body(OwnPasswordBody)).user
    if asked.path["id"] != asked.actor.user_id:
        raise NotFound(f"could not find user: {asked.path['id']}")
    await asked.four.identity.log_in(Called(id=asked.actor.user_id), wish.original, None)
    await changed(asked, "user", identity_user, await hashed(asked, {"password": wish.password}))
    return nothing()


async def hashed(asked: Asked, fields: Document) -> Document:
    """The same fields with the password as it is kept."""
    password = fields.pop("password", None)
    if password is None or password is UNSET:
        return fields
    return {**fields, "password_hash": await asked.four.identity.hashed(password)}


async def remove_user(asked: Asked) -> Response:
    return await removed(asked, identity_user)


async def list_roles(asked: Asked) -> Response:
    asked.need_admin()
    return await listed(asked, "role", identity_role)


async def show_role(asked: Asked) -> Response:
    asked.need_admin()
    return await shown(asked, "role", identity_role)


async def list_domains(asked: Asked) -> Response:
    asked.need_admin()
    return await listed(asked, "domain", identity_domain)


async def show_domain(asked: Asked) -> Response:
    asked.need_admin()
    return await shown(asked, "domain", identity_domain)


async def make_domain(asked: Asked) -> Response:
    """A domain has a name and nothing else: it is always enabled."""
    asked.need_admin()
    return await made(asked, "domain", identity_domain, _domain((await asked.body(NewDomainBody)).domain))


async def change_domain(asked: Asked) -> Response:
    asked.need_admin()
    return await changed(asked, "domain", identity_domain, _domain((await asked.body(DomainBody)).domain))


def _domain(wish: NewDomain | DomainChange) -> Document:
    if wish.enabled is False or wish.description not in (UNSET, None, ""):
        raise Malformed("a domain of this cloud has a name only: it is not described, and always enabled")
    return {"name": wish.name}


async def remove_domain(asked: Asked) -> Response:
    """One without projects and users, which must be removed first."""
    asked.need_admin()
    await asked.four.store.write(identity.remove_domain, asked.path["id"])
    return nothing()


async def roles_on_project(asked: Asked) -> Response:
    asked.need_admin()
    rows = await roles_held(asked)
    return answer(listing(asked, "roles", [document_of(asked, "role", row) for row in rows]))


async def has_role(asked: Asked) -> Response:
    asked.need_admin()
    if asked.path["role"] not in [row.id for row in await roles_held(asked)]:
        raise NotFound("the user has no such role on the project")
    return nothing()


async def roles_held(asked: Asked) -> list[Row[Any]]:
    return await asked.four.store.read(identity.roles_of, asked.path["user"], asked.path["project"])


async def give_role(asked: Asked) -> Response:
    asked.need_admin()
    path = asked.path
    await asked.four.store.write(identity.assign, path["user"], path["project"], path["role"])
    asked.four.identity.forget()
    return nothing()


async def take_role(asked: Asked) -> Response:
    asked.need_admin()
    path = asked.path
    await asked.four.store.write(identity.unassign, path["user"], path["project"], path["role"])
    asked.four.identity.forget()
    return nothing()


ASSIGNMENT_FILTERS = {"user.id": "user_id", "scope.project.id": "project_id", "role.id": "role_id"}


async def list_assignments(asked: Asked) -> Response:
    asked.need_admin()
    where = {column: asked.query[key] for key, column in ASSIGNMENT_FILTERS.items() if key in asked.query}
    # Keystone takes the bare word for yes.
    named = yes(asked.query.get("include_names", "no") or "yes")
    documents = await asked.four.store.read(lambda tx: assignment_documents(tx, named, where))
    return answer(listing(asked, "role_assignments", documents))


def assignment_documents(tx: Tx, named: bool, where: dict[str, str]) -> list[dict[str, Any]]:
    """Who has which role where; with names, those of the three and of their domains."""
    tables = (identity_user, identity_project, identity_role, identity_domain)
    users, projects, roles, domains = (
        {row.id: row for row in identity.listed(tx, table)} if named else {} for table in tables
    )

    def told(kind: dict[str, Row[Any]], thing_id: str) -> dict[str, Any]:
        if not named:
            return {"id": thing_id}
        row = kind[thing_id]._mapping
        shown = {"id": thing_id, "name": row["name"]}
        if "domain_id" in row:
            domain = domains[row["domain_id"]]
            shown["domain"] = {"id": domain.id, "name": domain.name}
        return shown

    return [
        {
            "user": told(users, row.user_id),
            "scope": {"project": told(projects, row.project_id)},
            "role": told(roles, row.role_id),
            "links": {},
        }
        for row in identity.assignments(tx, **where)
    ]


OPEN_ROUTES: tuple[Route, ...] = (
    ("GET", "", versions),
    ("GET", "/", versions),
    ("GET", "/v3", version_3),
    ("GET", "/v3/", version_3),
    ("POST", "/v3/auth/tokens", log_in),
)

ROUTES: tuple[Route, ...] = (
    ("GET", "/v3/auth/tokens", show_token),
    ("DELETE", "/v3/auth/tokens", revoke_token),
    ("GET", "/v3/auth/catalog", show_catalog),
    ("GET", "/v3/auth/projects", own_projects),
    ("GET", "/v3/projects", list_projects),
    ("POST", "/v3/projects", make_project),
    ("GET", "/v3/projects/{id}", show_project),
    ("PATCH", "/v3/projects/{id}", change_project),
    ("DELETE", "/v3/projects/{id}", remove_project),
    ("GET", "/v3/users", list_users),
    ("POST", "/v3/users", make_user),
    ("GET", "/v3/users/{id}", show_user),
    ("PATCH", "/v3/users/{id}", change_user),
    ("DELETE", "/v3/users/{id}", remove_user),
    ("POST", "/v3/users/{id}/password", change_own_password),
    ("GET", "/v3/users/{id}/projects", own_projects),
    ("GET", "/v3/users/{id}/application_credentials", list_credentials),
    ("POST", "/v3/users/{id}/application_credentials", make_credential),
    ("GET", "/v3/users/{id}/application_credentials/{credential}", show_credential),
    ("DELETE", "/v3/users/{id}/application_credentials/{credential}", remove_credential),
    ("GET", "/v3/roles", list_roles),
    ("GET", "/v3/roles/{id}", show_role),
    ("GET", "/v3/role_assignments", list_assignments),
    ("GET", "/v3/projects/{project}/users/{user}/roles", roles_on_project),
    ("GET", "/v3/projects/{project}/users/{user}/roles/{role}", has_role),
    ("PUT", "/v3/projects/{project}/users/{user}/roles/{role}", give_role),
    ("DELETE", "/v3/projects/{project}/users/{user}/roles/{role}", take_role),
    ("GET", "/v3/domains", list_domains),
    ("POST", "/v3/domains", make_domain),
    ("GET", "/v3/domains/{id}", show_domain),
    ("PATCH", "/v3/domains/{id}", change_domain),
    ("DELETE", "/v3/domains/{id}", remove_domain),
    ("GET", "/v3/services", list_services),
    ("GET", "/v3/services/{id}", show_service),
    ("GET", "/v3/endpoints", list_endpoints),
    ("GET", "/v3/endpoints/{id}", show_endpoint),
    ("GET", "/v3/regions", list_regions),
    ("GET", "/v3/regions/{id}", show_region),
)
