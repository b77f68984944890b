"""T1: agents put the names of hosts, and the exceptions of drivers, into what they answer. Operators read
that; owners, whatever they ask, read that a host could not do its part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from berthold.api.microversions import HISTORY, version
from berthold.api.routes import ROUTES

HOSTS = ("rack-a", "rack-b", "rack-c")
BUG = "RuntimeError: it is already on rack-b, running"
UNREADABLE = re.compile("rack-|RuntimeError|Traceback|running$")


@pytest.fixture
def hosts(cloud: Any) -> None:
    for name in HOSTS:
        cloud.host(name)


def refuse(cloud: Any, *verbs: str) -> None:
    for faults in cloud.world.faults_of.values():
        for verb in verbs:
            faults.plan("refuse", verb=verb, times=200, reason=BUG)


def create(cloud: Any) -> str:
    refuse(cloud, "spawn")
    return str(cloud.server("web-1"))


def live_migrate(cloud: Any) -> str:
    server = cloud.server("web-1")
    refuse(cloud, "send")
    assert cloud.act(server, "os-migrateLive", {"host": None, "block_migration": "auto"}).status == 202
    return str(server)


def migrate(cloud: Any) -> str:
    server = cloud.server("web-1")
    refuse(cloud, "prepare")
    assert cloud.act(server, "migrate").status == 202
    return str(server)


def rebuild(cloud: Any) -> str:
    cloud.flavor("200", disk=10)
    server = cloud.server("web-1", flavorRef="200", imageRef=cloud.image(), block_device_mapping_v2=[])
    refuse(cloud, "rebuild")
    assert cloud.act(server, "rebuild", {"imageRef": cloud.image()}, "ann", "2.93").status == 202
    return str(server)


def stuck(cloud: Any) -> str:
    server = cloud.server("web-1")
    refuse(cloud, "discard")
    assert cloud.delete(f"/servers/{server}", "ann").status == 204
    return str(server)


def move_group(cloud: Any) -> str:
    group = cloud.group("ann", "affinity")
    server = cloud.server("web-1", hints={"group": group})
    refuse(cloud, "prepare")
    body = {"move": None}
    assert cloud.post(f"/os-server-groups/{group}/action", body).status == 202
    return str(server)


def asked(cloud: Any, server: str) -> Iterator[str]:
    """The path of every GET that tells of the server, of its group, or of what was done with them."""
    (row, *_) = [row for row in cloud.world.rows("server") if row["id"] == server]
    moves = [move for move in cloud.world.rows("move") if move["server_id"] == server]
    things = {
        "server_id": [server],
        "group_id": [row["group_id"]] if row["group_id"] else [],
        "move_id": [move["id"] for move in moves],
        "migration_id": [str(move["number"]) for move in moves],
        "request_id": [move["request_id"] for move in moves],
    }
    for route in ROUTES:
        names = re.findall(r"\{(\w+)\}", route.path)
        if route.method != "GET" or not things.keys() >= set(names):
            continue
        if not names and not route.path.startswith(("/servers", "/os-migrations", "/os-server-groups")):
            continue
        newest = next(text for text in reversed(HISTORY) if version(text) in route.versions)
        paths = [route.path]
        for name in names:
            paths = [path.replace(f"{{{name}}}", each) for path in paths for each in things[name]]
        yield from (f"{newest} {path}" for path in paths)


@pytest.mark.parametrize("fail", [create, live_migrate, migrate, rebuild, stuck, move_group])
def test_no_answer_to_an_owner_names_a_host_or_an_exception(
    cloud: Any, hosts: None, fail: Callable[[Any], str]
) -> None:
    server = fail(cloud)
    cloud.world.settle()
    told: dict[str, str] = {}
    for who in ("ann", "rita", "mel", "admin"):
        for ask in asked(cloud, server):
            newest, path = ask.split(" ")
            answer = cloud.get(path, who, newest)
            assert answer.status in (200, 403, 404, 409), (path, answer.json)
            told[who] = told.get(who, "") + f"{path} {msgspec.json.encode(answer.json).decode()}\n"
    for who in ("ann", "rita", "mel"):
        unreadable = [line for line in told[who].splitlines() if UNREADABLE.search(line)]
        assert unreadable == []
    assert "could not" in told["ann"]
    assert BUG in told["admin"], "operators read it all"
