"""Application credentials, quotas and snapshots of the companions.

What projects have already is counted, so that their quotas are right from the start.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# What there may be of each resource until somebody sets another limit, and what is there: a query
# that gives project_id and n.
HAD = {
    "volumes": (1000, "SELECT project_id, count(*) AS n FROM volume WHERE status <> 'deleted'"),
    "gigabytes": (100_000, "SELECT project_id, sum(size) AS n FROM volume WHERE status <> 'deleted'"),
    "network": (100, "SELECT project_id, count(*) AS n FROM network"),
    "subnet": (100, "SELECT project_id, count(*) AS n FROM network_subnet"),
    "port": (5000, "SELECT project_id, count(*) AS n FROM network_port"),
}


def upgrade() -> None:
    op.create_table(
        "companion_quota",
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("used", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("ceiling", sa.BigInteger(), nullable=False),
        sa.Column("maximum", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("used BETWEEN 0 AND ceiling", name="q1_companion_quota"),
        sa.PrimaryKeyConstraint("project_id", "resource", name="companion_quota_once"),
        postgresql_with={"fillfactor": 70},
    )
    op.create_table(
        "volume_snapshot",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("volume_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("bootable", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("image_metadata", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("metadata", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("file", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.CheckConstraint(
            "status <> 'available' OR file IS NOT NULL", name="volume_snapshot_ready_has_bytes"
        ),
        sa.CheckConstraint("status IN ('creating','available','error')", name="volume_snapshot_status"),
        sa.CheckConstraint("size >= 1", name="volume_snapshot_has_size"),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("volume_snapshot", schema=None) as batch_op:
        batch_op.create_index("volume_snapshot_of_project", ["project_id", "created_at"], unique=False)
        batch_op.create_index("volume_snapshot_of_volume", ["volume_id"], unique=False)

    op.create_table(
        "identity_credential",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("unrestricted", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"], ["identity_project.id"], name="identity_credential_project", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["identity_user.id"], name="identity_credential_user", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("user_id", "name", name="identity_credential_one_name"),
    )
    op.create_table(
        "identity_credential_role",
        sa.Column("credential_id", sa.Text(), nullable=False),
        sa.Column("role_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["credential_id"],
            ["identity_credential.id"],
            name="identity_credential_role_credential",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["role_id"], ["identity_role.id"], name="identity_credential_role_role"),
        sa.PrimaryKeyConstraint("credential_id", "role_id", name="identity_credential_role_once"),
    )
    with op.batch_alter_table("volume", schema=None) as batch_op:
        batch_op.add_column(sa.Column("snapshot_id", sa.Text(), nullable=True))
    for resource, (limit, had) in HAD.items():
        op.execute(
            "INSERT INTO companion_quota (project_id, resource, used, ceiling, maximum)"
            f" SELECT project_id, '{resource}', n, CASE WHEN n > {limit} THEN n ELSE {limit} END, {limit}"
            f" FROM ({had} GROUP BY project_id) AS had"
        )
