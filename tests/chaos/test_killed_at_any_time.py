"""A1, M4: the whole cloud is killed at seeded times while three members move about.

What was acknowledged goes on after each restart, and audit, judge and hardware have nothing
to say.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fragile_cloud import fragile
from running import Api, Running, faults, unfinished

NAMES = ("one", "two", "three")
Tell = Callable[[str, object], None]


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Running]:
    cloud = Running(tmp_path, hosts=5, pace="0.25", first=fragile)
    cloud.start()
    yield cloud
    assert cloud.stop() == 0


def something_for_each(api: Api, group: str, chance: random.Random) -> None:
    """Ask something lawful of every member, whatever it is just now."""
    servers = api.servers()
    for name in NAMES:
        server = servers.get(name)
        if server is None:
            api.make_server(name, group)
        elif server["status"] == "VERIFY_RESIZE":
            api.act(server["id"], chance.choice(["confirmResize", "revertResize"]))
        elif server["status"] == "ERROR":
            api.delete(server["id"])
        else:
            what = chance.choice(["os-migrateLive", "migrate", "resize", "delete"])
            if what == "delete":
                api.delete(server["id"])
            elif what == "os-migrateLive":
                api.live_migrate(server["id"])
            elif what == "migrate":
                api.act(server["id"], "migrate")
            else:
                other = "2" if server["flavor"]["original_name"] == "flavor-1" else "1"
                api.act(server["id"], "resize", {"flavorRef": other})


@pytest.mark.parametrize("seed", range(4))
def test_what_was_acknowledged_ends_well_after_five_kills(
    cloud: Running, seed: int, record_property: Tell
) -> None:
    chance = random.Random(seed)
    url = cloud.home.database_url
    cloud.api.make_flavor("1", 1)
    cloud.api.make_flavor("2", 2)
    group = cloud.api.make_group()
    something_for_each(cloud.api, group, chance)
    for _ in range(5):
        something_for_each(cloud.api, group, chance)
        time.sleep(chance.uniform(0.0, 0.8))
        assert cloud.stop(signal.SIGKILL) == -signal.SIGKILL
        hit = unfinished(url)
        record_property("told", f"seed {seed}: killed at {'; '.join(hit) or 'rest'}")

        cloud.start()
        ended = cloud.api.at_rest()
        until = time.monotonic() + 30
        while unfinished(url) and time.monotonic() < until:
            time.sleep(0.05)

        assert unfinished(url) == []
        assert faults(url, cloud.home.ground) == []
        homes = [server["OS-EXT-SRV-ATTR:host"] for server in ended.values() if server["status"] != "ERROR"]
        assert len(set(homes)) == len(homes)


def test_a_cloud_that_is_asked_to_end_does_so_at_once_and_goes_on_later(tmp_path: Path) -> None:
    cloud = Running(tmp_path, hosts=2, pace="1")
    cloud.start()
    cloud.api.make_flavor("1", 1)
    cloud.api.make_server("slow")

    begun = time.monotonic()
    assert cloud.stop() == 0
    assert time.monotonic() - begun < 5
    assert len(unfinished(cloud.home.database_url)) == 1

    # Its lease was given back, so that nobody waits for it to end.
    cloud.start()
    begun = time.monotonic()
    assert cloud.api.at_rest()["slow"]["status"] == "ACTIVE"
    assert time.monotonic() - begun < 10
    assert cloud.stop() == 0
    assert faults(cloud.home.database_url, cloud.home.ground) == []
