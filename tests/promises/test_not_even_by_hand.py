"""No promise can be broken by hand: each named constraint refuses, and it alone.

Every statement here is plain SQL with none of our code in the way. It is refused on both
engines; with its one constraint dropped the same statement is accepted, so a test goes red
when its constraint is gone. The last tests see to it that no constraint is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from sqlalchemy import Connection, Index, UniqueConstraint, text, update
from sqlalchemy.exc import IntegrityError

import ledger_world
import loosened
from berthold.clock import SeededClock
from berthold.ledger import schema
from berthold.ledger.verdicts import violated


@dataclass(frozen=True)
class Escape:
    """A statement that only `constraint` refuses."""

    constraint: str
    what: str
    sql: str


CLAIM = "INSERT INTO claim (id, server_id, host_id, host_epoch, role, rule, group_id, domain, place) VALUES "
MOVE = """
    INSERT INTO move (id, server_id, kind, playbook, state, line_since, request_id, user_id, project_id,
                      created_at, updated_at)
    SELECT '{id}', '{server}', kind, playbook, '{state}', 0, request_id, user_id, project_id, 0, 0
      FROM move WHERE id = 'm1'"""
ASK = """
    INSERT INTO ask (id, move_id, slot, server_id, host_id, host_epoch, seq, verb, state, asked_at)
    VALUES ('k2', 'm1', '{slot}', 'a', 'h0', 1, {seq}, 'prepare', '{state}', 0)"""
HOST = """
    INSERT INTO host (id, name, status, agent_key, created_at, updated_at)
    VALUES ('h9', 'h9', 'up', 'h9', 0, 0)"""
INVENTORY = """
    INSERT INTO inventory (provider_id, class, total, max_unit, capacity, ceiling)
    VALUES ('{provider}', 'VCPU', 4, 4, 4, 4)"""

CAPACITY = (
    Escape("c1_capacity", "use above capacity", "UPDATE inventory SET used = 5 WHERE class = 'VCPU'"),
    Escape("c1_not_negative", "less than nothing", "UPDATE inventory SET used = -1"),
    Escape(
        "c1_honest_capacity",
        "more than the formula gives",
        "UPDATE inventory SET capacity = 1000000, ceiling = 1000000",
    ),
    Escape("inventory_sensible", "steps of nothing", "UPDATE inventory SET step_size = 0"),
    Escape("inventory_one_per_class", "a class twice", INVENTORY.format(provider="h0")),
    Escape("inventory_provider", "nobody's", INVENTORY.format(provider="nowhere")),
    Escape("c1_claim_takes", "a claim of less than nothing", "UPDATE claim SET vcpus = -1"),
    Escape("c1_claim_takes", "a claim that adds memory", "UPDATE claim SET memory_mb = -1"),
    Escape("c1_claim_takes", "a claim that adds room on disk", "UPDATE claim SET disk_gb = -1"),
)
SEATS = (
    Escape("g1_seat_free", "a taken seat", "INSERT INTO seat VALUES ('web', 'h0', 1, 1, 'b')"),
    Escape("g1_seat_exists", "a seat too many", "INSERT INTO seat VALUES ('web', 'h0', 2, 1, 'b')"),
    Escape("g1_honest_per_host", "lying about per_host", "INSERT INTO seat VALUES ('web', 'h0', 2, 2, 'b')"),
    Escape(
        "g1_honest_per_host",
        "raising per_host under the seats",
        "UPDATE server_group SET per_host = 2 WHERE id = 'web'",
    ),
    Escape("g1_one_each", "two seats for one", "INSERT INTO seat VALUES ('trio', 'h0', 2, 3, 't')"),
    Escape("g1_seat_of_member", "a stranger's seat", "INSERT INTO seat VALUES ('web', 'h1', 1, 1, 'n')"),
    Escape("g1_claim_has_seat", "a seat freed under a claim", "DELETE FROM seat WHERE group_id = 'web'"),
    Escape(
        "g1_claim_has_seat",
        "a claim without a seat",
        CLAIM + "('z', 'b', 'h1', 1, 'home', 'anti-affinity', 'web', 'h1', NULL)",
    ),
    Escape(
        "g1_no_escape",
        "a member's claim without group",
        CLAIM + "('z', 'b', 'h0', 1, 'home', 'anti-affinity', NULL, 'h0', NULL)",
    ),
    Escape(
        "g1_no_escape",
        "a member's claim without domain",
        CLAIM + "('z', 'b', 'h0', 1, 'home', 'anti-affinity', 'web', NULL, NULL)",
    ),
    Escape(
        "g1_no_escape",
        "another host's seat",
        CLAIM + "('z', 'a', 'h1', 1, 'target', 'anti-affinity', 'web', 'h0', NULL)",
    ),
    Escape(
        "claim_rule_is_its_servers",
        "a member's claim that denies its rule",
        CLAIM + "('z', 'b', 'h0', 1, 'home', 'none', NULL, NULL, NULL)",
    ),
    Escape(
        "claim_rule_is_its_servers",
        "a claim that stops following the rule",
        "UPDATE claim SET rule = 'none', group_id = NULL, domain = NULL WHERE server_id = 'a'",
    ),
    Escape(
        "claim_group_is_its_servers",
        "a claim of another group",
        CLAIM + "('z', 'n', 'h0', 1, 'target', 'none', 'web', NULL, NULL)",
    ),
)
PLACES = (
    Escape("g2_one_home_one_next", "a second home", "INSERT INTO group_place VALUES ('pair', 'home', 'h2')"),
    Escape("g2_place", "a next home that is home", "INSERT INTO group_place VALUES ('pair', 'next', 'h1')"),
    Escape("g2_role", "a third place", "INSERT INTO group_place VALUES ('pair', 'third', 'h2')"),
    Escape("g2_group", "a place of nobody", "INSERT INTO group_place VALUES ('gone', 'home', 'h2')"),
    Escape("g2_claim_at_place", "the home freed under a claim", "DELETE FROM group_place"),
    Escape(
        "g2_claim_at_place",
        "a claim elsewhere",
        CLAIM + "('z', 'y', 'h2', 1, 'home', 'affinity', 'pair', NULL, 'h2')",
    ),
    Escape(
        "g2_no_escape",
        "a member's claim without place",
        CLAIM + "('z', 'y', 'h2', 1, 'home', 'affinity', 'pair', NULL, NULL)",
    ),
    Escape(
        "g2_no_escape",
        "a member's claim without group",
        CLAIM + "('z', 'y', 'h2', 1, 'home', 'affinity', NULL, NULL, 'h2')",
    ),
    Escape(
        "g2_no_escape",
        "a claim elsewhere that names the home",
        CLAIM + "('z', 'y', 'h2', 1, 'home', 'affinity', 'pair', NULL, 'h1')",
    ),
)
GROUP_MOVE = """
    INSERT INTO group_move (id, group_id, source_id, target_id, goal_id, state, request_id, user_id,
                            project_id, created_at, updated_at)
    VALUES ('v2', '{group}', 'h1', '{target}', '{goal}', '{state}', 'req-2', 'u', 'p', 0, 0)"""


def group_move(group: str = "gone", target: str = "h2", goal: str = "h2", state: str = "moving") -> str:
    return GROUP_MOVE.format(group=group, target=target, goal=goal, state=state)


TOGETHER = (
    Escape("g2_one_group_move", "a second move of the group", group_move("pair")),
    Escape("g2_one_group_move", "a second while the first settles", group_move("pair", state="settling")),
    Escape("g2_one_group_move", "a second that waits for a host", group_move("pair", state="waiting")),
    Escape("g2_group_target", "to nowhere", "UPDATE group_move SET target_id = NULL WHERE id = 'v1'"),
    Escape("g2_group_moves_away", "to where it is", group_move(target="h1", goal="h1")),
    Escape("g2_group_goal", "to a third host", group_move(goal="h0")),
    Escape("group_move_state", "an unknown state", group_move(state="parked")),
)
GROUPS = (
    Escape(
        "server_rule_is_its_groups",
        "a member of another rule",
        "UPDATE server SET rule = 'affinity' WHERE id = 'b'",
    ),
    Escape(
        "server_rule_is_its_groups",
        "a group that changes its policy",
        "UPDATE server_group SET policy = 'soft-affinity' WHERE id = 'web'",
    ),
    Escape("server_rule_none", "a rule without group", "UPDATE server SET group_id = NULL WHERE id = 'b'"),
    Escape(
        "server_group_known_policy",
        "an unknown policy",
        "UPDATE server_group SET policy = 'close-by' WHERE id = 'empty'",
    ),
    Escape(
        "server_group_per_host_positive",
        "no seat at all",
        "UPDATE server_group SET per_host = 0 WHERE id = 'empty'",
    ),
    Escape("q1_group_members", "too many members", "UPDATE server_group SET members = members_max + 1"),
    *(
        Escape(f"q1_{what}", "more than allowed", f"UPDATE project SET {what} = {what}_ceiling + 1")
        for what in ("instances", "cores", "ram", "server_groups")
    ),
)
MOVES = (
    *(
        Escape(
            "m3_one_unfinished_move",
            f"a second unfinished move, {state}",
            MOVE.format(id="m2", server="a", state=state),
        )
        for state in schema.UNFINISHED
    ),
    Escape("move_one_id", "an id twice", MOVE.format(id="m1", server="n", state="done")),
    Escape("move_state", "an unknown state", MOVE.format(id="m2", server="n", state="paused")),
    Escape("move_server", "a move of nobody", MOVE.format(id="m2", server="gone", state="done")),
    Escape("m2_one_home", "a second home", CLAIM + "('z', 'n', 'h0', 1, 'home', 'none', NULL, NULL, NULL)"),
    Escape("claim_role", "an unknown role", "UPDATE claim SET role = 'guest' WHERE server_id = 'n'"),
    Escape("ask_one_per_slot", "asked twice", ASK.format(slot="3", seq=2, state="open")),
    Escape("ask_order", "a number twice", ASK.format(slot="4", seq=1, state="open")),
    Escape("ask_state", "an unknown state", ASK.format(slot="4", seq=2, state="lost")),
    Escape("queue_once", "in the queue twice", "INSERT INTO queue SELECT * FROM queue"),
    Escape("queue_move", "nobody waits", "INSERT INTO queue VALUES ('gone', 'h0', 1, NULL, true, 0)"),
    Escape("history_event", "an unknown event", "INSERT INTO history (at, event) VALUES (0, 'lost')"),
)
THINGS = (
    Escape("host_status", "an unknown status", "UPDATE host SET status = 'asleep'"),
    Escape("m1_one_host_per_machine", "a machine twice", "UPDATE host SET agent_key = 'h1' WHERE id = 'h0'"),
    Escape("host_one_name", "a name twice", "UPDATE host SET name = 'h1' WHERE id = 'h0'"),
    Escape("host_is_a_provider", "a host that offers nothing", HOST),
    Escape("provider_one_name", "a name twice", "UPDATE provider SET name = 'h1' WHERE id = 'h0'"),
    Escape("provider_parent", "inside nothing", "UPDATE provider SET parent_id = 'gone' WHERE id = 'h0'"),
    Escape("provider_trait_once", "a trait twice", "INSERT INTO provider_trait VALUES ('h0', 'AVX')"),
    Escape("provider_trait_provider", "nobody's", "INSERT INTO provider_trait VALUES ('gone', 'AVX')"),
    Escape("server_project", "nobody pays", "UPDATE server SET project_id = 'gone' WHERE id = 'n'"),
    Escape("server_condition", "an unknown condition", "UPDATE server SET condition = 'asleep'"),
)
ESCAPES = (*CAPACITY, *SEATS, *PLACES, *TOGETHER, *GROUPS, *MOVES, *THINGS)
each_escape = pytest.mark.parametrize("escape", ESCAPES, ids=lambda e: f"{e.constraint}: {e.what}")

# Keys that other tables refer to. They hold the primary key, so nothing breaks them alone.
REFERRED_TO = {"server_group_policy", "server_group_per_host", "server_rule", "server_group_of"}


def fill(tx: Connection) -> None:
    """a has a seat of web on h0; pair lives on h1 with x and goes to h2; t has one of trio's three seats
    on h0."""
    tx.info.update(clock=SeededClock(), topics=[])
    ledger_world.add_hosts(tx, 3, VCPU=4, MEMORY_MB=4096)
    for name, policy, per_host in (
        ("web", "anti-affinity", 1),
        ("trio", "anti-affinity", 3),
        ("pair", "affinity", 1),
        ("empty", "soft-affinity", 1),
    ):
        ledger_world.add_group(tx, name, policy, per_host)
    for name, group in (("a", "web"), ("b", "web"), ("t", "trio"), ("x", "pair"), ("y", "pair"), ("n", None)):
        ledger_world.add_server(tx, name, group)
    for name, host in (("a", "h0"), ("t", "h0"), ("x", "h1"), ("n", "h2")):
        ledger_world.claim(tx, name, host)
    ledger_world.add_move(tx, "a")
    tx.execute(update(schema.move).values(id="m1"))
    tx.execute(text(group_move("pair").replace("'v2'", "'v1'")))
    tx.execute(text(ASK.format(slot="3", seq=1, state="open").replace("'k2'", "'k1'")))
    tx.execute(schema.provider_trait.insert().values(provider_id="h0", trait="AVX"))
    tx.execute(schema.queue.insert().values(move_id="m1", host_id="h1", ticket=1, room=True, until=0))


@each_escape
def test_postgresql_refuses(escape: Escape, filled: Connection) -> None:
    with pytest.raises(IntegrityError) as refusal:
        filled.execute(text(escape.sql))
    filled.rollback()
    assert violated(refusal.value) == escape.constraint


@each_escape
def test_postgresql_accepts_it_once_the_constraint_is_dropped(escape: Escape, filled: Connection) -> None:
    loosened.drop(filled, escape.constraint)
    assert filled.execute(text(escape.sql)).rowcount >= 1
    filled.rollback()


@each_escape
def test_sqlite_refuses(escape: Escape, rows: loosened.Rows) -> None:
    with loosened.sqlite_without(rows=rows) as tx, pytest.raises(IntegrityError):
        tx.execute(text(escape.sql))


@each_escape
def test_sqlite_accepts_it_without_the_constraint(escape: Escape, rows: loosened.Rows) -> None:
    with loosened.sqlite_without(escape.constraint, rows=rows) as tx:
        assert tx.execute(text(escape.sql)).rowcount >= 1


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_a_member_cannot_leave_its_group_while_it_has_a_claim(
    engine: str, filled: Connection, rows: loosened.Rows
) -> None:
    leave = text("UPDATE server SET rule = 'none', group_id = NULL WHERE id = 'a'")
    with loosened.sqlite_without(rows=rows) as sqlite:
        tx = filled if engine == "postgresql" else sqlite
        with pytest.raises(IntegrityError):
            tx.execute(leave)
        tx.rollback()


def constraints_of_the_ledger() -> set[str]:
    return {
        str(each.name)
        for table in vars(schema).values()
        if hasattr(table, "constraints")
        for each in (*table.constraints, *table.indexes)
        if each.name and (not isinstance(each, Index) or each.unique)
    }


def test_no_constraint_of_the_ledger_is_without_such_a_test() -> None:
    assert {escape.constraint for escape in ESCAPES} | REFERRED_TO == constraints_of_the_ledger()


def test_the_keys_that_are_only_referred_to_cannot_be_broken_alone() -> None:
    for name in REFERRED_TO:
        key = loosened.named(name)
        assert isinstance(key, UniqueConstraint)
        assert set(key.table.primary_key.columns) <= set(key.columns)
