"""The ledger."""

# ruff: noqa: E501

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "allocation",
        sa.Column("claim_id", sa.Text(), nullable=False),
        sa.Column("provider_id", sa.Text(), nullable=False),
        sa.Column("class", sa.Text(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("amount > 0", name="allocation_positive"),
        sa.PrimaryKeyConstraint("claim_id", "provider_id", "class", name="allocation_one_per_class"),
    )
    op.create_index("allocation_on_provider", "allocation", ["provider_id", "class"], unique=False)
    op.create_table(
        "ask",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("move_id", sa.Text(), nullable=False),
        sa.Column("slot", sa.Text(), nullable=False),
        sa.Column("server_id", sa.Text(), nullable=False),
        sa.Column("host_id", sa.Text(), nullable=False),
        sa.Column("host_epoch", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("verb", sa.Text(), nullable=False),
        sa.Column("args", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("state", sa.Text(), server_default="open", nullable=False),
        sa.Column("answer", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("asked_at", sa.Double(), nullable=False),
        sa.Column("answered_at", sa.Double(), nullable=True),
        sa.CheckConstraint("state IN ('open','done','void')", name="ask_state"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("host_id", "seq", name="ask_order"),
        sa.UniqueConstraint("move_id", "slot", name="ask_one_per_slot"),
        postgresql_with={"fillfactor": 70},
    )
    op.create_index(
        "ask_open",
        "ask",
        ["host_id"],
        unique=False,
        postgresql_where=sa.text("state = 'open'"),
        sqlite_where=sa.text("state = 'open'"),
    )
    op.create_table(
        "heartbeat",
        sa.Column("host_id", sa.Text(), nullable=False),
        sa.Column("heard_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("host_id"),
        postgresql_with={"fillfactor": 70},
    )
    op.create_table(
        "history",
        sa.Column(
            "number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("claim_id", sa.Text(), nullable=True),
        sa.Column("server_id", sa.Text(), nullable=True),
        sa.Column("host_id", sa.Text(), nullable=True),
        sa.Column("move_id", sa.Text(), nullable=True),
        sa.Column("group_id", sa.Text(), nullable=True),
        sa.Column("policy", sa.Text(), server_default="none", nullable=False),
        sa.Column("per_host", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("amounts", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.CheckConstraint(
            "event IN ('offered','claimed','home','left','freed','ungrouped')", name="history_event"
        ),
        sa.PrimaryKeyConstraint("number"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "project",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("instances", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("instances_ceiling", sa.BigInteger(), nullable=False),
        sa.Column("instances_max", sa.BigInteger(), nullable=False),
        sa.Column("cores", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("cores_ceiling", sa.BigInteger(), nullable=False),
        sa.Column("cores_max", sa.BigInteger(), nullable=False),
        sa.Column("ram", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("ram_ceiling", sa.BigInteger(), nullable=False),
        sa.Column("ram_max", sa.BigInteger(), nullable=False),
        sa.Column("server_groups", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("server_groups_ceiling", sa.BigInteger(), nullable=False),
        sa.Column("server_groups_max", sa.BigInteger(), nullable=False),
        sa.Column("server_group_members_max", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("cores BETWEEN 0 AND cores_ceiling", name="q1_cores"),
        sa.CheckConstraint("instances BETWEEN 0 AND instances_ceiling", name="q1_instances"),
        sa.CheckConstraint("ram BETWEEN 0 AND ram_ceiling", name="q1_ram"),
        sa.CheckConstraint("server_groups BETWEEN 0 AND server_groups_ceiling", name="q1_server_groups"),
        sa.PrimaryKeyConstraint("id"),
        postgresql_with={"fillfactor": 70},
    )
    op.create_table(
        "provider",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("parent_id", sa.Text(), nullable=True),
        sa.Column("root_id", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(["parent_id"], ["provider.id"], name="provider_parent"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name", name="provider_one_name"),
        postgresql_with={"fillfactor": 70},
    )
    op.create_table(
        "server_group",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("per_host", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("rules", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("members", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("members_max", sa.BigInteger(), nullable=False),
        sa.Column("moving", sa.Text(), nullable=True),
        sa.Column("generation", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.CheckConstraint(
            "policy IN ('affinity','anti-affinity','soft-affinity','soft-anti-affinity')",
            name="server_group_known_policy",
        ),
        sa.CheckConstraint("members BETWEEN 0 AND members_max", name="q1_group_members"),
        sa.CheckConstraint("per_host >= 1", name="server_group_per_host_positive"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("id", "per_host", name="server_group_per_host"),
        sa.UniqueConstraint("id", "policy", name="server_group_policy"),
        postgresql_with={"fillfactor": 70},
    )
    op.create_index("server_group_of_project", "server_group", ["project_id"], unique=False)
    op.create_table(
        "group_place",
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("host_id", sa.Text(), nullable=False),
        sa.CheckConstraint("role IN ('home','next')", name="g2_role"),
        sa.ForeignKeyConstraint(["group_id"], ["server_group.id"], name="g2_group"),
        sa.PrimaryKeyConstraint("group_id", "role", name="g2_one_home_one_next"),
        sa.UniqueConstraint("group_id", "host_id", name="g2_place"),
    )
    op.create_table(
        "host",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("disabled", sa.Boolean(), server_default=sa.text("(false)"), nullable=False),
        sa.Column("disabled_reason", sa.Text(), nullable=True),
        sa.Column("epoch", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("asks", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("agent_key", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), server_default="nova", nullable=False),
        sa.Column("facts", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.CheckConstraint("status IN ('up','fenced','cleaning')", name="host_status"),
        sa.ForeignKeyConstraint(["id"], ["provider.id"], name="host_is_a_provider"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name", name="host_one_name"),
        postgresql_with={"fillfactor": 70},
    )
    op.create_table(
        "inventory",
        sa.Column("provider_id", sa.Text(), nullable=False),
        sa.Column("class", sa.Text(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("reserved", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("min_unit", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("max_unit", sa.BigInteger(), nullable=False),
        sa.Column("step_size", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("allocation_ratio", sa.Double(), server_default="1", nullable=False),
        sa.Column("capacity", sa.BigInteger(), nullable=False),
        sa.Column("ceiling", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "capacity <= (total - reserved) * allocation_ratio AND capacity > (total - reserved) * allocation_ratio - 1",
            name="c1_honest_capacity",
        ),
        sa.CheckConstraint(
            "ceiling = CASE WHEN used > capacity THEN used ELSE capacity END", name="c1_capacity"
        ),
        sa.CheckConstraint(
            "total >= 0 AND reserved >= 0 AND reserved <= total AND min_unit >= 1 AND max_unit >= min_unit AND step_size >= 1 AND allocation_ratio > 0",
            name="inventory_sensible",
        ),
        sa.CheckConstraint("used >= 0", name="c1_not_negative"),
        sa.ForeignKeyConstraint(["provider_id"], ["provider.id"], name="inventory_provider"),
        sa.PrimaryKeyConstraint("provider_id", "class", name="inventory_one_per_class"),
        postgresql_with={"fillfactor": 70},
    )
    op.create_table(
        "provider_trait",
        sa.Column("provider_id", sa.Text(), nullable=False),
        sa.Column("trait", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["provider_id"], ["provider.id"], name="provider_trait_provider"),
        sa.PrimaryKeyConstraint("provider_id", "trait", name="provider_trait_once"),
    )
    op.create_table(
        "server",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("rule", sa.Text(), server_default="none", nullable=False),
        sa.Column("group_id", sa.Text(), nullable=True),
        sa.Column("condition", sa.Text(), nullable=False),
        sa.Column("flavor", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("cores", sa.BigInteger(), nullable=False),
        sa.Column("ram", sa.BigInteger(), nullable=False),
        sa.Column("image_id", sa.Text(), nullable=True),
        sa.Column("key_name", sa.Text(), nullable=True),
        sa.Column("zone", sa.Text(), nullable=True),
        sa.Column("hints", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("metadata", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("networks", sa.JSON(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("ports", sa.JSON(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("volumes", sa.JSON(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("details", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("fault", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("locked", sa.Boolean(), server_default=sa.text("(false)"), nullable=False),
        sa.Column("locked_reason", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("launched_at", sa.Double(), nullable=True),
        sa.Column("deleted_at", sa.Double(), nullable=True),
        sa.CheckConstraint("(group_id IS NULL) = (rule = 'none')", name="server_rule_none"),
        sa.CheckConstraint(
            "condition IN ('building','active','stopped','paused','suspended','rescued','shelved','shelved_offloaded','soft-deleted','error','deleted')",
            name="server_condition",
        ),
        sa.ForeignKeyConstraint(
            ["group_id", "rule"], ["server_group.id", "server_group.policy"], name="server_rule_is_its_groups"
        ),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name="server_project"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("id", "group_id", name="server_group_of"),
        sa.UniqueConstraint("id", "rule", name="server_rule"),
        postgresql_with={"fillfactor": 70},
    )
    op.create_index("server_of_group", "server", ["group_id"], unique=False)
    op.create_index("server_of_project", "server", ["project_id", "created_at"], unique=False)
    op.create_table(
        "move",
        sa.Column(
            "number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("server_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("playbook", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("line", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("attempt", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("line_since", sa.Double(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("epoch", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("until", sa.Double(), server_default="0", nullable=False),
        sa.Column("source_id", sa.Text(), nullable=True),
        sa.Column("target_id", sa.Text(), nullable=True),
        sa.Column("wish", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("facts", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("failure", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.CheckConstraint(
            "state IN ('running','undoing','waiting','stuck','done','undone','superseded')", name="move_state"
        ),
        sa.ForeignKeyConstraint(["server_id"], ["server.id"], name="move_server"),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id", name="move_one_id"),
        postgresql_with={"fillfactor": 70},
        sqlite_autoincrement=True,
    )
    op.create_index(
        "m3_one_unfinished_move",
        "move",
        ["server_id"],
        unique=True,
        postgresql_where=sa.text("state IN ('running','undoing','waiting','stuck')"),
        sqlite_where=sa.text("state IN ('running','undoing','waiting','stuck')"),
    )
    op.create_index("move_of_server", "move", ["server_id"], unique=False)
    op.create_index(
        "move_to_do",
        "move",
        ["state"],
        unique=False,
        postgresql_where=sa.text("state IN ('running','undoing')"),
        sqlite_where=sa.text("state IN ('running','undoing')"),
    )
    op.create_table(
        "seat",
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("seat", sa.BigInteger(), nullable=False),
        sa.Column("per_host", sa.BigInteger(), nullable=False),
        sa.Column("server_id", sa.Text(), nullable=False),
        sa.CheckConstraint("seat BETWEEN 1 AND per_host", name="g1_seat_exists"),
        sa.ForeignKeyConstraint(
            ["group_id", "per_host"], ["server_group.id", "server_group.per_host"], name="g1_honest_per_host"
        ),
        sa.ForeignKeyConstraint(
            ["server_id", "group_id"],
            ["server.id", "server.group_id"],
            name="g1_seat_of_member",
            initially="IMMEDIATE",
            deferrable=True,
        ),
        sa.PrimaryKeyConstraint("group_id", "domain", "seat", name="g1_seat_free"),
        sa.UniqueConstraint("group_id", "domain", "server_id", name="g1_one_each"),
    )
    op.create_table(
        "claim",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("server_id", sa.Text(), nullable=False),
        sa.Column("host_id", sa.Text(), nullable=False),
        sa.Column("host_epoch", sa.BigInteger(), nullable=False),
        sa.Column("move_id", sa.Text(), nullable=True),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=True),
        sa.Column("domain", sa.Text(), nullable=True),
        sa.Column("place", sa.Text(), nullable=True),
        sa.CheckConstraint("role IN ('home','target','source','left')", name="claim_role"),
        sa.CheckConstraint(
            "rule <> 'affinity' OR role = 'left' OR (group_id IS NOT NULL AND place IS NOT NULL AND place = host_id)",
            name="g2_no_escape",
        ),
        sa.CheckConstraint(
            "rule <> 'anti-affinity' OR (group_id IS NOT NULL AND domain IS NOT NULL AND domain = host_id)",
            name="g1_no_escape",
        ),
        sa.ForeignKeyConstraint(
            ["group_id", "domain", "server_id"],
            ["seat.group_id", "seat.domain", "seat.server_id"],
            name="g1_claim_has_seat",
        ),
        sa.ForeignKeyConstraint(
            ["group_id", "place"], ["group_place.group_id", "group_place.host_id"], name="g2_claim_at_place"
        ),
        sa.ForeignKeyConstraint(
            ["server_id", "group_id"],
            ["server.id", "server.group_id"],
            name="claim_group_is_its_servers",
            initially="IMMEDIATE",
            deferrable=True,
        ),
        sa.ForeignKeyConstraint(
            ["server_id", "rule"],
            ["server.id", "server.rule"],
            name="claim_rule_is_its_servers",
            onupdate="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("claim_on_host", "claim", ["host_id"], unique=False)
    op.create_index("claim_place", "claim", ["group_id", "place"], unique=False)
    op.create_index("claim_seat", "claim", ["group_id", "domain", "server_id"], unique=False)
    op.create_index(
        "m2_one_home",
        "claim",
        ["server_id", "role"],
        unique=True,
        postgresql_where=sa.text("role <> 'left'"),
        sqlite_where=sa.text("role <> 'left'"),
    )
