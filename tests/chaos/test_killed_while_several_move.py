"""A1, M4, M6: the whole cloud is killed at seeded times while two servers are unshelved or evacuated, or a
whole group moves. After each restart all go where they were to go, and nothing is left over.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from berthold.agent.ground import Ground
from fragile_cloud import fragile
from running import REST_S, Running, faults, unfinished

NAMES = ("one", "two")
HOST = "OS-EXT-SRV-ATTR:host"
Tell = Callable[[str, object], None]


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Running]:
    cloud = Running(tmp_path, hosts=4, pace="0.25", first=fragile)
    cloud.start()
    cloud.api.make_flavor("1", 1)
    yield cloud
    assert cloud.stop() == 0


def pair(cloud: Running, policy: str) -> tuple[str, dict[str, str]]:
    """A group of two; their ids."""
    group = cloud.api.make_group(policy)
    ids = {name: cloud.api.make_server(name, group) for name in NAMES}
    rest(cloud)
    return group, ids


def rest(cloud: Running) -> dict[str, dict[str, Any]]:
    """All servers, once nothing is under way."""
    until = time.monotonic() + REST_S
    while unfinished(cloud.home.database_url):
        assert time.monotonic() < until, unfinished(cloud.home.database_url)
        time.sleep(0.05)
    return cloud.api.at_rest()


def killed(cloud: Running, chance: random.Random, record_property: Tell, up: int = 4) -> dict[str, Any]:
    """Kill the cloud a little later and start it again; all servers, once nothing is under way."""
    time.sleep(chance.uniform(0.05, 0.3))
    assert cloud.stop(signal.SIGKILL) == -signal.SIGKILL
    hit = unfinished(cloud.home.database_url)
    record_property("told", f"killed at {'; '.join(hit) or 'rest'}")
    cloud.start(up)
    servers = rest(cloud)
    assert faults(cloud.home.database_url, cloud.home.ground) == []
    assert [server["status"] for server in servers.values()] == ["ACTIVE"] * len(NAMES)
    return servers


def test_two_members_that_are_unshelved_stay_apart(cloud: Running, record_property: Tell) -> None:
    chance = random.Random(1)
    _, ids = pair(cloud, "anti-affinity")
    for _ in range(2):
        for each in ids.values():
            assert cloud.api.act(each, "shelve").status_code == 202
        assert {server["status"] for server in rest(cloud).values()} == {"SHELVED_OFFLOADED"}
        for each in ids.values():
            assert cloud.api.act(each, "unshelve").status_code == 202
        servers = killed(cloud, chance, record_property)
        assert len({server[HOST] for server in servers.values()}) == len(NAMES)


def test_two_members_that_are_evacuated_stay_apart(cloud: Running, record_property: Tell) -> None:
    chance = random.Random(1)
    _, ids = pair(cloud, "anti-affinity")
    lost = {server[HOST] for server in cloud.api.servers().values()}
    services = {each["host"]: each["id"] for each in cloud.api.get("/os-services")["services"]}
    ground = Ground(cloud.home.ground)
    for host in lost:
        ground.power_off(host)  # the operator's word is true
        assert cloud.api.put(f"/os-services/{services[host]}", {"forced_down": True}).status_code == 200
    ground.close()
    for each in ids.values():
        assert cloud.api.act(each, "evacuate", {}).status_code == 200
    servers = killed(cloud, chance, record_property, up=2)
    assert len({server[HOST] for server in servers.values()} - lost) == len(NAMES)


def test_a_whole_group_arrives_whole(cloud: Running, record_property: Tell) -> None:
    chance = random.Random(3)
    group, _ = pair(cloud, "affinity")
    for _ in range(2):
        (before,) = {server[HOST] for server in cloud.api.servers().values()}
        assert cloud.api.post(f"/os-server-groups/{group}/action", {"move": {}}).status_code == 202
        servers = killed(cloud, chance, record_property)
        (after,) = {server[HOST] for server in servers.values()}
        assert after != before
