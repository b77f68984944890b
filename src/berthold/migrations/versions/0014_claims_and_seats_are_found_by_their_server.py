"""claims and seats are found by their server."""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("claim_of_server", "claim", ["server_id"], unique=False)
    op.create_index("seat_of_server", "seat", ["server_id"], unique=False)
