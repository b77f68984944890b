"""A compute API over the lab's world: everything real but time, chance, hosts and who is behind a token."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import httpx
import jsonschema_rs

from berthold.api import openapi
from berthold.api.app import Services, compute_app
from berthold.api.routes import ROUTES
from berthold.companions import image as images
from berthold.companions import network as networks
from berthold.companions import volume as volumes
from berthold.errors import Unauthenticated
from berthold.lab.photographs import Photograph
from berthold.lab.world import World
from berthold.ledger.store import Tx
from berthold.neighbours import Actor

ANNS_PROJECT = "a" * 32
BOBS_PROJECT = "b" * 32
ADMINS_PROJECT = "c" * 32

ACTORS = {
    name: Actor(f"{name}-id", name, project, project, frozenset(roles))
    for name, project, roles in [
        ("admin", ADMINS_PROJECT, {"admin", "member", "reader"}),
        ("ann", ANNS_PROJECT, {"member", "reader"}),
        ("mel", ANNS_PROJECT, {"manager", "member", "reader"}),
        ("rita", ANNS_PROJECT, {"reader"}),
        ("bob", BOBS_PROJECT, {"member", "reader"}),
        ("rob", BOBS_PROJECT, {"manager", "member", "reader"}),
    ]
}


class Tokens:
    """The token of an actor is its name."""

    async def who(self, token: str) -> Actor:
        if token not in ACTORS:
            raise Unauthenticated("The request you have made requires authentication.")
        return ACTORS[token]

    async def project_exists(self, project_id: str) -> bool:
        return any(actor.project_id == project_id for actor in ACTORS.values())


@dataclass
class Answer:
    """An HTTP answer, its JSON read."""

    status: int
    json: Any
    headers: httpx.Headers


class Cloud:
    """`cloud.get("/servers", "ann", "2.64")`: path below /v2.1, who asks, in which version."""

    def __init__(self) -> None:
        self.world = World(hosts=0, seed=7)
        self.store, self.clock = self.world.store, self.world.clock
        self.neighbours = replace(self.world.companions.neighbours, identity=Tokens())
        self.app = self.made_app = self.over_http()

    def over_http(self, **services: Any) -> Any:
        """The API as an application, on these `Services` instead of the usual ones."""
        # Nothing goes on while a request waits, unless a test sees to that.
        settings = replace(self.world.settings, turn_s=0.0)
        usual = {"store": self.store, "neighbours": self.neighbours, "settings": settings}
        return compute_app(Services(**{**usual, **services}))

    def send(
        self,
        method: str,
        path: str,
        who: str | None = "admin",
        version: str | None = None,
        json: Any = None,
        **more: Any,
    ) -> Answer:
        headers = dict(more.pop("headers", {}))
        if who:
            headers["X-Auth-Token"] = who
        if version:
            headers["OpenStack-API-Version"] = f"compute {version}"
        if json is not None:
            more["json"] = json

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://cloud") as client:
                return await client.request(method, path, headers=headers, **more)

        got = asyncio.run(ask())
        as_described(got)
        return Answer(got.status_code, got.json() if got.content else None, got.headers)

    async def obeying(self) -> None:
        """Let every host do what it is asked, beside requests that wait for that, until cancelled."""
        while True:
            for name in list(self.world.agents):
                self.world.obey(name)
            await asyncio.sleep(0.005)

    def get(self, path: str, who: str = "admin", version: str | None = None, **more: Any) -> Answer:
        return self.send("GET", f"/v2.1{path}", who, version, **more)

    def post(self, path: str, json: Any, who: str = "admin", version: str | None = None) -> Answer:
        return self.send("POST", f"/v2.1{path}", who, version, json)

    def put(self, path: str, json: Any, who: str = "admin", version: str | None = None) -> Answer:
        return self.send("PUT", f"/v2.1{path}", who, version, json)

    def delete(self, path: str, who: str = "admin", version: str | None = None) -> Answer:
        return self.send("DELETE", f"/v2.1{path}", who, version)

    # -- Things to begin with

    def host(self, name: str = "node1", **size: int) -> str:
        """A host that was heard just now; its id."""
        return self.world.add_host(name, **size)

    def flavor(self, flavor_id: str = "100", **fields: Any) -> str:
        """A flavor of 1 CPU, 1 GiB and no disk, unless told otherwise; its id."""
        body = {"name": f"flavor-{flavor_id}", "id": flavor_id, "vcpus": 1, "ram": 1024, "disk": 0, **fields}
        answer = self.post("/flavors", {"flavor": body})
        assert answer.status == 200, answer.json
        return flavor_id

    def image(self, project: str = ANNS_PROJECT, **fields: Any) -> str:
        """An image that all may use and that has data; its id."""
        wish = {"name": "cirros", "visibility": "public", "disk_format": "raw", "container_format": "bare"}
        row = self.store.write_now(lambda tx: images.make(tx, project, **wish, **fields))

        async def content() -> AsyncIterator[bytes]:
            yield b"boots" * 100

        asyncio.run(self.world.companions.images.upload(Actor("", "", project, ""), row.id, content()))
        return str(row.id)

    def volume(self, image_id: str | None = None, project: str = ANNS_PROJECT) -> str:
        """A volume of 1 GiB, one to boot from if it is made from an image; its id."""
        wish = {"name": f"disk-{self.clock.new_id()}", "size": 1, "image_id": image_id}
        row = self.store.write_now(volumes.begin, project, None, wish)
        asyncio.run(self.world.companions.volumes.fill(row))
        return str(row.id)

    def network(self, name: str = "private") -> str:
        """A network that all may use; its id."""

        def make(tx: Tx) -> str:
            made = networks.make_network(tx, ADMINS_PROJECT, name=name, shared=True)
            networks.make_subnet(tx, ADMINS_PROJECT, made.id, "10.0.0.0/24", name=f"{name}-subnet")
            return str(made.id)

        return self.store.write_now(make)

    def group(self, who: str = "ann", policy: str = "anti-affinity") -> str:
        """A server group; its id."""
        body = {"server_group": {"name": "group", "policy": policy}}
        answer = self.post("/os-server-groups", body, who, "2.64")
        assert answer.status == 200, answer.json
        group_id: str = answer.json["server_group"]["id"]
        return group_id

    def server(self, name: str = "ins1", who: str = "ann", *, settle: bool = True, **fields: Any) -> str:
        """A server on a volume made from an image; its id. ACTIVE, unless it is not to settle."""
        if "100" not in [flavor["id"] for flavor in self.get("/flavors").json["flavors"]]:
            self.flavor("100")
        hints = fields.pop("hints", {})
        wish = {"name": name, "flavorRef": "100", "imageRef": "", "networks": "none", **fields}
        if "block_device_mapping_v2" not in wish:
            volume = self.volume(self.image(ACTORS[who].project_id), ACTORS[who].project_id)
            wish["block_device_mapping_v2"] = [
                {"uuid": volume, "boot_index": 0, "source_type": "volume", "destination_type": "volume"}
            ]
        answer = self.post("/servers", {"server": wish, "OS-SCH-HNT:scheduler_hints": hints}, who, "2.96")
        assert answer.status == 202, answer.json
        if settle:
            self.world.settle()
        server_id: str = answer.json["server"]["id"]
        return server_id

    def act(
        self, server: str, action: str, wish: Any = None, who: str = "admin", version: str = "2.96"
    ) -> Answer:
        """POST one action."""
        return self.post(f"/servers/{server}/action", {action: wish}, who, version)

    def shown(self, server: str, who: str = "admin", version: str = "2.96") -> dict[str, Any]:
        """The server as the API shows it."""
        answer = self.get(f"/servers/{server}", who, version)
        assert answer.status == 200, answer.json
        found: dict[str, Any] = answer.json["server"]
        return found


def as_described(answer: httpx.Response) -> None:
    """Every answer to every test has the form that the OpenAPI document gives it."""
    path = answer.request.url.path
    rows = forms().get(answer.request.method, ())
    of_status = next((said for like, said in rows if like.fullmatch(path)), None)
    if of_status is None or not answer.is_success:
        return  # refused; or a document of versions, or a project's id is in front
    assert str(answer.status_code) in of_status, f"{path}: nothing is said of {answer.status_code}"
    form = of_status[str(answer.status_code)]
    assert (form is not None) == bool(answer.content) or path.endswith("/action"), (
        f"{path}: {answer.content!r}"
    )
    if answer.content:
        form.validate(answer.json())


@cache
def forms() -> dict[str, list[tuple[re.Pattern[str], dict[str, Any]]]]:
    """By method: what paths look like, and a validator, or None, by status."""
    found: dict[str, list[tuple[re.Pattern[str], dict[str, Any]]]] = {}
    paths = openapi.document(ROUTES, "http://cloud")["paths"]
    for path, operations in sorted(paths.items()):
        like = re.compile(re.sub(r"\{\w+\}", "[^/]+", path))
        for method, operation in operations.items():
            of_status = {status: validator(said) for status, said in operation["responses"].items()}
            found.setdefault(method.upper(), []).append((like, of_status))
    # What is more particular stands first: /servers/detail before /servers/{server_id}.
    return {method: sorted(rows, key=lambda row: row[0].pattern.count("[")) for method, rows in found.items()}


def validator(said: dict[str, Any]) -> Any:
    if "content" not in said:
        return None
    schema = said["content"]["application/json"]["schema"]
    return None if "$ref" in schema else jsonschema_rs.validator_for(schema)


def fault_of(answer: Answer, status: int) -> str:
    """The sentence of a fault, which must have this status and the form that clients expect."""
    assert answer.status == status, (answer.status, answer.json)
    ((name, fault),) = answer.json.items()
    assert set(fault) == {"code", "message"}
    assert fault["code"] == status, name
    message: str = fault["message"]
    return message


def emptied(made: Cloud, photograph: Photograph) -> Cloud:
    """The cloud, taken back to where the photograph was made, without hosts."""
    made.world.agents.clear()
    made.world.faults_of.clear()
    for file in made.world.companions.images.files.directory.iterdir():
        file.unlink()
    made.world.restore(photograph)
    return made
