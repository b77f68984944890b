"""The judge: replays the placement history and says whether a promise was ever broken.

It shares nothing with the code that keeps the promises: it imports nothing of the ledger and
has a small model of its own. Input are the rows of the table `history`; output is a finding
for each promise that was broken at some instant, however short.

    C1  the claims on a host never rise above what it offered (it may offer less later)
    G1  at most `per_host` members of an anti-affinity group hold claims on one host
    G2  an affinity group is on one host; on two only while its one placed member moves, or while
        its members, and they alone, go from the one to the other: all together, or evacuated one
        by one
    M1  what is freed, left or made a home was claimed before, once, by that server there
    M2  a server's home is a live claim of its own; it holds one other claim at most
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, create_engine, text

# The policies of claims by which the members of an affinity group go to another host.
ON_THE_WAY = ("affinity in flight", "affinity as a whole")


@dataclass(frozen=True)
class Finding:
    """One broken promise. `servers`: who broke it first, then those already there."""

    promise: str
    rule: str
    group: str | None
    servers: tuple[str, ...]
    host: str | None
    number: int
    at: float
    says: str

    def __str__(self) -> str:
        return f"{self.promise} at event {self.number} (t={self.at:.3f}): {self.says}"


@dataclass
class Held:
    """A live claim, as the history told it."""

    claim: str
    server: str
    host: str
    group: str | None
    rule: str
    amounts: Mapping[str, int]
    left: bool = False


@dataclass
class Replay:
    """What the history has told so far. `see` takes the next event."""

    offered: dict[str, Mapping[str, int]] = field(default_factory=dict)
    live: dict[str, Held] = field(default_factory=dict)
    ever: set[str] = field(default_factory=set)
    homes: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def see(self, row: Mapping[str, Any]) -> None:
        """Take one event; findings are added."""
        EVENTS[row["event"]](self, row)

    def _find(
        self, row: Mapping[str, Any], promise: str, rule: str, servers: Iterable[str], says: str
    ) -> None:
        named = tuple(dict.fromkeys(servers))
        self.findings.append(
            Finding(promise, rule, row["group_id"], named, row["host_id"], row["number"], row["at"], says)
        )

    # -- Events ---------------------------------------------------------------------------

    def offer(self, row: Mapping[str, Any]) -> None:
        self.offered[row["host_id"]] = row["amounts"]

    def claim(self, row: Mapping[str, Any]) -> None:
        new = Held(
            row["claim_id"], row["server_id"], row["host_id"], row["group_id"], row["policy"], row["amounts"]
        )
        if new.claim in self.ever:
            self._find(row, "M1", "once", [new.server], f"claim {new.claim} is made a second time")
        self.ever.add(new.claim)
        self.live[new.claim] = new
        self._capacity(row, new)
        self._apart(row, new)
        self._together(row, new)
        self._one_move(row, new)

    def home(self, row: Mapping[str, Any]) -> None:
        held = self._known(row)
        if held is None:
            return
        if held.left:
            self._find(
                row,
                "M2",
                "home",
                [held.server],
                f"server {held.server} has its home on {held.host}, which it left",
            )
        self.homes[held.server] = held.claim

    def leave(self, row: Mapping[str, Any]) -> None:
        if held := self._known(row):
            held.left = True

    def free(self, row: Mapping[str, Any]) -> None:
        if held := self._known(row):
            del self.live[held.claim]

    def ungroup(self, row: Mapping[str, Any]) -> None:
        for held in self.live.values():
            if held.server == row["server_id"]:
                held.rule, held.group = "none", None

    # -- Rules ----------------------------------------------------------------------------

    def _known(self, row: Mapping[str, Any]) -> Held | None:
        """The live claim that the event is about, if it is as the event says."""
        held = self.live.get(row["claim_id"])
        if held is None:
            was = "any more" if row["claim_id"] in self.ever else "at all"
            self._find(
                row,
                "M1",
                "claimed first",
                [row["server_id"]],
                f"'{row['event']}' of claim {row['claim_id']} of server {row['server_id']} on"
                f" {row['host_id']}, which is not claimed {was}",
            )
        elif (held.server, held.host) != (row["server_id"], row["host_id"]):
            self._find(
                row,
                "M2" if row["event"] == "home" else "M1",
                "own claim",
                [row["server_id"], held.server],
                f"'{row['event']}' of server {row['server_id']} on {row['host_id']} names claim {held.claim},"
                f" which is server {held.server}'s on {held.host}",
            )
        return held

    def _capacity(self, row: Mapping[str, Any], new: Held) -> None:
        offered = self.offered.get(new.host, {})
        here = [held for held in self.live.values() if held.host == new.host]
        for what, amount in sorted(new.amounts.items()):
            use = sum(held.amounts.get(what, 0) for held in here)
            if amount > 0 and use > offered.get(what, 0):
                others = [held.server for held in here if held.amounts.get(what)]
                self._find(
                    row,
                    "C1",
                    what,
                    [new.server, *others],
                    f"server {new.server} raises the use of host {new.host} to {use} {what};"
                    f" it offers {offered.get(what, 0)}",
                )

    def _apart(self, row: Mapping[str, Any], new: Held) -> None:
        if new.rule != "anti-affinity":
            return
        here = {
            held.server for held in self.live.values() if held.group == new.group and held.host == new.host
        }
        if len(here) > row["per_host"]:
            others = sorted(here - {new.server})
            self._find(
                row,
                "G1",
                new.rule,
                [new.server, *others],
                f"server {new.server} joins {', '.join(others)} of anti-affinity group {new.group}"
                f" on host {new.host}, which may hold {row['per_host']}",
            )

    def _together(self, row: Mapping[str, Any], new: Held) -> None:
        """One host; or two, if everything that the group claims is one server's."""
        if new.rule not in ("affinity", *ON_THE_WAY):
            return
        placed = [held for held in self.live.values() if held.group == new.group and not held.left]
        hosts, servers = {held.host for held in placed}, {held.server for held in placed}
        if len(hosts) == 1 or (len(hosts) == 2 and len(servers) == 1):
            return
        here = [held.server for held in placed if held is not new]
        if new.rule in ON_THE_WAY and len(hosts) == 2 and new.server in here:
            return
        others = sorted(servers - {new.server})
        elsewhere = ", ".join(sorted(hosts - {new.host}))
        self._find(
            row,
            "G2",
            new.rule,
            [new.server, *others],
            f"server {new.server} of affinity group {new.group} claims host {new.host} while"
            f" {', '.join(others) or 'it'} of that group lives on {elsewhere}",
        )

    def _one_move(self, row: Mapping[str, Any], new: Held) -> None:
        own = [held for held in self.live.values() if held.server == new.server and not held.left]
        if len(own) > 2:
            self._find(
                row,
                "M2",
                "one home, one move",
                [new.server],
                f"server {new.server} holds {len(own)} claims at once: on"
                f" {', '.join(sorted(held.host for held in own))}",
            )
        elif len(own) == 2 and self.homes.get(new.server) not in {held.claim for held in own}:
            self._find(
                row,
                "M2",
                "home",
                [new.server],
                f"server {new.server} claims {new.host} and none of its claims is its home",
            )


EVENTS: Mapping[str, Callable[[Replay, Mapping[str, Any]], None]] = {
    "offered": Replay.offer,
    "claimed": Replay.claim,
    "home": Replay.home,
    "left": Replay.leave,
    "freed": Replay.free,
    "ungrouped": Replay.ungroup,
}


def judge(rows: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Every promise that the history shows broken, in the order in which it happened."""
    replay = Replay()
    for row in sorted(rows, key=lambda row: int(row["number"])):
        replay.see(row)
    return replay.findings


def read_history(url: str) -> list[Mapping[str, Any]]:
    """The history of the cloud whose database is at `url` (SQLAlchemy's)."""
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            return history_rows(connection)
    finally:
        engine.dispose()


def history_rows(connection: Connection) -> list[Mapping[str, Any]]:
    """The same by a connection that is open already."""
    rows = connection.execute(text("SELECT * FROM history ORDER BY number")).mappings()
    return [{**row, "amounts": _document(row["amounts"])} for row in rows]


def _document(value: Any) -> Any:
    """JSON comes as text from SQLite and as objects from PostgreSQL."""
    return json.loads(value) if isinstance(value, str) else value
