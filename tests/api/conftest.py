"""A compute API over a ledger in memory, with neighbours that hold their things in dicts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from berthold.api.app import Services, compute_app
from berthold.clock import SeededClock
from berthold.errors import NotFound, Unauthenticated
from berthold.ledger import hosts
from berthold.ledger.schema import metadata
from berthold.ledger.store import Store
from berthold.neighbours import Actor, Image, Neighbours, Network, Volume
from berthold.records import schema as _records_tables  # noqa: F401  (they join the metadata)
from berthold.settings import Settings

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
    ]
}


class Tokens:
    """The token of an actor is its name."""

    async def who(self, token: str) -> Actor:
        if token not in ACTORS:
            raise Unauthenticated("The request you have made requires authentication.")
        return ACTORS[token]


@dataclass
class Shelf:
    """Images, volumes or networks: what there is, by id."""

    noun: str
    things: dict[str, Any] = field(default_factory=dict)

    async def get(self, actor: Actor, key: str) -> Any:
        if key not in self.things:
            raise NotFound(f"{self.noun} {key} could not be found.")
        return self.things[key]

    find = get

    async def usable(self, actor: Actor) -> list[Any]:
        return list(self.things.values())


@dataclass
class Answer:
    """An HTTP answer, its JSON read."""

    status: int
    json: Any
    headers: httpx.Headers


class Cloud:
    """`cloud.get("/servers", "ann", "2.64")`: path below /v2.1, who asks, in which version."""

    def __init__(self) -> None:
        self.clock = SeededClock(7)
        self.store = Store("sqlite://", clock=self.clock)
        metadata.create_all(self.store.writer)
        self.images = Shelf("Image", {"cirros": Image("cirros", "cirros", "active", 1000)})
        self.volumes = Shelf("Volume")
        self.networks = Shelf("Network", {"private": Network("private", "private")})
        neighbours: Any = Neighbours(Tokens(), self.images, self.volumes, self.networks)  # type: ignore[arg-type]
        self.app = compute_app(Services(self.store, neighbours, Settings()))

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
        return Answer(got.status_code, got.json() if got.content else None, got.headers)

    def get(self, path: str, who: str = "admin", version: str | None = None, **more: Any) -> Answer:
        return self.send("GET", f"/v2.1{path}", who, version, **more)

    def post(self, path: str, json: Any, who: str = "admin", version: str | None = None) -> Answer:
        return self.send("POST", f"/v2.1{path}", who, version, json)

    def put(self, path: str, json: Any, who: str = "admin", version: str | None = None) -> Answer:
        return self.send("PUT", f"/v2.1{path}", who, version, json)

    def delete(self, path: str, who: str = "admin", version: str | None = None) -> Answer:
        return self.send("DELETE", f"/v2.1{path}", who, version)

    # -- Things to begin with

    def host(self, name: str, *, vcpus: int = 8, ram: int = 16384, zone: str = "nova") -> str:
        """A host that was heard just now; its id."""
        offers: dict[str, dict[str, float]] = {
            "VCPU": {"total": vcpus, "allocation_ratio": 4.0},
            "MEMORY_MB": {"total": ram, "reserved": 512},
            "DISK_GB": {"total": 100},
        }
        facts: dict[str, Any] = {
            "hypervisor_type": "simulated",
            "hypervisor_version": 1000,
            "host_ip": "192.0.2.7",
        }
        facts["cpu_info"] = {"arch": "x86_64", "model": "Nehalem", "vendor": "Intel", "features": ["pge"]}
        locked = self.store.write_now(
            hosts.register, name=name, key=f"key-of-{name}", offers=offers, facts=facts, zone=zone
        )
        return locked.id

    def flavor(self, flavor_id: str = "100", **fields: Any) -> str:
        """A flavor of 1 CPU, 1 GiB and no disk, unless told otherwise; its id."""
        body = {"name": f"flavor-{flavor_id}", "id": flavor_id, "vcpus": 1, "ram": 1024, "disk": 0, **fields}
        answer = self.post("/flavors", {"flavor": body})
        assert answer.status == 200, answer.json
        return flavor_id

    def volume(self, name: str = "vol1") -> str:
        """A bootable volume; its id."""
        self.volumes.things[name] = Volume(name, name, "available", 1, True, "cirros")
        return name

    def group(self, who: str = "ann", policy: str = "anti-affinity") -> str:
        """A server group; its id."""
        body = {"server_group": {"name": "group", "policy": policy}}
        answer = self.post("/os-server-groups", body, who, "2.64")
        assert answer.status == 200, answer.json
        group_id: str = answer.json["server_group"]["id"]
        return group_id


def fault_of(answer: Answer, status: int) -> str:
    """The sentence of a fault, which must have this status and the form that clients expect."""
    assert answer.status == status, (answer.status, answer.json)
    ((name, fault),) = answer.json.items()
    assert set(fault) == {"code", "message"}
    assert fault["code"] == status, name
    message: str = fault["message"]
    return message


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


@pytest.fixture
def fault() -> Callable[[Answer, int], str]:
    return fault_of
