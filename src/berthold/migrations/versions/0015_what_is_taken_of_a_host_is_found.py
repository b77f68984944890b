"""what is taken of a host is found by its host."""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("allocation_on_provider", "allocation", ["provider_id", "class"], unique=False)
