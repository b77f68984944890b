"""the plain claim looks who waits once it holds the host (PostgreSQL)."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute((Path(__file__).parents[1] / "place_2.sql").read_text())
