"""What agents and the control plane say to each other.

Agents call; the control plane answers. Five requests, over HTTP(S) as JSON under
`/agents/v1/` with the agents' token, or in process through the same `Door`:

    POST register    Hello    → Welcome     who I am and what I have; my epoch from now on
    POST heartbeat   Beat     → Beat        I am alive (refused once my epoch is over)
    POST take        Take     → Asks        what is there to do? waits up to `wait` seconds
    POST answer      Answer   → Heard       what came of an ask
    POST report      Report   → Heard       what really runs here

M5: whatever carries an older epoch than the host's is refused (HTTP 409, `Fenced` at the
agent): somebody fenced the host or another agent speaks for it. An ask may come twice; an
agent does it once and repeats its answer. Answers are recorded, not obeyed.
"""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct, field


class Fenced(Exception):
    """M5: this agent's epoch is over. It must register anew before it may do anything."""


class Guest(Struct, frozen=True):
    """What a hypervisor must know to make a server's guest. Sizes: MiB of memory, GiB of disk."""

    server: str
    name: str
    vcpus: int
    memory_mb: int
    disk_gb: int = 0
    image: str | None = None
    volumes: list[dict[str, Any]] = field(default_factory=list)
    ports: list[dict[str, Any]] = field(default_factory=list)


class Running(Struct, frozen=True):
    """One guest as it really is on a host. `state`: running, paused, suspended, stopped, incoming (prepared,
    not yet here), remains (sent away; only what `discard` removes is left)."""

    server: str
    state: str


class Hello(Struct, frozen=True):
    """An agent introduces its host. `key` was drawn when the agent's directory was made: it
    tells one host from another of the same name. `inventory` is by resource class:
    {"total", "reserved", "allocation_ratio", …}; `facts` is what the hypervisors resource
    shows (hypervisor_type, hypervisor_version, cpu_info, host_ip; booted_at, users, load_average)."""

    name: str
    key: str
    inventory: dict[str, dict[str, float]]
    traits: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    zone: str = "nova"
    guests: list[Running] = field(default_factory=list)


class Welcome(Struct, frozen=True):
    """From now on this host acts at `epoch`; whatever carries an older one is refused."""

    host: str
    epoch: int
    heartbeat_s: float = 1.0


class Progress(Struct, frozen=True):
    """How far a sending has come, in bytes. What was changed meanwhile is sent again, so
    `processed` may exceed `total`."""

    memory_total_bytes: int
    memory_processed_bytes: int
    memory_remaining_bytes: int
    disk_total_bytes: int = 0
    disk_processed_bytes: int = 0
    disk_remaining_bytes: int = 0


class Beat(Struct, frozen=True):
    """I am alive. `progress`: how far the sendings that are under way have come, by ask."""

    host: str
    epoch: int
    progress: dict[str, Progress] = field(default_factory=dict)


class Take(Struct, frozen=True):
    """`wait`: seconds the control plane may wait for something to do before it answers with nothing.
    `busy`: asks this agent has in hand, not to be sent again."""

    host: str
    epoch: int
    wait: float = 20.0
    busy: list[str] = field(default_factory=list)


class Ask(Struct, frozen=True):
    """One thing to do. `seq` orders the asks of this host: an ask for a server whose later
    ask this agent has already begun is old news and gets the answer `ok=False`.

    `args` by verb: spawn, check, prepare, start, rebuild, rescue {"guest": a `Guest`}; send, send_disk
    {"target": the host's name}; restore {"guest", "state"}; reboot {"guest", "hard"}; attach_volume,
    detach_volume {"volume": {"volume_id", "device", …}}; attach_interface, detach_interface {"port": {"id",
    "mac_address", …}}; console {"lines": number or None}; locate, stop, pause, unpause, suspend, resume,
    discard nothing. `locate` and `discard` end what is still
    under way for the server; `console` only looks: it waits for nothing and nothing waits for it;
    every other verb waits for what is under way.
    """

    id: str
    seq: int
    epoch: int
    move: str
    server: str
    verb: str
    claim: str | None = None
    args: dict[str, Any] = field(default_factory=dict)


class Asks(Struct, frozen=True):
    asks: list[Ask]


class Answer(Struct, frozen=True):
    """What came of an ask. `ok` false: it was not done and `reason` says why, for operators.
    `facts` is what the verb promises to tell (see `agent/driver.py`).

    Two refusals leave open how far it came: "superseded by a later ask", whose sender has given up
    on this one, and facts {"begun": True}: begun at an epoch that is over, before the agent died.
    """

    host: str
    epoch: int
    ask: str
    ok: bool
    reason: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


class Heard(Struct, frozen=True):
    """Recorded (or already known)."""

    ok: bool = True


class Report(Struct, frozen=True):
    """Every guest that is really on the host now."""

    host: str
    epoch: int
    guests: list[Running]


class Door(Protocol):
    """The control plane as an agent sees it; in process or over HTTP.

    Each raises `Fenced` when the epoch is over and `ConnectionError` when the control
    plane cannot be reached (try again).
    """

    async def register(self, hello: Hello) -> Welcome: ...
    async def heartbeat(self, beat: Beat) -> Beat: ...
    async def take(self, take: Take) -> Asks: ...
    async def answer(self, answer: Answer) -> Heard: ...
    async def report(self, report: Report) -> Heard: ...
