"""Each promise again, as a query that must return no rows.

`audit(tx)` runs them all on one snapshot. A row names what breaks the promise. The queries
share nothing with the code that keeps the promises but the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from berthold.ledger.store import Tx, clock_of

UNFINISHED = "('running','undoing','waiting','stuck')"


@dataclass(frozen=True)
class Check:
    """`sql` finds what breaks `promise`; `says` is a sentence over its columns. `history`: it reads all
    that ever happened, so it is nothing for every minute."""

    promise: str
    says: str
    sql: str
    history: bool = False


@dataclass(frozen=True)
class Violation:
    promise: str
    says: str
    row: Mapping[str, Any]


CHECKS = (
    Check(
        "C1",
        "{provider_id} counts {used} {class} as used, its claims hold {held}",
        """SELECT * FROM (
           SELECT i.provider_id, i.class, i.used,
                  coalesce(sum(CASE i.class WHEN 'VCPU' THEN c.vcpus WHEN 'MEMORY_MB' THEN c.memory_mb
                                            WHEN 'DISK_GB' THEN c.disk_gb END), 0) AS held
             FROM inventory i LEFT JOIN claim c ON c.host_id = i.provider_id
            GROUP BY i.provider_id, i.class, i.used) AS counted WHERE used <> held""",
    ),
    Check(
        "C1",
        "{provider_id} holds {used} {class} above its ceiling of {ceiling}",
        "SELECT provider_id, class, used, ceiling FROM inventory WHERE used > ceiling",
    ),
    Check(
        "C1",
        "claim {id} of server {server_id} is on a host that does not exist ({host_id})",
        """SELECT c.id, c.server_id, c.host_id FROM claim c
            WHERE NOT EXISTS (SELECT 1 FROM host h WHERE h.id = c.host_id)""",
    ),
    Check(
        "G1",
        "group {group_id} allows {per_host} on a host; on {host_id} it has {members}: {first} and {last}",
        """SELECT s.group_id, c.host_id, g.per_host, count(DISTINCT c.server_id) AS members,
                  min(c.server_id) AS first, max(c.server_id) AS last
             FROM claim c JOIN server s ON s.id = c.server_id JOIN server_group g ON g.id = s.group_id
            WHERE g.policy = 'anti-affinity' GROUP BY s.group_id, c.host_id, g.per_host
           HAVING count(DISTINCT c.server_id) > g.per_host""",
    ),
    Check(
        "G1",
        "claim {id} of member {server_id} on {host_id} has no seat",
        """SELECT c.id, c.server_id, c.host_id FROM claim c JOIN server s ON s.id = c.server_id
             JOIN server_group g ON g.id = s.group_id
            WHERE g.policy = 'anti-affinity' AND NOT EXISTS
                  (SELECT 1 FROM seat t WHERE t.group_id = g.id AND t.domain = c.host_id AND t.server_id = c.server_id)""",
    ),
    Check(
        "G1",
        "seat {seat} of group {group_id} on {domain} is held by {server_id}, which has no claim there",
        """SELECT t.group_id, t.domain, t.seat, t.server_id FROM seat t WHERE NOT EXISTS
                  (SELECT 1 FROM claim c WHERE c.server_id = t.server_id AND c.host_id = t.domain)""",
    ),
    Check(
        "G2",
        "affinity group {group_id} lives on {hosts} hosts: {first} and {last}",
        """SELECT s.group_id, count(DISTINCT c.host_id) AS hosts, min(c.host_id) AS first, max(c.host_id) AS last
             FROM claim c JOIN server s ON s.id = c.server_id JOIN server_group g ON g.id = s.group_id
            WHERE g.policy = 'affinity' AND c.role <> 'left' GROUP BY s.group_id, g.moving
           HAVING count(DISTINCT c.host_id) > CASE WHEN g.moving IS NULL THEN 1 ELSE 2 END""",
    ),
    Check(
        "G2",
        "group {group_id} has a place on {host_id} where no member has a claim",
        """SELECT p.group_id, p.host_id FROM group_place p WHERE NOT EXISTS
                  (SELECT 1 FROM claim c WHERE c.group_id = p.group_id AND c.place = p.host_id)""",
    ),
    Check(
        "G2",
        "group {group_id} has a next home {host_id} and is not moving",
        """SELECT p.group_id, p.host_id FROM group_place p JOIN server_group g ON g.id = p.group_id
            WHERE p.role = 'next' AND g.moving IS NULL""",
    ),
    Check(
        "G2",
        "group {group_id} is on group move {id} and does not say that it moves",
        f"""SELECT v.id, v.group_id FROM group_move v WHERE v.state = 'moving' AND EXISTS
                  (SELECT 1 FROM move m WHERE m.group_move_id = v.id AND m.state IN {UNFINISHED}) AND NOT EXISTS
                  (SELECT 1 FROM server_group g WHERE g.id = v.group_id AND g.moving = v.id)""",
    ),
    Check(
        "G2",
        "server {server_id} is on group move {id} and holds {held} of the two hosts before all have arrived",
        f"""SELECT v.id, m.server_id, count(c.id) AS held FROM group_move v
             JOIN move m ON m.group_move_id = v.id AND m.state IN {UNFINISHED}
             LEFT JOIN claim c ON c.server_id = m.server_id AND c.role <> 'left'
                  AND c.host_id IN (v.source_id, v.target_id)
            WHERE v.state = 'moving' GROUP BY v.id, m.server_id HAVING count(c.id) <> 2""",
    ),
    Check(
        "G2",
        "move {id} of server {server_id} belongs to group move {group_move_id}, which is over",
        f"""SELECT m.id, m.server_id, m.group_move_id FROM move m LEFT JOIN group_move v ON v.id = m.group_move_id
            WHERE m.group_move_id IS NOT NULL AND coalesce(v.state, 'done') = 'done' AND m.state IN {UNFINISHED}""",
    ),
    Check(
        "G4",
        "claim {id} follows group {group_id}, its server {server_id} does not",
        """SELECT c.id, c.group_id, c.server_id FROM claim c JOIN server s ON s.id = c.server_id
            WHERE coalesce(c.group_id, '') <> coalesce(s.group_id, '')""",
    ),
    Check(
        "M1",
        "host {host_id} was asked to {verb} server {server_id}, which has no claim there",
        """SELECT a.id, a.host_id, a.verb, a.server_id FROM ask a
            WHERE a.state = 'open' AND a.verb IN ('spawn','prepare','start','restore','reboot','unpause','resume','rebuild','rescue') AND NOT EXISTS
                  (SELECT 1 FROM claim c WHERE c.server_id = a.server_id AND c.host_id = a.host_id)""",
    ),
    Check(
        "M1",
        "host {host_id} is up and still holds server {server_id}, left behind",
        """SELECT c.host_id, c.server_id FROM claim c JOIN host h ON h.id = c.host_id
            WHERE c.role = 'left' AND h.status = 'up'""",
    ),
    Check(
        "M1",
        "one machine is both host {first} and host {last}",
        """SELECT min(name) AS first, max(name) AS last, count(*) AS hosts FROM host
            GROUP BY agent_key HAVING count(*) > 1""",
    ),
    Check(
        "M2",
        "server {server_id} has {homes} homes: {first} and {last}",
        """SELECT c.server_id, count(*) AS homes, min(c.host_id) AS first, max(c.host_id) AS last
             FROM claim c WHERE c.role = 'home' GROUP BY c.server_id HAVING count(*) > 1""",
    ),
    Check(
        "M2",
        "server {id} is {condition} and has no home",
        # Its index is of claims that are not left behind.
        """SELECT s.id, s.condition FROM server s
            WHERE s.condition IN
                  ('active','stopped','paused','suspended','rescued','shelved','soft-deleted') AND NOT EXISTS
                  (SELECT 1 FROM claim c WHERE c.server_id = s.id AND c.role = 'home' AND c.role <> 'left')""",
    ),
    Check(
        "M3",
        "server {server_id} has {moves} unfinished moves",
        f"""SELECT server_id, count(*) AS moves FROM move WHERE state IN {UNFINISHED}
            GROUP BY server_id HAVING count(*) > 1""",
    ),
    Check(
        "M3",
        "server {server_id} is deleted and its move {id} is {state}",
        f"""SELECT m.id, m.server_id, m.state FROM move m JOIN server s ON s.id = m.server_id
            WHERE s.condition = 'deleted' AND m.state IN {UNFINISHED}""",
    ),
    Check(
        "M4",
        "nobody has worked on move {id} of server {server_id} for {idle} seconds",
        """SELECT m.id, m.server_id, :now - CASE WHEN m.until > m.updated_at THEN m.until ELSE m.updated_at END AS idle
             FROM move m WHERE m.state IN ('running','undoing') AND m.until < :now - 10 AND m.updated_at < :now - 10""",
    ),
    Check(
        "M6",
        "claim {id} ({role}) of server {server_id} on {host_id} belongs to no unfinished move",
        f"""SELECT c.id, c.role, c.server_id, c.host_id FROM claim c
            WHERE c.role IN ('target','source') AND NOT EXISTS
                  (SELECT 1 FROM move m WHERE m.server_id = c.server_id AND m.state IN {UNFINISHED})""",
    ),
    Check(
        "M6",
        "server {id} is deleted and keeps claim {claim_id} on {host_id}",
        """SELECT s.id, c.id AS claim_id, c.host_id FROM server s JOIN claim c ON c.server_id = s.id
            WHERE s.condition = 'deleted' AND c.role <> 'left'""",
    ),
    Check(
        "M6",
        "server {id} is {condition} and nothing works on it",
        f"""SELECT s.id, s.condition FROM server s WHERE s.condition = 'building' AND NOT EXISTS
                  (SELECT 1 FROM move m WHERE m.server_id = s.id AND m.state IN {UNFINISHED})""",
    ),
    Check(
        "M7",
        "move {move_id} stands in the queue for {host_id} and is {state}",
        """SELECT q.move_id, q.host_id, m.state FROM queue q JOIN move m ON m.id = q.move_id
            WHERE m.state <> 'running'""",
    ),
    Check(
        "M7",
        "group move {id} waits for a host, and server {server_id} holds {host_id} ({role}) for it",
        f"""SELECT v.id, c.server_id, c.host_id, c.role FROM group_move v
             JOIN move m ON m.group_move_id = v.id AND m.state IN {UNFINISHED}
             JOIN claim c ON c.server_id = m.server_id AND c.role IN ('target','source')
            WHERE v.state = 'waiting'""",
    ),
    Check(
        "Q1",
        "project {id} counts {instances} instances, {cores} cores, {ram} MiB; it has {i}, {c}, {r}",
        """SELECT p.id, p.instances, p.cores, p.ram, coalesce(s.i, 0) AS i, coalesce(s.c, 0) AS c, coalesce(s.r, 0) AS r
             FROM project p LEFT JOIN (SELECT project_id, count(*) AS i, sum(cores) AS c, sum(ram) AS r
                                         FROM server WHERE deleted_at IS NULL GROUP BY project_id) s ON s.project_id = p.id
            WHERE p.instances <> coalesce(s.i, 0) OR p.cores <> coalesce(s.c, 0) OR p.ram <> coalesce(s.r, 0)""",
    ),
    Check(
        "Q1",
        "project {id} counts {server_groups} server groups and has {groups}",
        """SELECT p.id, p.server_groups, count(g.id) AS groups FROM project p
             LEFT JOIN server_group g ON g.project_id = p.id
            GROUP BY p.id, p.server_groups HAVING p.server_groups <> count(g.id)""",
    ),
    Check(
        "Q1",
        "group {id} counts {members} members and has {servers}",
        """SELECT g.id, g.members, count(s.id) AS servers FROM server_group g
             LEFT JOIN server s ON s.group_id = g.id GROUP BY g.id, g.members HAVING g.members <> count(s.id)""",
    ),
    Check(
        "A1",
        "claim {id} of server {server_id} is not in the placement history",
        # Joined, not looked up one by one: a long history has no index.
        """SELECT c.id, c.server_id FROM claim c
             LEFT JOIN (SELECT DISTINCT claim_id FROM history WHERE event = 'claimed') h ON h.claim_id = c.id
            WHERE h.claim_id IS NULL""",
        history=True,
    ),
)


def audit(tx: Tx, *, history: bool = True) -> list[Violation]:
    """Every violation of every promise, as things stand. None in a cloud that keeps its word."""
    values = {"now": clock_of(tx).now()}
    found = []
    for check in CHECKS:
        if check.history and not history:
            continue
        for row in tx.execute(text(check.sql), values if ":now" in check.sql else {}).mappings():
            found.append(Violation(check.promise, check.says.format(**row), dict(row)))
    return found
