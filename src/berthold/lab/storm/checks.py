"""What must be true in a storm: at every instant, and once all is calm.

At every instant: the ledger's audit finds nothing; every guest that is anywhere is covered by a
claim there (M1); no server ever ran twice; the placement history is judged, and so are the guests
themselves, as if each had claimed its host when it appeared there (G1, G2); a move that was undone
left the server what it was, and no server that ever ran is in ERROR (M6).

In the calm: nothing is unfinished but what waits for its owner, and everything that is there (claims,
guests, ports, volumes, images, files) has an owner that knows of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from berthold.companions import image, snapshots, volume
from berthold.lab.databases import Look
from berthold.lab.judge import Finding, Replay
from berthold.lab.looks import audit_at
from berthold.lab.storm.cloud import Cloud
from berthold.ledger import schema
from berthold.ledger.audit import audit
from berthold.ledger.seats import flown_from
from berthold.moves.power import GUEST_AT_REST
from berthold.moves.shelve import SHELVED_IMAGE

HISTORY = tuple(column.name for column in schema.history.columns)
HISTORY_AFTER = f"SELECT {', '.join(HISTORY)} FROM history WHERE number > ? ORDER BY number"
CLAIMS = "SELECT server_id, host_id, role FROM claim"
IN_ERROR = "SELECT id, name FROM server WHERE condition = 'error' AND launched_at IS NOT NULL"
UNDONE = (
    "SELECT m.id, m.kind, s.name, s.condition FROM move m JOIN server s ON s.id = m.server_id"
    " WHERE m.state = 'undone' AND m.kind <> 'create'"
)


@dataclass
class Watcher:
    """Looks at one cloud from the beginning of a run. `audited`: whether the ledger's own audit is
    asked too; a ledger that has lost a constraint would fail it at once."""

    cloud: Cloud
    audited: bool = True
    ledger: Replay = field(default_factory=Replay)
    ground: Replay = field(default_factory=Replay)
    _claimed: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    _standing: dict[tuple[str, str], str] = field(default_factory=dict)  # guests, by their tokens
    _left: set[tuple[str, str]] = field(default_factory=set)
    _seen: tuple[int, int] = (-1, -1)
    _number: int = 0
    _tokens: int = 0
    _conditions: dict[str, str] = field(default_factory=dict)
    _undone: set[str] = field(default_factory=set)

    def began(self, move_id: str, condition: str) -> None:
        """The move was acknowledged while its server was in that condition."""
        self._conditions[move_id] = condition

    def problems(self) -> list[str]:
        """Whatever is wrong now, or was at some instant since the last look."""
        if (changes := self.cloud.changes()) == self._seen:
            return []
        self._seen = changes
        self.cloud.store.database.look_ahead(*self._looks(), *self.cloud.looks())
        found = [str(finding) for finding in self._judged()]
        found += self._guests()
        if self.audited:
            found += self._audit()
            found += self._undone_moves()
        return found

    # -- The ledger -----------------------------------------------------------------------

    def _looks(self) -> Iterator[Look]:
        """What is asked after each change."""
        yield HISTORY_AFTER, self._number
        yield (CLAIMS,)
        if self.audited:
            yield audit_at(self.cloud.clock.now())
            yield (IN_ERROR,)
            yield (UNDONE,)

    def _audit(self) -> Iterator[str]:
        if self.cloud.select(*audit_at(self.cloud.clock.now())):
            rows = self.cloud.store.read_now(audit)
            yield from (f"{row.promise}: {row.says}" for row in rows)

    def _judged(self) -> list[Finding]:
        """The history, as far as it is new."""
        known = len(self.ledger.findings)
        for row in _history_after(self.cloud, self._number):
            self._number = row["number"]
            self.ledger.see(row)
            if row["event"] == "claimed":
                self._claimed[row["server_id"], row["host_id"]] = row
            if row["event"] == "ungrouped":
                self.ground.see(row)
        return self.ledger.findings[known:]

    def _undone_moves(self) -> Iterator[str]:
        for server, name in self.cloud.select(IN_ERROR):
            yield f"M6: {name} ({server}) has run and is in ERROR"
        for move, kind, name, condition in self.cloud.select(UNDONE):
            if move in self._undone:
                continue
            self._undone.add(move)
            if (before := self._conditions.get(move)) not in (condition, None):
                yield f"M6: the {kind} of {name} was undone; it was {before} and is {condition}"

    # -- The guests -----------------------------------------------------------------------

    def _guests(self) -> list[str]:
        cloud = self.cloud
        claims = {(row[0], row[1]): row[2] for row in cloud.select(CLAIMS)}
        guests = {
            (server, cloud.host_id(name)): state
            for name in cloud.agents
            for server, state in cloud.ground.states(name).items()
        }
        found = [
            f"M1: {server} is {state} on {host} without a claim"
            for (server, host), state in guests.items()
            if (server, host) not in claims
        ]
        found += [f"M1: {twice} runs twice" for twice in cloud.ground.double_running()]
        return found + self._judge_guests(guests, {key for key, role in claims.items() if role == "left"})

    def _judge_guests(self, guests: Mapping[tuple[str, str], str], left: set[tuple[str, str]]) -> list[str]:
        """G1 and G2 over what really is on the hosts."""
        known = len(self.ground.findings)
        for key in [key for key in self._standing if key not in guests]:
            self._tell("freed", key, self._standing.pop(key))
            self._left.discard(key)
        for key in sorted(left & self._standing.keys() - self._left):
            self._left.add(key)
            self._tell("left", key, self._standing[key])
        for key in sorted(guests.keys() - self._standing.keys()):
            if key in self._claimed:
                self._tokens += 1
                self._standing[key] = f"guest {self._tokens}"
                self._tell("claimed", key, self._standing[key])
        return [
            f"{finding.promise} among the guests themselves: {finding}"
            for finding in self.ground.findings[known:]
            if finding.promise in ("G1", "G2")
        ]

    def _tell(self, event: str, key: tuple[str, str], token: str) -> None:
        row = {**self._claimed[key], "event": event, "claim_id": token, "amounts": {}}
        if key[0] in self._ungrouped:
            row |= {"group_id": None, "policy": "none"}
        elif (row["group_id"], key[1]) in self._fled:
            # It is late, not new there: its claim is older than the flight, and was judged when it was taken.
            row |= {"policy": "none"}
        self.ground.see(row)

    @property
    def _ungrouped(self) -> set[str]:
        return {row[0] for row in self.cloud.select("SELECT id FROM server WHERE group_id IS NULL")}

    @property
    def _fled(self) -> set[tuple[str, str | None]]:
        """Each affinity group that is being evacuated, and the host that it leaves."""
        rows = self.cloud.select("SELECT id, moving FROM server_group WHERE moving IS NOT NULL")
        return {(group, flown_from(moving)) for group, moving in rows}


def _history_after(cloud: Cloud, number: int) -> Iterator[Mapping[str, Any]]:
    for values in cloud.select(HISTORY_AFTER, number):
        row = dict(zip(HISTORY, values, strict=True))
        yield {**row, "amounts": json.loads(row["amounts"])}


# -- The calm -------------------------------------------------------------------------------


def remains(cloud: Cloud, interrupted: set[str]) -> list[str]:
    """What is left over or left undone, now that everything has had its time. `interrupted`: servers
    whose host lost power under them; nobody starts those again but their owners."""
    return [
        *_unfinished(cloud),
        *_placed(cloud, interrupted),
        *_ports(cloud),
        *_volumes(cloud),
        *_images_and_files(cloud),
    ]


def _unfinished(cloud: Cloud) -> Iterator[str]:
    for move, kind, state in cloud.select(
        "SELECT id, kind, state FROM move WHERE state IN ('running','undoing','stuck')"
    ):
        yield f"M4: {kind} {move} is still {state}"
    for whole, state in cloud.select("SELECT id, state FROM group_move WHERE state <> 'done'"):
        yield f"G2: group move {whole} is still {state}"
    for ask, verb in cloud.select("SELECT id, verb FROM ask WHERE state = 'open'"):
        yield f"M6: ask {ask} ({verb}) is still open"
    for name, status in cloud.select("SELECT name, status FROM host WHERE status <> 'up'"):
        yield f"M5: {name} is still {status}"
    told = dict(cloud.select("SELECT number, message FROM action"))
    for move, kind, state, facts in cloud.select(
        "SELECT id, kind, state, facts FROM move WHERE state IN ('done','undone')"
    ):
        number = json.loads(facts).get("action")
        message = told.get(number)
        if number and (state == "undone") != (message == "Error"):
            yield f"A1: {kind} {move} is {state}, and its owner is told {message or 'that all is well'}"


def _placed(cloud: Cloud, interrupted: set[str]) -> Iterator[str]:
    """Claims and guests are the same things, and both are what their servers say."""
    claims = {(row[0], row[1]): row[2] for row in cloud.select(CLAIMS)}
    waiting = {row[0] for row in cloud.select("SELECT server_id FROM move WHERE state = 'waiting'")}
    conditions = dict(cloud.select("SELECT id, condition FROM server"))
    guests = {
        (server, cloud.host_id(name)): state
        for name in cloud.agents
        for server, state in cloud.ground.states(name).items()
    }
    for (server, host), role in claims.items():
        if role != "home" and not (role == "source" and server in waiting):
            yield f"M6: {server} still has a claim as {role} on {host}"
        state = guests.get((server, host))
        if state is None:
            yield f"M1: {server} has a claim as {role} on {host} and no guest there"
        wanted = GUEST_AT_REST.get(conditions[server]) if role == "home" else "stopped"
        if wanted and state != wanted and server not in interrupted:
            yield f"M6: {server} is {conditions[server]}, its guest on {host} ({role}) is {state}"


def _ports(cloud: Cloud) -> Iterator[str]:
    homes = dict(
        cloud.select(
            "SELECT c.server_id, h.name FROM claim c JOIN host h ON h.id = c.host_id WHERE c.role = 'home'"
        )
    )
    rows = cloud.select(
        "SELECT id, server_id, host FROM network_port WHERE server_id IS NOT NULL ORDER BY id"
    )
    plugged = {(port, server) for port, server, _ in rows}
    known = _named(cloud, "ports", "id")
    for port, server in sorted(plugged ^ known):
        yield f"M6: port {port} and server {server} do not know each other"
    for port, server, host in rows:
        if server in homes and host != homes[server]:
            yield f"M6: port {port} of {server} is on {host}; its server lives on {homes[server]}"


def _named(cloud: Cloud, column: str, key: str) -> set[tuple[str, str]]:
    """(thing, server) for everything that a server's document names."""
    rows = cloud.select(f"SELECT id, {column} FROM server WHERE condition <> 'deleted'")
    return {(each[key], server) for server, document in rows for each in json.loads(document)}


