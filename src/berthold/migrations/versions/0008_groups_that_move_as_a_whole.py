"""groups that move as a whole."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "group_move",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("target_id", sa.Text(), nullable=False),
        sa.Column("goal_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.CheckConstraint("state IN ('moving','settling','scattered','done')", name="group_move_state"),
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
        postgresql_where=sa.text("state IN ('moving','settling')"),
        sqlite_where=sa.text("state IN ('moving','settling')"),
    )
    op.add_column("move", sa.Column("group_move_id", sa.Text(), nullable=True))
    op.create_index(
        "move_of_group_move",
        "move",
        ["group_move_id"],
        unique=False,
        postgresql_where=sa.text("group_move_id IS NOT NULL"),
        sqlite_where=sa.text("group_move_id IS NOT NULL"),
    )
