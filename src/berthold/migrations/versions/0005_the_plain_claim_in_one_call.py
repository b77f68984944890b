"""the plain claim in one call (PostgreSQL)."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute((Path(__file__).parents[1] / "place_1.sql").read_text())
