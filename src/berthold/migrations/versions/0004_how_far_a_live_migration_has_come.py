"""how far a live migration has come."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "progress",
        sa.Column("move_id", sa.Text(), nullable=False),
        sa.Column("memory_total_bytes", sa.BigInteger(), nullable=False),
        sa.Column("memory_processed_bytes", sa.BigInteger(), nullable=False),
        sa.Column("memory_remaining_bytes", sa.BigInteger(), nullable=False),
        sa.Column("disk_total_bytes", sa.BigInteger(), nullable=False),
        sa.Column("disk_processed_bytes", sa.BigInteger(), nullable=False),
        sa.Column("disk_remaining_bytes", sa.BigInteger(), nullable=False),
        sa.Column("told_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("move_id"),
    )
