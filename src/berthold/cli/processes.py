"""`berthold up`, `api`, `conductor`, `agent`: the processes of a cloud.

`up` is all of them in one, on SQLite, with simulated hosts. The others are what a larger
cloud is made of, as many of each as one likes, on one database and one data directory.
"""

from __future__ import annotations

import os
import re
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer
import uvloop

from berthold import cloud, logs
from berthold import companions as companions_of
from berthold.agent.daemon import Daemon
from berthold.agent.faults import LIFELIKE
from berthold.agent.faults import Pace as HostPace
from berthold.agent.ground import Ground
from berthold.agent.http import HttpDoor
from berthold.agent.simulated import Simulated
from berthold.api.agents import AgentDoor
from berthold.api.policy import Policy
from berthold.cli import database as database_commands
from berthold.cli import home as homes
from berthold.cli import options
from berthold.cli.console import Wrong, out
from berthold.cli.home import Home
from berthold.clock import SystemClock
from berthold.companions import Companions
from berthold.errors import Malformed
from berthold.ledger.notify import Notifier
from berthold.ledger.store import Store
from berthold.moves.conductor import Conductor
from berthold.settings import Settings

PORT = 8774
JITTER = 0.2


def up(
    hosts: Annotated[int, typer.Option("--hosts", min=0, help="How many simulated hosts.")] = 5,
    data: options.Data = homes.DEFAULT,
    listen: options.Listen = "127.0.0.1",
    port: options.Port = PORT,
    pace: options.Pace = "lifelike",
    vcpus: options.Vcpus = 4,
    memory_mb: options.Memory = 4096,
    disk_gb: options.Disk = 100,
    policy_file: options.PolicyFile = None,
    wait: options.Wait = 0,
    keep_deleted: options.KeepDeleted = 0,
    keep_shelved: options.KeepShelved = 0,
    one_core: Annotated[
        bool,
        typer.Option(
            "--one-core/--any-core",
            help="Stay on one CPU core: threads of one Python process take turns, and do so quicker there.",
        ),
    ] = True,
) -> None:
    """Run a whole cloud in this process, until Ctrl-C.

    API, conductor and simulated hosts, and small identity, image, block
    storage and network services, all on SQLite. The first start makes the data
    directory; every other one goes on with what was under way.

    Example, ten hosts in a directory of their own:

      berthold up --hosts 10 --data /tmp/cloud
      export OS_CLIENT_CONFIG_FILE=/tmp/cloud/clouds.yaml OS_CLOUD=berthold
      openstack hypervisor list
    """
    speed = pace_of(pace)
    kept = Settings(wait_s=wait, reclaim_s=keep_deleted, shelved_offload_s=keep_shelved)
    settings = _with_policy(kept, policy_file)
    if one_core:
        cloud.stay_on_one_core()
    home = _home(data, alone=True)
    logs.start(home.log)
    database_commands.brought_up(home.database_url)
    listener = _listen(listen, port)
    ground = _ground(home.ground)
    switched_on = partial(
        Simulated,
        ground,
        vcpus=vcpus,
        memory_mb=memory_mb,
        disk_gb=disk_gb,
        pace=speed,
        booted_at=SystemClock().now(),
    )
    drivers = [switched_on(name=f"node{n}") for n in range(1, hosts + 1)]
    well = uvloop.run(_up(home, listener, ground, drivers, settings))
    ground.close()
    raise typer.Exit(0 if well else 1)


def _with_policy(settings: Settings, policy_file: Path | None) -> Settings:
    """The settings of a process with an API; a policy file that is none is found before it starts."""
    try:
        Policy(policy_file)
    except Malformed as error:
        raise Wrong(error.message) from error
    return replace(settings, policy_file=str(policy_file or ""))


async def _up(
    home: Home, listener: socket.socket, ground: Ground, drivers: list[Simulated], settings: Settings
) -> bool:
    address = _address(listener)
    with _store(home.database_url, settings) as store:
        four = await _companions(home, store)
        door = AgentDoor(store)
        daemons = [Daemon(door, driver, ground.journal(driver.name)) for driver in drivers]
        conductor = Conductor(store, four.neighbours, settings, socket.gethostname())
        parts: list[cloud.Part] = [
            # While the cloud was down no host was heard. A conductor that went on with unfinished
            # moves before they have registered would find no host to place a server on.
            cloud.After(lambda: all(daemon.welcome for daemon in daemons), conductor),
            cloud.Web(cloud.application(four, settings, door, home.agents_token()), listener, door.close),
            *map(cloud.agent, daemons),
            cloud.door(door),
        ]
        home.write_clouds_yaml(address)
        return await cloud.run(parts, _greet(home, address, [driver.name for driver in drivers]))


