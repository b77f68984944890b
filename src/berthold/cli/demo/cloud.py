"""The cloud under the demo: a process of its own, and what is seen of it from outside.

Everything is read through the API, as any operator could; only the verdict reads the
placement history. A watch looks at every server's status several times a second and
remembers whoever was in ERROR, however short.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from berthold.cli.console import Wrong
from berthold.cli.home import Home

START_S = 60.0
STOP_S = 20.0
LOOK_S = 0.25
RESTING = ("ACTIVE", "VERIFY_RESIZE", "SHUTOFF", "SHELVED_OFFLOADED", "ERROR")
# Events at whose end a server has its place, by Nova's names.
PLACED = ("conductor_", "rebuild_server", "schedule_instances")


@dataclass(frozen=True)
class Server:
    """A server as the API shows it; with no more than a name it is one that is still to be made."""

    name: str
    id: str = ""
    status: str = ""
    task: str | None = None
    host: str | None = None
    flavor: str = ""


@dataclass(frozen=True)
class Action:
    """One thing that was asked of a server. Moments are seconds since 1970."""

    request_id: str
    name: str
    message: str | None
    accepted: float
    ended: float
    claimed: float | None


class Cloud:
    """A cloud that lives as long as the demo."""

    def __init__(self, home: Path, *, hosts: int, pace: float, guarded: bool) -> None:
        self.home = Home(home)
        self.guarded = guarded
        self.errors: dict[str, str] = {}
        self.names: dict[str, str] = {}
        module = "berthold" if guarded else "berthold.lab.unguarded"
        self._command = [sys.executable, "-m", module, "up", "--data", str(home), "--port", "0"]
        self._command += ["--hosts", str(hosts), "--pace", str(pace)]
        self.hosts = [f"node{number}" for number in range(1, hosts + 1)]
        self._process: subprocess.Popen[bytes] | None = None
        self._http = httpx.Client(timeout=30, trust_env=False)
        self._done = threading.Event()
        self._watch = threading.Thread(target=self._look, name="watch", daemon=True)

    # -- Life -----------------------------------------------------------------------------

    def start(self) -> str:
        """Start it; its address, once all hosts are there."""
        with (self.home.path / "console.log").open("wb") as console:
            self._process = subprocess.Popen(self._command, stdout=console, stderr=console)
        until = time.monotonic() + START_S
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > until:
                said = (self.home.path / "console.log").read_text()
                raise Wrong(f"the cloud did not start:\n{said}")
            time.sleep(0.1)
        self._watch.start()
        return str(self._http.base_url)

    def stop(self) -> None:
        """End it as an operator would."""
        self._done.set()
        if self._watch.is_alive():
            self._watch.join()
        self._http.close()
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ready(self) -> bool:
        if not self.home.clouds_yaml.exists():
            return False
        line = next(line for line in self.home.clouds_yaml.read_text().splitlines() if "auth_url" in line)
        self._http.base_url = httpx.URL(line.split('"')[1].removesuffix("/identity/v3"))
        try:
            self._log_in()
            up = [host for host in self.get("os-hypervisors")["hypervisors"] if host["state"] == "up"]
        except (httpx.HTTPError, KeyError):
            return False
        return len(up) == len(self.hosts)

    def _log_in(self) -> None:
        user = {"name": "admin", "domain": {"id": "default"}, "password": self.home.password()}
        project = {"name": "admin", "domain": {"id": "default"}}
        identity = {"methods": ["password"], "password": {"user": user}}
        reply = self._http.post(
            "/identity/v3/auth/tokens",
            json={"auth": {"identity": identity, "scope": {"project": project}}},
        )
        self._http.headers["X-Auth-Token"] = reply.headers["X-Subject-Token"]
        self._http.headers["OpenStack-API-Version"] = "compute 2.96"

    # -- Looking --------------------------------------------------------------------------

    def get(self, path: str, **query: str) -> Any:
        """What the compute API answers."""
        reply = self._http.get(f"/compute/v2.1/{path}", params=query)
        reply.raise_for_status()
        return reply.json()

    def servers(self) -> list[Server]:
        """All servers, by name."""
        found = [
            Server(
                server["name"],
                server["id"],
                server["status"],
                server["OS-EXT-STS:task_state"],
                server["OS-EXT-SRV-ATTR:host"],
                server["flavor"]["original_name"],
            )
            for server in self.get("servers/detail")["servers"]
        ]
        for server in found:
            self.names[server.id] = server.name
            if server.status == "ERROR":
                self.errors[server.name] = f"{server.name} was in ERROR on {server.host}"
        return sorted(found, key=lambda server: server.name)

    def server(self, name: str) -> Server:
        return next(server for server in self.servers() if server.name == name)

    def wait(self, what: Callable[[Sequence[Server]], bool], seconds: float = 60.0) -> bool:
        """Until `what` is true of the servers, `seconds` at most; whether it is."""
        until = time.monotonic() + seconds
        while not what(self.servers()):
            if time.monotonic() > until:
                return False
            time.sleep(LOOK_S)
        return True

    def at_rest(self) -> bool:
        """Wait until no server is on its way; whether it came to that."""
        return self.wait(lambda servers: all(s.status in RESTING and s.task is None for s in servers))

    def all_up(self) -> bool:
        """Wait until every host is up; whether it came to that."""
        until = time.monotonic() + START_S
        while any(host["state"] != "up" for host in self.get("os-hypervisors")["hypervisors"]):
            if time.monotonic() > until:
                return False
            time.sleep(LOOK_S)
        return True

    def servers_on(self, host: str) -> set[str]:
        """Ids of the servers that a host has, as the hypervisors' list says."""
        shown = self.get("os-hypervisors", hypervisor_hostname_pattern=host, with_servers="true")
        return {server["uuid"] for each in shown["hypervisors"] for server in each.get("servers", [])}

    def last_action(self, server: Server) -> Action:
        """What was asked of the server last, and when what came of it."""
        path = f"servers/{server.id}/os-instance-actions"
        found = self.get(path)["instanceActions"][0]
        events = self.get(f"{path}/{found['request_id']}")["instanceAction"]["events"]
        claimed = [e["finish_time"] for e in events if e["event"].startswith(PLACED)]
        refused = found["message"] == "Error"
        return Action(
            found["request_id"],
            found["action"],
            found["message"],
            _moment(found["start_time"]),
            _moment(found["updated_at"]),
            None if refused or not claimed else _moment(claimed[0]),
        )

    def host_names(self) -> Mapping[str, str]:
        """Names of hosts by id."""
        return {host["id"]: host["hypervisor_hostname"] for host in self.get("os-hypervisors")["hypervisors"]}

    def _look(self) -> None:
        while not self._done.wait(LOOK_S):
            # It is the demo that fails when the cloud is gone, not the watch.
            with contextlib.suppress(httpx.HTTPError, KeyError):
                self.servers()


def _moment(text: str) -> float:
    return datetime.fromisoformat(f"{text}+00:00").timestamp()