def _volumes(cloud: Cloud) -> Iterator[str]:
    attached = set(cloud.select("SELECT volume_id, server_id FROM volume_attachment"))
    known = _named(cloud, "volumes", "volume_id")
    for one, server in sorted(attached ^ known):
        yield f"M6: volume {one} and server {server} do not know each other"
    used = {one for one, _ in attached}
    for one, name, status in cloud.select("SELECT id, name, status FROM volume WHERE status <> 'deleted'"):
        if status != ("in-use" if one in used else "available"):
            yield f"M6: volume {one} ({name}) is {status}"
    made = cloud.select(
        "SELECT v.name FROM volume v JOIN server s ON v.name LIKE s.id || '-%' WHERE v.status <> 'deleted'"
        " AND v.move_id IS NOT NULL AND (s.condition = 'error' AND s.launched_at IS NULL)"
    )
    for (name,) in made:
        yield f"M6: volume {name} was made for a create that failed"


def _images_and_files(cloud: Cloud) -> Iterator[str]:
    rows = cloud.select("SELECT details FROM server WHERE condition IN ('shelved','shelved_offloaded')")
    shelved = {json.loads(details).get(SHELVED_IMAGE) for (details,) in rows}
    for one, name in cloud.select("SELECT id, name FROM image WHERE name LIKE '%-shelved'"):
        if one not in shelved:
            yield f"M6: image {one} ({name}) belongs to no shelved server"
    for one, name, status in cloud.select("SELECT id, name, status FROM image WHERE status <> 'active'"):
        yield f"M6: image {one} ({name}) is {status}, and nobody makes it any more"
    for files, naming in (
        (cloud.companions.volumes.files, volume.files_named),
        (cloud.companions.volumes.snapshots.files, snapshots.files_named),
        (cloud.companions.images.files, image.files_named),
    ):
        named = cloud.store.read_now(naming)
        there = {file.name for file in files.directory.iterdir()}
        for name in sorted(named ^ there):
            yield f"M6: file {name} is {'gone' if name in named else 'nobody’s'}"
