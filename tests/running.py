"""Clouds as processes, for tests that need the real thing: started, driven over HTTP, killed.

`Running` is `berthold up` on a data directory; it may be killed and started again. `unfinished`
and `faults` look into its database from outside.

Each process is forked from one that has imported everything and done nothing else. To import is
most of what a cloud's start costs, and the tests start more than a hundred.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import create_engine, text

from berthold import cli
from berthold.agent.ground import Ground
from berthold.cli.home import Home
from berthold.lab.judge import judge, read_history
from berthold.ledger.audit import audit
from berthold.ledger.store import Store
from berthold.moves.books import PLAYBOOKS

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["berthold.cli.processes", "berthold.cli.demo.command"])

START_S = 60.0
REST_S = 60.0
ADMIN = {"name": "admin", "domain": {"id": "default"}}


class Api:
    """A cloud as a program talks to it."""

    def __init__(self, address: str, password: str) -> None:
        self.address = address
        self._http = httpx.Client(base_url=address, timeout=30, trust_env=False)
        self._password = password

    def log_in(self) -> None:
        user = {**ADMIN, "password": self._password}
        identity = {"methods": ["password"], "password": {"user": user}}
        reply = self._http.post(
            "/identity/v3/auth/tokens", json={"auth": {"identity": identity, "scope": {"project": ADMIN}}}
        )
        self._http.headers["X-Auth-Token"] = reply.headers["X-Subject-Token"]
        self._http.headers["OpenStack-API-Version"] = "compute 2.90"

    @property
    def token(self) -> str:
        return self._http.headers["X-Auth-Token"]

    def close(self) -> None:
        self._http.close()

    def get(self, path: str) -> Any:
        reply = self._http.get(f"/compute/v2.1{path}")
        assert reply.is_success, reply.text
        return reply.json()

    def post(self, path: str, document: Any) -> httpx.Response:
        return self._http.post(f"/compute/v2.1{path}", json=document)

    def put(self, path: str, document: Any) -> httpx.Response:
        return self._http.put(f"/compute/v2.1{path}", json=document)

    def act(self, server: str, action: str, wish: Any = None) -> httpx.Response:
        return self.post(f"/servers/{server}/action", {action: wish})

    def delete(self, server: str) -> httpx.Response:
        return self._http.delete(f"/compute/v2.1/servers/{server}")

    def live_migrate(self, server: str) -> httpx.Response:
        return self.act(server, "os-migrateLive", {"host": None, "block_migration": "auto"})

    def servers(self) -> dict[str, dict[str, Any]]:
        return {server["name"]: server for server in self.get("/servers/detail")["servers"]}

    def make_flavor(self, number: str, vcpus: int) -> None:
        flavor = {"id": number, "name": f"flavor-{number}", "vcpus": vcpus, "ram": 256, "disk": 0}
        assert self.post("/flavors", {"flavor": flavor}).status_code == 200

    def make_group(self, policy: str = "anti-affinity") -> str:
        wish = {"name": policy, "policy": policy}
        made: str = self.post("/os-server-groups", {"server_group": wish}).json()["server_group"]["id"]
        return made

    def make_server(self, name: str, group: str | None = None, flavor: str = "1") -> str:
        """Ask for a server that boots from a volume made of the image; its id."""
        (image,) = self._http.get("/image/v2/images?name=cirros").json()["images"]
        disk = {
            "uuid": image["id"],
            "source_type": "image",
            "destination_type": "volume",
            "volume_size": 1,
            "boot_index": 0,
            "delete_on_termination": True,
        }
        wish: dict[str, Any] = {
            "server": {
                "name": name,
                "flavorRef": flavor,
                "imageRef": "",
                "networks": "auto",
                "block_device_mapping_v2": [disk],
            }
        }
        if group:
            wish["os:scheduler_hints"] = {"group": group}
        reply = self.post("/servers", wish)
        assert reply.status_code == 202, reply.text
        made: str = reply.json()["server"]["id"]
        return made

    def at_rest(self, seconds: float = REST_S) -> dict[str, dict[str, Any]]:
        """All servers, once none is on its way."""
        until = time.monotonic() + seconds
        while True:
            servers = self.servers()
            moving = [
                s["name"]
                for s in servers.values()
                if s["OS-EXT-STS:task_state"]
                or s["status"] in ("BUILD", "MIGRATING", "RESIZE", "REVERT_RESIZE")
            ]
            if not moving:
                return servers
            assert time.monotonic() < until, f"still on the way after {seconds} s: {moving}"
            time.sleep(0.05)


def as_it_is() -> None:
    """What is done to a cloud before it starts: nothing."""


def berthold(words: Sequence[str], says: Path, first: Callable[[], None]) -> None:
    """The command, in a process of its own that speaks into a file. `first` may change what it is."""
    with says.open("ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    sys.argv = ["berthold", *words]
    warnings.simplefilter("ignore")
    first()
    cli.main()


class Process:
    """One process of a cloud, with what it says in a file."""

    def __init__(self, words: Sequence[str], says: Path, first: Callable[[], None] = as_it_is) -> None:
        self.says = says
        says.touch()
        self._process = FORKS.Process(target=berthold, args=(words, says, first))
        self._process.start()

    def runs(self) -> bool:
        return self._process.is_alive()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def send(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send the signal and wait; the exit code."""
        if self.runs():
            self.send(number)
        return self.died()

    def died(self, seconds: float = 30.0) -> int:
        """Wait until it has ended; the exit code."""
        self._process.join(seconds)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
            raise TimeoutError(f"it does not end: {self.says.read_text()}")
        return self._process.exitcode


