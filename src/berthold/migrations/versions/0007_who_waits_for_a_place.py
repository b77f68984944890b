"""who waits for a place."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "queue",
        sa.Column("move_id", sa.Text(), nullable=False),
        sa.Column("host_id", sa.Text(), nullable=False),
        sa.Column("ticket", sa.BigInteger(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=True),
        sa.Column("room", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["move_id"], ["move.id"], name="queue_move"),
        sa.PrimaryKeyConstraint("move_id", "host_id", name="queue_once"),
    )
    with op.batch_alter_table("queue", schema=None) as batch_op:
        batch_op.create_index("queue_on_host", ["host_id"], unique=False)
