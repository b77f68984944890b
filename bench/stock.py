"""Servers at home, each with a live migration that a conductor has just leased and found a host for.

Written as rows, thousands at a time; the audit afterwards judges them like any others.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table

from berthold.database import metadata
from berthold.ledger import claims, moves, quotas, schema
from berthold.ledger.store import Store, Tx
from berthold.moves.playbook import Scene
from berthold.settings import Settings

PROJECT, USER = "project", "user"
MEMBERS = 4  # of a group, where there are hosts enough
FLAVOR = {"vcpus": 1, "ram": 512, "disk": 1}
WANTED = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}
TAKEN = claims.columns_of(WANTED) or {}
ROOM = 1_000_000_000  # for all of them on one host
NO_LIMIT = Settings(quota_instances=-1, quota_cores=-1, quota_ram=-1, quota_server_groups=-1)
ROWS_AT_ONCE = 5_000
THEN = {"created_at": 1.0, "updated_at": 1.0}


@dataclass(frozen=True)
class Job:
    """A claim to take, and the move as its runner has seen it."""

    lease: moves.Lease
    want: claims.Want
    host_name: str
    seen: Scene


def prepare(store: Store, *, hosts: int, claims: int) -> list[Job]:
    """So many claims to take on so many hosts. If all want one host, each is of a group of its own."""
    stock = _stock(hosts, claims)
    store.write_now(stock.charge)
    # Transactions of a few rows: to make thousands of rows takes longer than one may stand still.
    for table in metadata.sorted_tables:
        rows = stock.rows[table.name]
        for first in range(0, len(rows), ROWS_AT_ONCE):
            store.write_now(_insert, table, rows[first : first + ROWS_AT_ONCE])
    return _jobs(store, stock)


def _stock(hosts: int, count: int) -> Stock:
    stock, chance = Stock(), random.Random(1)
    targets = [f"host-{n}" for n in range(hosts)]
    alone = hosts < 2 * MEMBERS
    homes = [f"home-{n}" for n in range(MEMBERS)] if alone else targets
    size = 1 if alone else MEMBERS
    for first in range(0, count, size):
        spots = [chance.choice(homes), targets[0]] if alone else chance.sample(targets, 2 * MEMBERS)
        for n in range(size):
            stock.add_server(first + n, first // size, spots[n], spots[size + n])
    stock.add_groups()
    stock.add_hosts([*targets, *(homes if alone else [])])
    return stock


def _insert(tx: Tx, table: Table, rows: list[dict[str, Any]]) -> None:
    tx.execute(table.insert(), rows)


def _by_id(tx: Tx, table: Table) -> dict[str, dict[str, Any]]:
    return {row["id"]: dict(row) for row in tx.execute(table.select()).mappings()}


def _jobs(store: Store, stock: Stock) -> list[Job]:
    """As `sight.look` shows each move to its runner, but read all at once."""
    found = {table.name: store.read_now(_by_id, table) for table in (schema.move, schema.server)}
    homes = {row["server_id"]: row for row in stock.rows["claim"]}
    jobs = []
    for lease, want in stock.wants:
        row = homes[want.server_id]
        home = claims.Claim(row["id"], want.server_id, row["host_id"], row["host_id"], "up", "home", None)
        seen = Scene(found["move"][lease.move_id], found["server"][want.server_id], (home,))
        jobs.append(Job(lease, want, want.host_id, seen))
    return jobs


class Stock:
    """Rows that belong together, by table."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.wants: list[tuple[moves.Lease, claims.Want]] = []

    def add_server(self, number: int, group: int, home: str, target: str) -> None:
        """A server at home with its move to `target`."""
        server, move, claim = f"server-{number}", f"move-{number}", f"claim-{number}"
        member = {"group_id": f"group-{group}", "server_id": server}
        who = {"user_id": USER, "project_id": PROJECT}
        self.rows["server"].append(
            {"id": server, "name": server, "group_id": f"group-{group}", "rule": "anti-affinity"}
            | {"condition": "active", "flavor": FLAVOR, "cores": 1, "ram": 512, **who, **THEN}
        )
        self.rows["seat"].append({"domain": home, "seat": 1, "per_host": 1, **member})
        self.rows["claim"].append(
            {"id": claim, "host_id": home, "host_epoch": 1, "role": "home", "domain": home}
            | {"rule": "anti-affinity", **TAKEN, **member}
        )
        self.rows["history"] += [
            {"event": event, "claim_id": claim, "host_id": home, "policy": "anti-affinity", "at": 1.0}
            | {"amounts": WANTED if event == "claimed" else {}, **member}
            for event in ("claimed", "home")
        ]
        self.rows["action"].append(
            {"number": number + 1, "request_id": "req", "server_id": server, "move_id": move}
            | {"action": "live-migration", "started_at": 1.0, "updated_at": 1.0, **who}
        )
        self.rows["move"].append(
            {"id": move, "server_id": server, "kind": "live-migration", "playbook": "live-migration"}
            | {"state": "running", "line_since": 1.0, "owner": "bench", "epoch": 1, "until": 1e12}
            | {
                "source_id": home,
                "wish": {},
                "facts": {"action": number + 1},
                "request_id": "req",
                **who,
                **THEN,
            }
        )
        want = claims.Want(server, target, WANTED, move, 1)
        self.wants.append((moves.Lease(move, 1), want))

    def add_groups(self) -> None:
        """Their groups."""
        for group, members in Counter(row["group_id"] for row in self.rows["server"]).items():
            self.rows["server_group"].append(
                {"id": group, "name": group, "project_id": PROJECT, "user_id": USER, "created_at": 1.0}
                | {"policy": "anti-affinity", "members": members, "members_max": members}
            )

    def add_hosts(self, names: list[str]) -> None:
        """Hosts with room for all, and what those at home there take of it."""
        at_home = Counter(row["host_id"] for row in self.rows["claim"])
        for name in names:
            self.rows["provider"].append({"id": name, "name": name, "root_id": name})
            self.rows["host"].append({"id": name, "name": name, "status": "up", "agent_key": name, **THEN})
            self.rows["inventory"] += [
                {"provider_id": name, "class": each, "total": ROOM, "max_unit": ROOM, "capacity": ROOM}
                | {"ceiling": ROOM, "used": at_home[name] * amount}
                for each, amount in WANTED.items()
            ]

    def charge(self, tx: Tx) -> None:
        """What the project pays for it."""
        count, groups = len(self.rows["server"]), len(self.rows["server_group"])
        quotas.ensure_project(tx, PROJECT, NO_LIMIT)
        quotas.charge(tx, PROJECT, instances=count, cores=count, ram=512 * count, server_groups=groups)
