"""The records."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "action",
        sa.Column(
            "number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("server_id", sa.Text(), nullable=False),
        sa.Column("move_id", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
        sqlite_autoincrement=True,
    )
    op.create_index("action_of_server", "action", ["server_id", "number"], unique=False)
    op.create_table(
        "aggregate",
        sa.Column(
            "number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("metadata", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("name", name="aggregate_one_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "flavor",
        sa.Column(
            "number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("vcpus", sa.BigInteger(), nullable=False),
        sa.Column("ram", sa.BigInteger(), nullable=False),
        sa.Column("disk", sa.BigInteger(), nullable=False),
        sa.Column("ephemeral", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("swap", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("rxtx_factor", sa.Text(), server_default="1.0", nullable=False),
        sa.Column("is_public", sa.Boolean(), server_default=sa.text("(true)"), nullable=False),
        sa.Column("disabled", sa.Boolean(), server_default=sa.text("(false)"), nullable=False),
        sa.Column("extra_specs", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id", name="flavor_one_id"),
        sa.UniqueConstraint("name", name="flavor_one_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "keypair",
        sa.Column(
            "number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), server_default="ssh", nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("user_id", "name", name="keypair_one_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "aggregate_host",
        sa.Column("aggregate", sa.BigInteger(), nullable=False),
        sa.Column("host_name", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["aggregate"], ["aggregate.number"], name="aggregate_host_of", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("aggregate", "host_name", name="aggregate_host_once"),
    )
    op.create_table(
        "event",
        sa.Column(
            "number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("action", sa.BigInteger(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("details", sa.Text(), nullable=True),
        sa.Column("traceback", sa.Text(), nullable=True),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("finished_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["action"], ["action.number"], name="event_action"),
        sa.PrimaryKeyConstraint("number"),
        sqlite_autoincrement=True,
    )
    op.create_index("event_of_action", "event", ["action"], unique=False)
    op.create_table(
        "flavor_access",
        sa.Column("flavor_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["flavor_id"], ["flavor.id"], name="flavor_access_flavor", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("flavor_id", "project_id", name="flavor_access_once"),
    )
