"""Two API processes and two conductors as OS processes on PostgreSQL: three moves at once.

Five members' hosts, each with an agent process of its own, that share the two doors.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from berthold import database
from berthold.cli.home import Home
from berthold.lab import engines
from running import Api, Process, faults, unfinished, wait_for

HOSTS = 5
NAMES = ("one", "two", "three")


class Site:
    """The processes of a larger cloud."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        self.url = url
        self.home = Home(directory / "shared")
        self.processes: list[Process] = []
        self.apis: list[Api] = []

    def start(self) -> None:
        addresses = [self.start_api(number) for number in range(2)]
        for number in range(2):
            self.begin("conductor", "--database", self.url, "--data", str(self.home.path), name=f"c{number}")
        for number in range(HOSTS):
            self.begin(
                *("agent", "--url", addresses[number % 2], "--name", f"node{number + 1}"),
                *("--token-file", str(self.home.path / "agents.token"), "--pace", "1.5"),
                *("--ground", str(self.directory / "ground.db")),
                name=f"node{number + 1}",
            )
        wait_for(self.all_up, self.processes[-1])

    def begin(self, *words: str, name: str) -> Process:
        process = Process(words, self.directory / name)
        self.processes.append(process)
        return process

    def start_api(self, number: int) -> str:
        words = ("api", "--database", self.url, "--data", str(self.home.path), "--port", "0")
        process = self.begin(*words, name=f"api{number}")
        wait_for(lambda: "listens on" in process.says.read_text(), process)
        said: str = process.says.read_text().split("listens on ")[1]
        address = said.split()[0].rstrip(".")
        self.apis.append(Api(address, self.home.password()))
        return address

    def all_up(self) -> bool:
        try:
            for api in self.apis:
                api.log_in()
        except httpx.TransportError:
            return False
        return [h["state"] for h in self.apis[1].get("/os-hypervisors")["hypervisors"]] == ["up"] * HOSTS

    def stop(self) -> list[int]:
        for api in self.apis:
            api.close()
        for process in self.processes:
            process.send(signal.SIGTERM)
        return [process.died() for process in self.processes]


@pytest.fixture
def site(postgresql: engines.PostgreSQL, tmp_path: Path) -> Iterator[Site]:
    url = postgresql.create_bare()
    database.upgrade(url)
    site = Site(tmp_path, url)
    try:
        site.start()
        yield site
    finally:
        ends = site.stop()
        postgresql.drop(url)
    assert ends == [0] * len(ends)


def at_once(*asks: Callable[[], httpx.Response]) -> list[int]:
    """All requests at the same moment; the statuses."""
    answers: dict[int, int] = {}
    barrier = threading.Barrier(len(asks))

    def ask(number: int) -> None:
        barrier.wait()
        answers[number] = asks[number]().status_code

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(asks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [answers[number] for number in range(len(asks))]


def test_three_members_that_move_at_once_never_meet(site: Site) -> None:
    first, second = site.apis
    first.make_flavor("1", 1)
    first.make_flavor("2", 2)
    group = first.make_group()
    ids = [second.make_server(name, group) for name in NAMES]
    doors = (first, second, first)

    for wish, rest in (
        (lambda api, each: api.live_migrate(each), "ACTIVE"),
        (lambda api, each: api.act(each, "migrate"), "VERIFY_RESIZE"),
        (lambda api, each: api.act(each, "resize", {"flavorRef": "2"}), "VERIFY_RESIZE"),
    ):
        before = {name: s["OS-EXT-SRV-ATTR:host"] for name, s in first.at_rest().items()}
        asks = [
            lambda api=api, each=each, wish=wish: wish(api, each)
            for api, each in zip(doors, ids, strict=True)
        ]
        assert at_once(*asks) == [202, 202, 202]
        after = second.at_rest()

        moved = [name for name in NAMES if after[name]["OS-EXT-SRV-ATTR:host"] != before[name]]
        assert len(moved) == 2
        assert {after[name]["status"] for name in moved} == {rest}
        (third,) = set(NAMES) - set(moved)
        assert after[third]["status"] == "ACTIVE"
        assert faults(site.url, site.directory / "ground.db") == []
        for name in moved if rest == "VERIFY_RESIZE" else ():
            assert first.act(after[name]["id"], "revertResize").status_code == 202
    first.at_rest()
    assert unfinished(site.url) == []
