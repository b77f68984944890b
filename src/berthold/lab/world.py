"""A whole cloud in one object, stepped by hand: the world under all race tests.

The ledger is in memory, the clock and every id and choice follow from a seed, agents and
runner do nothing until told. Time passes only when the world says so. A world can be
photographed and taken back to where it was, so that an explorer can try every order.

    world = World(hosts=3)
    web = world.group("anti-affinity")
    a, b = world.boot("a", web), world.boot("b", web)     # until both are ACTIVE
    one, two = world.live_migrate(a), world.live_migrate(b)
    world.step(one); world.step(two)                      # one line each
    world.settle()                                        # until nothing is left to do
    assert world.problems() == []
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import MetaData, select, text

from berthold import companions
from berthold.agent.daemon import Daemon
from berthold.agent.faults import Faults
from berthold.agent.ground import Ground
from berthold.agent.protocol import Ask, Fenced, Take
from berthold.agent.simulated import Simulated
from berthold.api.agents import AgentDoor
from berthold.clock import SeededClock
from berthold.database import metadata
from berthold.errors import Stale
from berthold.lab import photographs
from berthold.lab.looks import GROUPS_ON_THE_MOVE, PICTURED, TO_DO, UNFINISHED, VOLATILE, audit_at
from berthold.lab.photographs import Photograph
from berthold.lab.turns import LabStore, Turn, now, stalled, turn
from berthold.ledger import audit, claims, group_moves, groups, hosts, moves, quotas, servers
from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Tx
from berthold.moves import begin, together
from berthold.moves.outcome import Outcome
from berthold.moves.runner import Runner
from berthold.moves.status import Status, status_of
from berthold.settings import Settings

PROJECT, USER = "project", "user"
SMALL = {
    "id": "1",
    "name": "small",
    "vcpus": 1,
    "ram": 512,
    "disk": 1,
    "ephemeral": 0,
    "swap": 0,
    "extra_specs": {},
}
LARGE = {**SMALL, "id": "2", "name": "large", "vcpus": 2, "ram": 1024}
LEASE_S = 5.0
_BEGUN: WeakKeyDictionary[MetaData, dict[Any, Photograph]] = WeakKeyDictionary()

__all__ = ["LARGE", "PROJECT", "SMALL", "USER", "LabStore", "Turn", "World", "now", "turn", "with_settings"]


class World:
    """Hosts, agents, conductors, clock: all simulated, all seeded, all stepped by hand. `hosts`: how many; or
    by their names the vCPUs of each, with a GiB for each of them."""

    def __init__(
        self,
        hosts: int | Mapping[str, int] = 3,
        *,
        seed: int = 0,
        vcpus: int = 4,
        memory_mb: int = 4096,
        settings: Settings | None = None,
        tables: MetaData = metadata,
        url: str = "sqlite://",
        store: LabStore | None = None,
    ) -> None:
        self.clock = SeededClock(seed)
        self.settings = settings or Settings()
        self.store, self._lent = store or LabStore(self.clock, url, self.settings), store is not None
        if self._lent:
            self.store.begin_anew(self.clock, self.settings)
        else:
            self.store.make(tables)
        self.ground = Ground(":memory:", clock=self.clock)
        self.door = AgentDoor(self.store)
        self._directory = tempfile.TemporaryDirectory(prefix="berthold-lab-")
        self.companions = companions.build(self.store, Path(self._directory.name), b"k" * 32)
        self.runner = Runner(self.store, self.companions.neighbours, self.settings)
        self.agents: dict[str, Daemon] = {}
        self.faults_of: dict[str, Faults] = {}
        self.silent: set[str] = set()
        self.leases: dict[str, moves.Lease] = {}
        self.patience = 0.0  # for how long what users ask for may wait for a place
        self.conductors_lost = 0
        if isinstance(hosts, int):
            sizes = {f"node{number}": (vcpus, memory_mb) for number in range(1, hosts + 1)}
        else:
            sizes = {name: (number, number * 1024) for name, number in hosts.items()}
        alone = self._lent or not self.store.writer.url.database
        self._begin(sizes, (self.store.writer.dialect.name, seed, self.settings) if alone else None, tables)

    def _begin(self, sizes: Mapping[str, tuple[int, int]], like: Any, tables: MetaData) -> None:
        """The project is made and every host is registered. Worlds that are alike begin from one
        photograph, if each has its database to itself."""
        begun, key = _BEGUN.setdefault(tables, {}), (like, *sizes.items())
        if like and key in begun:
            for name, size in sizes.items():
                self._make_agent(name, *size)
            self.restore(begun[key])
            return
        self.store.write_now(quotas.ensure_project, PROJECT, self.settings)
        for name, (vcpus, memory_mb) in sizes.items():
            self.add_host(name, vcpus=vcpus, memory_mb=memory_mb)
        if like:
            begun[key] = self.photograph()

    def close(self) -> None:
        self.ground.close()
        if not self._lent:
            self.store.close()
        self._directory.cleanup()

    # -- Hosts ----------------------------------------------------------------------------

    def add_host(self, name: str, *, vcpus: int = 4, memory_mb: int = 4096) -> str:
        """A new host whose agent registers; its id."""
        return now(self._make_agent(name, vcpus, memory_mb).join()).host

    def _make_agent(self, name: str, vcpus: int, memory_mb: int) -> Daemon:
        self.faults_of[name] = Faults()
        driver = Simulated(
            self.ground, name, vcpus=vcpus, memory_mb=memory_mb, faults=self.faults_of[name], sleep=stalled
        )
        agent = self.agents[name] = Daemon(self.door, driver, self.ground.journal(name))
        return agent

    def host_id(self, name: str) -> str:
        welcome = self.agents[name].welcome
        assert welcome is not None
        return welcome.host

    def restart_agent(self, name: str) -> None:
        """The agent dies and comes back: what it had in hand is asked again, at a new epoch."""
        old = self.agents[name]
        self.agents[name] = Daemon(self.door, old.driver, self.ground.journal(name))
        now(self.agents[name].join())
        self.silent.discard(name)

    # -- What users ask -------------------------------------------------------------------

    def group(self, policy: str, per_host: int = 1, name: str = "web") -> str:
        rules = {"max_server_per_host": per_host} if per_host != 1 else {}
        return self.store.write_now(
            groups.create,
            project_id=PROJECT,
            user_id=USER,
            name=name,
            policy=policy,
            rules=rules,
            members_max=-1,
        )

    def by(self) -> begin.By:
        return begin.By(USER, PROJECT, f"req-{self.clock.new_id()}", wait_s=self.patience)

    def create(
        self,
        name: str,
        group: str | None = None,
        *,
        flavor: Mapping[str, Any] = SMALL,
        **wishes: Any,
    ) -> str:
        """Ask for a server; its id. `wishes` are fields of `begin.NewServer`."""
        wish = begin.NewServer(PROJECT, USER, name, flavor, group_id=group, **wishes)
        return self.store.write_now(begin.create_servers, self.by(), [wish])[0]

    def boot(self, name: str, group: str | None = None, **wishes: Any) -> str:
        """Ask for a server and let everything settle."""
        server = self.create(name, group, **wishes)
        self.settle()
        return server

    def live_migrate(self, server: str, host: str | None = None) -> str:
        return self.store.write_now(begin.begin, "live-migration", server, self.by(), {"host": host})

    def migrate(self, server: str, host: str | None = None) -> str:
        return self.store.write_now(begin.begin, "migration", server, self.by(), {"host": host})

    def resize(self, server: str, flavor: Mapping[str, Any] = LARGE) -> str:
        return self.store.write_now(begin.begin, "resize", server, self.by(), {"flavor": dict(flavor)})

    def confirm(self, server: str) -> None:
        self.store.write_now(begin.confirm, server, self.by())

    def revert(self, server: str) -> None:
        self.store.write_now(begin.revert, server, self.by())

    def delete(self, server: str) -> str:
        return self.store.write_now(begin.begin, "delete", server, self.by(), {})

    def delete_group(self, group: str) -> None:
        self.store.write_now(groups.delete_group, group)

    # -- Stepping -------------------------------------------------------------------------

    def unfinished(self) -> list[str]:
        """Moves that a conductor could work on, oldest first."""
        return [row[0] for row in self.store.database.select(UNFINISHED)]

    def lease(self, move_id: str) -> moves.Lease:
        """The lease under which this world's conductor works on the move; taken if need be."""
        held = self.leases.get(move_id)
        if held is None or not self._holds(held):
            held = self.leases[move_id] = self.store.write_now(lease_one, move_id, self.conductor)
        return held

    @property
    def conductor(self) -> str:
        return f"conductor {self.conductors_lost}"

    def _holds(self, lease: moves.Lease) -> bool:
        try:
            self.store.read_now(moves.seen, lease)
        except Stale:
            return False
        return True

    def step(self, move_id: str) -> Outcome:
        """The conductor does one line of the move (or finds that it must wait)."""
        return now(self.runner.step(self.lease(move_id)))

    def kill_conductor(self) -> None:
        """The conductor forgets everything; another one takes its moves when the leases end."""
        self.conductors_lost += 1
        self.leases.clear()
        self.clock.advance(LEASE_S + 0.1)
        self.hear()

    def asks(self, name: str) -> list[Ask]:
        """What the host's agent has to do."""
        welcome = self.agents[name].welcome
        assert welcome is not None
        return now(self.door.take(Take(welcome.host, welcome.epoch, wait=0.0))).asks

    def obey(self, name: str) -> bool:
        """The host's agent does its oldest ask and answers, or registers anew if it was fenced; whether
        there was anything to do."""
        if name in self.silent or not self._has_to_do(name):
            return False
        try:
            waiting = self.asks(name)
        except Fenced:
            now(self.agents[name].join())
            return True
        if not waiting:
            return False
        agent, ask = self.agents[name], waiting[0]
        now(self.door.answer(now(agent.do(ask))))
        agent.journal.heard(ask.id)
        return True

    def _has_to_do(self, name: str) -> bool:
        """Whether the host's agent has an ask, or an epoch that is over."""
        welcome = self.agents[name].welcome
        assert welcome is not None
        return (welcome.host, welcome.epoch, False) not in self.store.database.select(TO_DO)

    def hear(self) -> None:
        """Every host that is not silent beats."""
        beating = [self.host_id(name) for name in self.agents if name not in self.silent]
        self.store.write_now(hosts.heard, beating)

    def settle(self, patience: int = 2000, stride_s: float = 1.0) -> None:
        """Step everything until nothing is left to do or only silent hosts could go on. Where nobody can do
        anything just now, so much time passes."""
        for _ in range(patience):
            busy = [not self.step(move_id).wait_s for move_id in self.unfinished()]
            busy += [self.obey(name) for name in list(self.agents)]
            busy.append(self.attend())
            if not any(busy):
                if not self.unfinished() or self.silent:
                    return
                self.pass_time(stride_s)
        raise AssertionError(f"this never settles: {self.moves()}")

    def attend(self) -> bool:
        """Whoever attends to whole-group moves does what is due; whether anything was."""
        if not self.store.database.select(GROUPS_ON_THE_MOVE):
            return False
        waiting = self.store.read_now(group_moves.unfinished)
        tended = [self.store.write_now(together.tend, each) for each in waiting]
        return any(tended)

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.hear()

    # -- Looking --------------------------------------------------------------------------

    def server(self, server_id: str) -> Mapping[str, Any]:
        row = self.store.read_now(servers.find, server_id)
        assert row is not None
        return row

    def move(self, move_id: str) -> Mapping[str, Any]:
        row = self.store.read_now(moves.find, move_id)
        assert row is not None
        return row

    def moves(self) -> list[Mapping[str, Any]]:
        return self.rows("move")

    def status(self, server_id: str) -> Status:
        return status_of(self.server(server_id), self.store.read_now(moves.unfinished, server_id))

    def home(self, server_id: str) -> str | None:
        """The name of the server's home."""
        return next((c.host_name for c in self.claims(server_id) if c.role == "home"), None)

    def claims(self, server_id: str) -> list[claims.Claim]:
        return self.store.read_now(claims.of_server, server_id)

    def rows(self, table: str) -> list[Mapping[str, Any]]:
        """A whole table, in an order that does not depend on chance."""
        return sorted(self.store.read_now(all_of(table).mappings, {}), key=str)

    def picture(self) -> dict[str, list[Mapping[str, Any]]]:
        """What must be as before when a move has left no trace: claims, seats, use, guests, servers."""
        shown: dict[str, list[Mapping[str, Any]]] = {
            name: [{k: v for k, v in row.items() if k not in VOLATILE} for row in self.rows(name)]
            for name in PICTURED
        }
        shown["snapshots"] = [row for row in self.rows("image") if "instance_uuid" in row["properties"]]
        shown["counted"] = [row for row in self.rows("companion_quota") if row["used"]]
        shown["guests"] = [{"host": name, **self.ground.states(name)} for name in sorted(self.agents)]
        return shown

    def problems(self) -> list[str]:
        """Every promise that is broken right now."""
        found = []
        if self.store.database.select(*audit_at(self.clock.now())):
            found += [f"{v.promise}: {v.says}" for v in self.store.read_now(audit.audit)]
        found += [f"M1: {row} runs twice" for row in self.ground.double_running()]
        claimed = {(claim["server_id"], claim["host_id"]) for claim in self.rows("claim")}
        found += [
            f"M1: {server} is {state} on {name} without a claim"
            for name in self.agents
            for server, state in self.ground.states(name).items()
            if (server, self.host_id(name)) not in claimed
        ]
        return found

    # -- Photographs ----------------------------------------------------------------------

    def photograph(self) -> Photograph:
        """Everything there is, to come back to with `restore`."""
        return photographs.take(self)

    def restore(self, photograph: Photograph) -> None:
        """Go back to it; planned faults are forgotten."""
        photographs.go_back(self, photograph)


@cache
def all_of(table: str) -> Prepared:
    return Prepared(select(metadata.tables[table]))


def lease_one(tx: Tx, move_id: str, owner: str) -> moves.Lease:
    """Take this one move, as a conductor that finds its lease over would."""
    row = tx.execute(
        text(
            "UPDATE move SET owner = :owner, epoch = epoch + 1, until = :until"
            " WHERE id = :id AND state IN ('running','undoing') RETURNING id, epoch"
        ),
        {"owner": owner, "until": 4e9, "id": move_id},
    ).first()
    if row is None:
        raise Stale(f"move {move_id} is over")
    return moves.Lease(row.id, row.epoch)


def with_settings(**changes: Any) -> Settings:
    """The default settings but for `changes`."""
    return replace(Settings(), **changes)
