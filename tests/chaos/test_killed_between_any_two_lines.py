"""A1, M4, M6: the whole cloud is killed between every two lines of every playbook in flight.

After a restart every move reaches its end, and audit, judge and hardware have nothing to say.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from berthold.moves.books import PLAYBOOKS
from berthold.moves.playbook import Park
from fragile_cloud import fragile
from running import REST_S, Api, Running, faults, unfinished

Tell = Callable[[str, object], None]


class Victim:
    """One server of an anti-affinity group, with another beside it, on three hosts."""

    def __init__(self, cloud: Running) -> None:
        self.cloud = cloud
        api = cloud.api
        api.make_flavor("1", 1)
        api.make_flavor("2", 2)
        self.group = api.make_group()
        api.make_server("beside", self.group)
        self.id = ""
        api.at_rest()

    def ready(self, playbook: str) -> None:
        """The server is what the playbook begins with."""
        api = self.cloud.api
        there = api.at_rest().get("victim")
        if playbook == "create":
            if there:
                assert api.delete(self.id).status_code == 204
                self._gone(api)
            return
        if there is None:
            self.id = api.make_server("victim", self.group)
            there = api.at_rest()["victim"]
        if there["status"] == "VERIFY_RESIZE" and playbook not in ("confirm-resize", "revert-resize"):
            assert api.act(self.id, "confirmResize").status_code == 204
            there = self._until(api, "ACTIVE")
        elif there["status"] == "ACTIVE" and playbook in ("confirm-resize", "revert-resize"):
            self._resize(api, there)
            self._until(api, "VERIFY_RESIZE")

    def begin(self, playbook: str) -> None:
        """Ask for what the playbook does."""
        api = self.cloud.api
        if playbook == "create":
            self.id = api.make_server("victim", self.group)
        elif playbook == "delete":
            assert api.delete(self.id).status_code == 204
        elif playbook == "live-migration":
            assert api.live_migrate(self.id).status_code == 202
        elif playbook == "resize":
            self._resize(api, api.servers()["victim"])
        else:
            action = {"confirm-resize": "confirmResize", "revert-resize": "revertResize"}[playbook]
            assert api.act(self.id, action).status_code in (202, 204)

    def _resize(self, api: Api, server: dict[str, Any]) -> None:
        other = "2" if server["flavor"]["original_name"] == "flavor-1" else "1"
        assert api.act(self.id, "resize", {"flavorRef": other}).status_code == 202

    def _until(self, api: Api, status: str) -> dict[str, Any]:
        """The server, once it is `status`: while it is confirmed it shows VERIFY_RESIZE still."""
        until = time.monotonic() + REST_S
        while (server := api.at_rest()["victim"])["status"] != status:
            assert time.monotonic() < until, f"{server['status']} is not {status}"
        found: dict[str, Any] = server
        return found

    def _gone(self, api: Api) -> None:
        while "victim" in api.at_rest():
            pass


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Running]:
    cloud = Running(tmp_path, hosts=3, first=fragile)
    cloud.start()
    yield cloud
    assert cloud.stop() == 0


# What the server is in the end, however often the cloud died on the way.
ENDS = {
    "create": "ACTIVE",
    "delete": None,
    "live-migration": "ACTIVE",
    "resize": "VERIFY_RESIZE",
    "confirm-resize": "ACTIVE",
    "revert-resize": "ACTIVE",
}


@pytest.mark.parametrize("playbook", list(ENDS))
def test_every_move_ends_well_wherever_the_cloud_was_killed(
    cloud: Running, playbook: str, record_property: Tell
) -> None:
    victim = Victim(cloud)
    url, order = cloud.home.database_url, cloud.home.path / "kill"
    lines = [line for line in PLAYBOOKS[playbook].lines if not isinstance(line, Park)]
    for number, line in enumerate(lines):
        victim.ready(playbook)
        order.write_text(f"{playbook} {number}")
        # The cloud may be dead before it has answered; the move was begun all the same.
        with contextlib.suppress(httpx.TransportError):
            victim.begin(playbook)
        assert cloud.process is not None
        assert cloud.process.died() == -signal.SIGKILL
        cloud.hang_up()
        hit = unfinished(url)
        assert hit == [f"{playbook}: {line.name} (running)"]
        record_property("told", f"killed at {hit[0]}")

        order.unlink()
        cloud.start()
        victim.id = cloud.api.servers().get("victim", {}).get("id", victim.id)
        ended = settled(cloud, ENDS[playbook])

        assert ended == ENDS[playbook]
        assert faults(url, cloud.home.ground) == []


def settled(cloud: Running, wanted: str | None) -> str | None:
    """What the server is once nothing is under way."""
    servers = cloud.api.at_rest()
    for _ in range(600):
        if not unfinished(cloud.home.database_url):
            break
        servers = cloud.api.at_rest()
    servers = cloud.api.at_rest()
    return servers["victim"]["status"] if "victim" in servers else None
