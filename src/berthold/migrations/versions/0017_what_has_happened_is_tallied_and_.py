"""what has happened is tallied, and servers that are kept for a while are found."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "tally",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("total", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    with op.batch_alter_table("server", schema=None) as batch_op:
        batch_op.create_index(
            "server_on_time",
            ["condition"],
            unique=False,
            postgresql_where=sa.text("condition IN ('soft-deleted','shelved')"),
            sqlite_where=sa.text("condition IN ('soft-deleted','shelved')"),
        )
