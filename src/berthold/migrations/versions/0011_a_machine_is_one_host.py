"""a machine is one host."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

# Of several hosts that one machine is, that one stays it which has servers, or was heard of last. An
# agent of another is told so when it comes, and gives that name up or takes the machine over.
ONE_EACH = """
    UPDATE host SET agent_key = 'no machine since ' || id WHERE id <> (
        SELECT h.id FROM host h WHERE h.agent_key = host.agent_key
         ORDER BY (SELECT count(*) FROM claim c WHERE c.host_id = h.id) DESC, h.updated_at DESC, h.id
         LIMIT 1)"""


def upgrade() -> None:
    op.execute(ONE_EACH)
    op.create_index("m1_one_host_per_machine", "host", ["agent_key"], unique=True)