def api(
    database_url: options.Database = None,
    data: options.Data = homes.DEFAULT,
    listen: options.Listen = "127.0.0.1",
    port: options.Port = PORT,
    policy_file: options.PolicyFile = None,
    wait: options.Wait = 0,
    keep_deleted: options.KeepDeleted = 0,
    keep_shelved: options.KeepShelved = 0,
) -> None:
    """Run an API process of a larger cloud.

    Compute, identity, image, block storage and network at one address, which
    is also where agents knock. As many as you like share one database and one
    data directory.

    Example:

      berthold db upgrade --database postgresql+psycopg://db/berthold
      berthold api --database postgresql+psycopg://db/berthold --listen 0.0.0.0
    """
    kept = Settings(wait_s=wait, reclaim_s=keep_deleted, shelved_offload_s=keep_shelved)
    settings = _with_policy(kept, policy_file)
    home = _home(data, alone=False)
    url = database_commands.standing(database_url or home.database_url)
    logs.start(None)
    listener = _listen(listen, port)
    raise typer.Exit(0 if uvloop.run(_api(home, url, listener, settings)) else 1)


async def _api(home: Home, url: str, listener: socket.socket, settings: Settings) -> bool:
    address = _address(listener)
    if not home.clouds_yaml.exists():
        home.write_clouds_yaml(address)
    with _store(url, settings) as store:
        four = await _companions(home, store)
        door = AgentDoor(store)
        web = cloud.Web(cloud.application(four, settings, door, home.agents_token()), listener, door.close)
        return await cloud.run([web, cloud.door(door)], _greet(home, address, []))


def conductor(
    database_url: options.Database = None,
    data: options.Data = homes.DEFAULT,
    name: Annotated[str, typer.Option("--name", help="What the log calls it.")] = "",
    keep_deleted: options.KeepDeleted = 0,
    keep_shelved: options.KeepShelved = 0,
) -> None:
    """Run a conductor of a larger cloud: it works on moves.

    A move is what takes several steps: a create, migration, resize, delete.
    Run two or more, beside the API processes and on their data directory: what
    one leaves unfinished when it dies another takes within ten seconds.

    Example:

      berthold conductor --database postgresql+psycopg://db/berthold
    """
    home = _home(data, alone=False)
    url = database_commands.standing(database_url or home.database_url)
    logs.start(None)
    settings = Settings(reclaim_s=keep_deleted, shelved_offload_s=keep_shelved)
    raise typer.Exit(0 if uvloop.run(_conductor(home, url, name or socket.gethostname(), settings)) else 1)


async def _conductor(home: Home, url: str, name: str, settings: Settings) -> bool:
    with _store(url, settings) as store:
        four = companions_of.build(store, home.path, home.token_key())
        return await cloud.run([Conductor(store, four.neighbours, settings, name)])


def agent(
    url: Annotated[str, typer.Option("--url", help="Where an API process is: http://…:8774.")],
    token_file: Annotated[
        Path, typer.Option("--token-file", exists=True, dir_okay=False, help="agents.token of the cloud.")
    ],
    name: Annotated[str, typer.Option("--name", help="The host's name.")] = "",
    driver: Annotated[
        str, typer.Option("--driver", help="What drives the hypervisor: simulated.")
    ] = "simulated",
    ground: Annotated[
        Path, typer.Option("--ground", help="Where simulated hosts keep their guests; hosts may share it.")
    ] = Path("simulated.db"),
    pace: options.Pace = "lifelike",
    vcpus: options.Vcpus = 4,
    memory_mb: options.Memory = 4096,
    disk_gb: options.Disk = 100,
) -> None:
    """Run the agent of one host of a larger cloud.

    It does on its host what the control plane asks, and tells what runs there.
    The token is the file agents.token in the cloud's data directory.

    Example:

      berthold agent --url http://api:8774 --token-file agents.token --name node1
    """
    if not _is_http(url):
        raise Wrong(f"--url is where an API process is, http://HOST:8774 or https://…, not {url!r}")
    if driver != "simulated":
        raise Wrong(f"there is no driver {driver}; known: simulated")
    speed, token = pace_of(pace), _token(token_file)
    logs.start(None)
    hardware = _ground(ground)
    host = Simulated(
        hardware,
        name or socket.gethostname(),
        vcpus=vcpus,
        memory_mb=memory_mb,
        disk_gb=disk_gb,
        pace=speed,
        booted_at=SystemClock().now(),
    )
    well = uvloop.run(_agent(url, token, host, hardware))
    hardware.close()
    raise typer.Exit(0 if well else 1)


