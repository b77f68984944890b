"""the plain claim in fewer statements (PostgreSQL), and with fewer indexes to write."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("allocation_on_provider", table_name="allocation")
    op.drop_index("claim_place", table_name="claim")
    op.create_index(
        "claim_place",
        "claim",
        ["group_id", "place"],
        unique=False,
        postgresql_where=sa.text("place IS NOT NULL"),
        sqlite_where=sa.text("place IS NOT NULL"),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE action SET (fillfactor = 70)")
        op.execute((Path(__file__).parents[1] / "place_3.sql").read_text())
