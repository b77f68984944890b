"""What somebody sees who thinks about what to ask for in a storm.

A subject is *contended* if its group has other members and one of them is on the move, or if hardly
a place is left for the group: there the rules of groups are most likely to be broken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from berthold.lab.storm.cloud import HOSTS, Cloud


@dataclass(frozen=True)
class Seen:
    """A server as it is when somebody thinks about what to ask for."""

    id: str
    name: str
    condition: str
    group: str | None
    home: str | None  # its host's id
    move: str | None
    kind: str | None
    state: str | None
    volumes: bool
    in_group_move: bool

    @property
    def at_rest(self) -> bool:
        return self.move is None


@dataclass(frozen=True)
class Sight:
    """Everything that somebody may ask something of."""

    servers: tuple[Seen, ...]
    groups: Mapping[str, tuple[str, int]]  # policy, per_host
    hosts: tuple[tuple[str, str, str, bool], ...]  # id, name, status, disabled

    def members(self, group: str) -> list[Seen]:
        return [each for each in self.servers if each.group == group]

    def contended(self, group: str | None, but: str | None = None) -> bool:
        """Whether what is asked of a member `but` (or of a newcomer) contends with others of its group."""
        if group is None or group not in self.groups:
            return False
        policy, per_host = self.groups[group]
        others = [each for each in self.members(group) if each.id != but]
        few = policy == "affinity" or (policy == "anti-affinity" and len(others) >= per_host * HOSTS - 2)
        return bool(others) and (few or any(not each.at_rest for each in others))


def look(cloud: Cloud) -> Sight:
    """The cloud as it is."""
    servers = cloud.select(
        "SELECT s.id, s.name, s.condition, s.group_id,"
        " (SELECT host_id FROM claim c WHERE c.server_id = s.id AND c.role = 'home'),"
        " m.id, m.kind, m.state, CAST(s.volumes AS TEXT) <> '[]', m.group_move_id IS NOT NULL"
        " FROM server s LEFT JOIN move m ON m.server_id = s.id"
        " AND m.state IN ('running','undoing','waiting','stuck')"
        " WHERE s.condition <> 'deleted' ORDER BY s.name, s.id"
    )
    groups_ = cloud.select("SELECT id, policy, per_host FROM server_group ORDER BY created_at, id")
    hosts_ = cloud.select("SELECT id, name, status, disabled FROM host ORDER BY name")
    return Sight(
        tuple(Seen(*row) for row in servers),
        {row[0]: (row[1], row[2]) for row in groups_},
        tuple((row[0], row[1], row[2], bool(row[3])) for row in hosts_),
    )
