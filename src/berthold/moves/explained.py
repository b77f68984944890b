"""What an explanation says, and to whom.

An operator is told host by host. The owner of a server is told by class of cause: how many
hosts, which of the owner's own servers are in the way, and what would unblock one; no host is
named, and nothing of other projects (T1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from berthold.ledger.compliance import Finding, Member
from berthold.scheduler.unblock import Occupant, gone

Document = dict[str, Any]


@dataclass(frozen=True)
class Against:
    """One reason against a host. `members` are of the server's own project and in the way; each of
    `ways` would lift it; `owners_ways` name no host."""

    filter: str
    cause: str
    reason: str
    rule: str | None = None
    members: tuple[Occupant, ...] = ()
    ways: tuple[str, ...] = ()
    owners_ways: tuple[str, ...] = ()

    def for_operators(self) -> Document:
        return {
            "cause": self.cause,
            "rule": self.rule,
            "reason": self.reason,
            "blocked_by": blockers(self.members),
            "unblocks": list(self.ways),
        }


def blockers(members: Sequence[Occupant]) -> list[Document]:
    """Who is in the way, and with what under way."""
    distinct = {each.id: each for each in members}.values()
    return [
        {"id": each.id, "name": each.name, "move": each.move_id, "kind": each.move_kind} for each in distinct
    ]


@dataclass(frozen=True)
class HostSaid:
    """What was found of one host: it would do if there is nothing against it. `members`: how many of
    the group are there, the server itself not counted."""

    host: str
    against: tuple[Against, ...] = ()
    members: int = 0

    def for_operators(self) -> Document:
        return {
            "host": self.host,
            "would_do": not self.against,
            "group_members": self.members,
            "refused_by": [each.for_operators() for each in self.against],
        }


@dataclass(frozen=True)
class Look:
    """Every host, as it would be judged if a move of this kind began now; which it cannot before the move
    `after` is over, if there is one (M3)."""

    kind: str
    hosts: tuple[HostSaid, ...]
    after: str | None = None

    @property
    def candidates(self) -> int:
        return sum(not each.against for each in self.hosts)

    def says(self) -> str:
        """How many hosts would do, and the classes of cause of the others. Names no host."""
        counted = Counter(each.against[0].cause for each in self.hosts if each.against)
        ordered = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
        causes = ", ".join(f"{count} {_hosts(count)}: {cause}" for cause, count in ordered)
        would = f"{self.candidates} of {len(self.hosts)} {_hosts(len(self.hosts))} would do"
        return f"{would}. {causes}" if causes else f"{would}."

    def of_host(self, name: str) -> Look:
        """The same of one host only."""
        return replace(self, hosts=tuple(each for each in self.hosts if each.host == name))

    def document(self, *, by_host: bool, only: Container[str] | None = None) -> Document:
        """For operators also host by host; of all hosts, or of those that are named in `only`."""
        shown: Document = {
            "judged_as": self.kind,
            "after": self.after,
            "says": self.says(),
            "would_do": self.candidates,
            "refused": causes([each.against for each in self.hosts if each.against]),
        }
        if by_host:
            shown["hosts"] = _by_host(self.hosts, only)
        return shown


def _by_host(said: Sequence[HostSaid], only: Container[str] | None) -> list[Document]:
    return [each.for_operators() for each in said if only is None or each.host in only]


def causes(refused: Sequence[Sequence[Against]]) -> list[Document]:
    """By class of cause, for owners: hosts that were refused for the same causes are one."""
    alike: dict[tuple[str, ...], list[Sequence[Against]]] = {}
    for against in refused:
        alike.setdefault(tuple(each.cause for each in against), []).append(against)
    ordered = sorted(alike.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    return [
        {"hosts": len(hosts), "refused_by": [_merged(same) for same in zip(*hosts, strict=True)]}
        for _, hosts in ordered
    ]


def _merged(same: Sequence[Against]) -> Document:
    members = [each for against in same for each in against.members]
    ways = Counter(way for against in same for way in dict.fromkeys(against.owners_ways))
    return {
        "cause": same[0].cause,
        "rule": same[0].rule,
        "blocked_by": blockers(members),
        # What helps on few hosts first: what helps on all is mostly another wish.
        "unblocks": sorted(ways, key=ways.__getitem__),
    }


@dataclass(frozen=True)
class MoveSaid:
    """A move: what it does, why it waits or failed, and what can be done. `says` and `ways` are for
    everybody, `operators_say` and `operators_ways` name hosts; `refused` is what was found of each
    host at the time."""

    row: Mapping[str, Any]
    server: Mapping[str, Any]
    line: str
    lines: int
    says: str
    ways: tuple[str, ...] = ()
    operators_say: str = ""
    operators_ways: tuple[str, ...] = ()
    refused: tuple[HostSaid, ...] = field(default=())

    def document(self, *, by_host: bool, only: Container[str] | None = None) -> Document:
        """For operators also host by host; of all hosts, or of those that are named in `only`."""
        row = self.row
        shown: Document = {
            "id": row["id"],
            "kind": row["kind"],
            "state": row["state"],
            "server": {"id": self.server["id"], "name": self.server["name"]},
            "line": self.line,
            "line_number": row["line"] + 1,
            "lines": self.lines,
            "attempt": row["attempt"] + 1,
            "says": self.says,
            "unblocks": list(self.ways),
            "refused": causes([each.against for each in self.refused if each.against]),
        }
        if by_host:
            shown["says"] = self.operators_say or self.says
            shown["unblocks"] = [*self.ways, *self.operators_ways]
            shown["hosts"] = _by_host(self.refused, only)
        return shown


@dataclass(frozen=True)
class Domain:
    """A host where a group holds seats or a place. `limit`: how many members it may hold, if that is
    limited; `place`: home or next, of an affinity group. `holders` are claims: a member that is on
    the move may hold more than one domain."""

    host: str
    holders: tuple[Occupant, ...]
    limit: int | None = None
    place: str | None = None

    def document(self, *, by_host: bool) -> Document:
        shown: Document = {"host": self.host} if by_host else {}
        return {
            **shown,
            "place": self.place,
            "members": len({each.id for each in self.holders}),
            "limit": self.limit,
            "holders": [
                {
                    "id": each.id,
                    "name": each.name,
                    "role": each.role,
                    "move": each.move_id,
                    "kind": each.move_kind,
                    "until": gone(each) if each.role != "home" or each.move_id else None,
                }
                for each in self.holders
            ],
        }


@dataclass(frozen=True)
class GroupSaid:
    """A group: where its members hold seats or a place, what it moves for, and who is nowhere."""

    row: Mapping[str, Any]
    domains: tuple[Domain, ...]
    nowhere: tuple[str, ...]
    moving: str = ""
    operators_moving: str = ""

    def document(self, *, by_host: bool) -> Document:
        row = self.row
        return {
            "group": {
                "id": row["id"],
                "name": row["name"],
                "policy": row["policy"],
                "max_server_per_host": row["per_host"] if row["policy"] == "anti-affinity" else None,
                "members": row["member_ids"],
            },
            "moving": (self.operators_moving if by_host else self.moving) or None,
            "domains": [each.document(by_host=by_host) for each in self.domains],
            "on_no_host": list(self.nowhere),
        }


def compliance_of(
    group: Mapping[str, Any], members: Sequence[Member], since: Mapping[str, str], *, by_host: bool
) -> Document:
    """Whether each member complies and why not. `since`: when the auditor first saw it, by finding."""
    return {
        "group": {name: group[name] for name in ("id", "name", "policy")},
        "complies": all(member.complies for member in members),
        "members": [
            {
                "id": member.id,
                "name": member.name,
                **({"host": member.host} if by_host else {}),
                "complies": member.complies,
                "findings": [_finding(each, since.get(each.key), by_host) for each in member.findings],
            }
            for member in members
        ],
    }


def _finding(finding: Finding, since: str | None, by_host: bool) -> Document:
    said: Document = {"kind": finding.kind, "rule": finding.rule, "since": since}
    if by_host:
        return {**said, "host": finding.host, "says": finding.says, "mends": list(finding.mends)}
    return {**said, "says": finding.told, "mends": list(finding.owners_mends)}


def _hosts(count: int) -> str:
    return "host" if count == 1 else "hosts"