def _ground(path: Path) -> Ground:
    """Where simulated hosts keep their guests."""
    try:
        return Ground(path)
    except sqlite3.Error as error:
        do = "name another (--ground), or restore a backup"
        raise Wrong(f"simulated hosts cannot keep their guests in {path}: {error}", do) from error


def _is_http(url: str) -> bool:
    """Whether it is an address that an agent could knock at."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _token(file: Path) -> str:
    """The agents' token. What is none is found here, before a library's error shows what it is."""
    token = file.read_text(errors="replace").strip()
    if not re.fullmatch(r"[\w.~+/=-]+", token, re.ASCII):
        raise Wrong(f"{file} does not hold the agents' token: one line of letters, digits and -_.~+/=")
    return token


async def _agent(url: str, token: str, host: Simulated, ground: Ground) -> bool:
    async with HttpDoor(url, token) as door:
        return await cloud.run([cloud.agent(Daemon(door, host, ground.journal(host.name)))])


def pace_of(word: str) -> HostPace:
    """How long each verb takes: `lifelike`, `none`, or a factor of lifelike."""
    if word == "none":
        return HostPace()
    try:
        factor = 1.0 if word == "lifelike" else float(word)
    except ValueError:
        raise Wrong(f"--pace is lifelike, none, or a number, not {word!r}") from None
    if not 0 <= factor <= 1000:
        raise Wrong("--pace is a factor from 0 to 1000")
    return HostPace({verb: seconds * factor for verb, seconds in LIFELIKE.items()}, jitter=JITTER)


@contextmanager
def _store(url: str, settings: Settings) -> Iterator[Store]:
    """The database; on PostgreSQL other processes hear what is told here, and tell it here."""
    store = Store(url, settings=settings)
    notifier = Notifier(url, store.bus) if url.startswith("postgresql") else None
    if notifier:
        notifier.start()
    try:
        yield store
    finally:
        if notifier:
            notifier.stop()
        store.close()


async def _companions(home: Home, store: Store) -> Companions:
    four = companions_of.build(store, home.path, home.token_key())
    await companions_of.bootstrap(four, home.password())
    return four


def _home(data: Path, *, alone: bool) -> Home:
    home = homes.opened(data)
    home.lock(alone=alone)
    for secret in (home.password, home.agents_token, home.token_key):
        secret()  # one that cannot be used is told before anything is started
    return home


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        socket.getaddrinfo(address, port, family)
        return socket.create_server((address, port), family=family, backlog=1024)
    except socket.gaierror as error:
        do = "name an address of this machine: --listen 0.0.0.0 is all of them"
        raise Wrong(f"cannot listen on {address}: {error.strerror}", do) from error
    except OSError as error:
        do = "another --port? 0 takes a free one; --listen is an address of this machine"
        raise Wrong(f"cannot listen on {address} port {port}: {os.strerror(error.errno or 0)}", do) from error


def _address(listener: socket.socket) -> str:
    """Where clients of this machine find it."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _greet(home: Home, address: str, hosts: list[str]) -> None:
    out.print(f"Berthold listens on [bold]{address}[/]", end="")
    named = (
        f"{len(hosts)} simulated hosts, {hosts[0]} to {hosts[-1]}" if len(hosts) > 1 else "one simulated host"
    )
    out.print(f" with {named}." if hosts else ".")
    out.print("Talk to it with any OpenStack client:\n")
    out.print(f"  export OS_CLIENT_CONFIG_FILE={home.clouds_yaml} OS_CLOUD=berthold", markup=False)
    out.print("  openstack hypervisor list\n")
