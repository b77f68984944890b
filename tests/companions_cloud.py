"""The companions in memory with time that stands still, and requests to them without a socket."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
from argon2 import PasswordHasher
from starlette.applications import Starlette

from berthold.clock import SeededClock
from berthold.companions import Companions, bootstrap, build
from berthold.companions.app import companions_app
from berthold.companions.logins import EmbeddedIdentity
from berthold.ledger.schema import metadata
from berthold.ledger.store import Store
from berthold.settings import Settings

KEY = b"k" * 32
CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


class Cloud:
    """The companions in memory, and requests to them."""

    def __init__(self, directory: Path, store: Store | None = None, settings: Settings | None = None) -> None:
        self.clock = SeededClock(7)
        self.store = store or Store("sqlite://", clock=self.clock, settings=settings)
        if store is None:
            metadata.create_all(self.store.writer)
        whole = build(self.store, directory, KEY)
        identity = EmbeddedIdentity(self.store, KEY, hasher=CHEAP)
        self.four = Companions(self.store, identity, whole.images, whole.volumes, whole.networks)
        asyncio.run(bootstrap(self.four, "secret"))
        self.app = Starlette(routes=companions_app(self.four))

    def ask(self, method: str, path: str, token: str | None = None, **options: Any) -> httpx.Response:
        headers = {**({"X-Auth-Token": token} if token else {}), **options.pop("headers", {})}

        async def go() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://cloud:5000") as client:
                return await client.request(method, path, headers=headers, **options)

        return asyncio.run(go())

    def log_in(self, user: str = "admin", password: str = "secret", project: str | None = "admin") -> str:
        response = self.try_to_log_in(user, password, project)
        assert response.status_code == 201, response.text
        return str(response.headers["x-subject-token"])

    def try_to_log_in(self, user: str, password: str, project: str | None) -> httpx.Response:
        known = {"name": user, "domain": {"name": "Default"}, "password": password}
        auth: dict[str, Any] = {"identity": {"methods": ["password"], "password": {"user": known}}}
        if project:
            auth["scope"] = {"project": {"name": project, "domain": {"id": "default"}}}
        return self.ask("POST", "/identity/v3/auth/tokens", json={"auth": auth})

    def tenant(self, name: str) -> str:
        """A project and a member of it, both of this name; their token."""
        admin = self.log_in()
        project = self.ask("POST", "/identity/v3/projects", admin, json={"project": {"name": name}})
        user = self.ask("POST", "/identity/v3/users", admin, json={"user": {"name": name, "password": "pw"}})
        (member,) = self.ask("GET", "/identity/v3/roles?name=member", admin).json()["roles"]
        ids = project.json()["project"]["id"], user.json()["user"]["id"], member["id"]
        path = "/identity/v3/projects/{}/users/{}/roles/{}".format(*ids)
        assert self.ask("PUT", path, admin).status_code == 204
        return self.log_in(name, "pw", name)