def wait_for(what: Callable[[], bool], process: Process, seconds: float = START_S) -> None:
    """Until `what` is true; fails if the process ends before."""
    until = time.monotonic() + seconds
    while not what():
        assert process.runs(), process.says.read_text()
        assert time.monotonic() < until, process.says.read_text()
        time.sleep(0.05)


class Running:
    """`berthold up` on `directory`. `first`, called before each start, may make it fragile."""

    def __init__(
        self, directory: Path, *, hosts: int, pace: str = "none", first: Callable[[], None] = as_it_is
    ) -> None:
        self.home = Home(directory / "cloud")
        self.hosts = hosts
        self.words = ["up", "--data", str(self.home.path), "--hosts", str(hosts), "--pace", pace]
        self.words += ["--any-core"]  # other tests work on these cores, too
        self.first = first
        self.says = directory / "says"
        self.process: Process | None = None
        self._api: Api | None = None

    @property
    def api(self) -> Api:
        assert self._api is not None, "the cloud does not run"
        return self._api

    def start(self, up: int | None = None) -> None:
        """Start it and log in; all hosts, or at least so many, are up then."""
        self.home.clouds_yaml.unlink(missing_ok=True)
        self.process = Process([*self.words, "--port", "0"], self.says, self.first)
        wait_for(self.home.clouds_yaml.exists, self.process)
        line = next(line for line in self.home.clouds_yaml.read_text().splitlines() if "auth_url" in line)
        self._api = Api(line.split('"')[1].removesuffix("/identity/v3"), self.home.password())
        wait_for(partial(self._answers, self.hosts if up is None else up), self.process)

    def _answers(self, up: int) -> bool:
        try:
            self.api.log_in()
            hypervisors = self.api.get("/os-hypervisors")["hypervisors"]
            return [each["state"] for each in hypervisors].count("up") >= up
        except httpx.TransportError:
            return False

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it; the exit code."""
        assert self.process is not None
        self.hang_up()
        return self.process.end(number)

    def hang_up(self) -> None:
        if self._api is not None:
            self._api.close()
            self._api = None


def unfinished(url: str) -> list[str]:
    """Each move that is under way, and which line it has come to."""
    engine = create_engine(url)
    with engine.connect() as connection:
        rows = connection.execute(
            text(
                "SELECT playbook, line, state FROM move WHERE state IN ('running', 'undoing') ORDER BY number"
            )
        ).all()
    engine.dispose()
    return [f"{row.playbook}: {PLAYBOOKS[row.playbook].lines[row.line].name} ({row.state})" for row in rows]


def faults(url: str, ground: Path | None = None) -> list[str]:
    """Whatever audit, judge and simulated hardware have to say against a cloud. None is right."""
    store = Store(url)
    try:
        found = [f"{violation.promise}: {violation.says}" for violation in store.read_now(audit)]
    finally:
        store.close()
    found += [str(finding) for finding in judge(read_history(url))]
    if ground is not None:
        hardware = Ground(ground)
        found += [f"ran twice: {doubled}" for doubled in hardware.double_running()]
        hardware.close()
    return found
