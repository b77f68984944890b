"""groups that wait for a host."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Made anew, and filled with what it held: SQLite changes no constraint of a table that stands.
    old = sa.Table("group_move", sa.MetaData(), autoload_with=op.get_bind())
    rows = [dict(row) for row in op.get_bind().execute(sa.select(old)).mappings()]
    op.drop_table("group_move")
    new = op.create_table(
        "group_move",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("target_id", sa.Text(), nullable=True),
        sa.Column("goal_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("wish", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.CheckConstraint(
            "state IN ('waiting','moving','settling','scattered','done')", name="group_move_state"
        ),
        sa.CheckConstraint(
            "target_id IS NOT NULL OR state NOT IN ('moving','settling')", name="g2_group_target"
        ),
        sa.CheckConstraint("source_id <> target_id", name="g2_group_moves_away"),
        sa.CheckConstraint("goal_id = source_id OR goal_id = target_id", name="g2_group_goal"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("group_move_of_group", "group_move", ["group_id", "created_at"], unique=False)
    op.create_index(
        "group_move_to_do",
        "group_move",
        ["created_at"],
        unique=False,
        postgresql_where=sa.text("state <> 'done'"),
        sqlite_where=sa.text("state <> 'done'"),
    )
    op.create_index(
        "g2_one_group_move",
        "group_move",
        ["group_id"],
        unique=True,
        postgresql_where=sa.text("state IN ('waiting','moving','settling')"),
        sqlite_where=sa.text("state IN ('waiting','moving','settling')"),
    )
    op.bulk_insert(new, rows)
