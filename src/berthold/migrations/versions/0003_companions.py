"""The companions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "companion_first",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("made_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "identity_domain",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name", name="identity_domain_one_name"),
    )
    op.create_table(
        "identity_revoked",
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("token_id"),
    )
    op.create_table(
        "identity_role",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name", name="identity_role_one_name"),
    )
    op.create_table(
        "image",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), server_default="queued", nullable=False),
        sa.Column("visibility", sa.Text(), server_default="shared", nullable=False),
        sa.Column("disk_format", sa.Text(), nullable=True),
        sa.Column("container_format", sa.Text(), nullable=True),
        sa.Column("min_disk", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("min_ram", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("protected", sa.Boolean(), server_default=sa.text("(false)"), nullable=False),
        sa.Column("properties", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("tags", sa.JSON(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("file", sa.Text(), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=True),
        sa.Column("checksum", sa.Text(), nullable=True),
        sa.Column("os_hash_value", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.CheckConstraint("(status = 'active') = (file IS NOT NULL)", name="image_active_has_bytes"),
        sa.CheckConstraint("status IN ('queued','active')", name="image_status"),
        sa.CheckConstraint(
            "visibility IN ('private','shared','community','public')", name="image_visibility"
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("image_in_order", "image", ["created_at", "id"], unique=False)
    op.create_table(
        "network",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), server_default="", nullable=False),
        sa.Column("description", sa.Text(), server_default="", nullable=False),
        sa.Column("shared", sa.Boolean(), server_default=sa.text("(false)"), nullable=False),
        sa.Column("external", sa.Boolean(), server_default=sa.text("(false)"), nullable=False),
        sa.Column("admin_state_up", sa.Boolean(), server_default=sa.text("(true)"), nullable=False),
        sa.Column("mtu", sa.BigInteger(), server_default="1500", nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "network_plug",
        sa.Column("server_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.CheckConstraint("state IN ('plugged','unplugged')", name="network_plug_state"),
        sa.PrimaryKeyConstraint("server_id"),
    )
    op.create_table(
        "volume",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("volume_type", sa.Text(), server_default="file", nullable=False),
        sa.Column("zone", sa.Text(), server_default="nova", nullable=False),
        sa.Column("bootable", sa.Boolean(), server_default=sa.text("(false)"), nullable=False),
        sa.Column("image_id", sa.Text(), nullable=True),
        sa.Column("image_metadata", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=True),
        sa.Column("metadata", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("file", sa.Text(), nullable=True),
        sa.Column("move_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.CheckConstraint(
            "status IN ('creating','available','in-use','error','deleted')", name="volume_status"
        ),
        sa.CheckConstraint(
            "status NOT IN ('available','in-use') OR file IS NOT NULL", name="volume_ready_has_bytes"
        ),
        sa.CheckConstraint("size >= 1", name="volume_has_size"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("move_id", "name", name="volume_one_per_move_and_name"),
    )
    op.create_index("volume_of_project", "volume", ["project_id", "created_at", "id"], unique=False)
    op.create_table(
        "volume_parting",
        sa.Column("volume_id", sa.Text(), nullable=False),
        sa.Column("server_id", sa.Text(), nullable=False),
        sa.Column("parted_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("volume_id", "server_id", name="volume_parting_once"),
    )
    op.create_table(
        "identity_project",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("domain_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), server_default="", nullable=False),
        sa.Column("enabled", sa.Boolean(), server_default=sa.text("(true)"), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["domain_id"], ["identity_domain.id"], name="identity_project_domain"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("domain_id", "name", name="identity_project_one_name"),
    )
    op.create_table(
        "identity_user",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("domain_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), server_default="", nullable=False),
        sa.Column("description", sa.Text(), server_default="", nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=True),
        sa.Column("default_project_id", sa.Text(), nullable=True),
        sa.Column("enabled", sa.Boolean(), server_default=sa.text("(true)"), nullable=False),
        sa.Column("generation", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["domain_id"], ["identity_domain.id"], name="identity_user_domain"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("domain_id", "name", name="identity_user_one_name"),
    )
    op.create_table(
        "network_port",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("network_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), server_default="", nullable=False),
        sa.Column("mac_address", sa.Text(), nullable=False),
        sa.Column("server_id", sa.Text(), nullable=True),
        sa.Column("device_owner", sa.Text(), server_default="", nullable=False),
        sa.Column("made_for_server", sa.Boolean(), server_default=sa.text("(false)"), nullable=False),
        sa.Column("position", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("admin_state_up", sa.Boolean(), server_default=sa.text("(true)"), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["network_id"], ["network.id"], name="network_port_network"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("network_id", "mac_address", name="network_port_one_mac"),
        sa.UniqueConstraint("server_id", "position", name="network_port_one_per_position"),
    )
    op.create_index("network_port_of_network", "network_port", ["network_id"], unique=False)
    op.create_table(
        "network_subnet",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("network_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), server_default="", nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("cidr", sa.Text(), nullable=False),
        sa.Column("gateway_ip", sa.Text(), nullable=True),
        sa.Column("dhcp", sa.Boolean(), server_default=sa.text("(true)"), nullable=False),
        sa.Column("pools", sa.JSON(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("nameservers", sa.JSON(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.CheckConstraint("version IN (4, 6)", name="network_subnet_version"),
        sa.ForeignKeyConstraint(["network_id"], ["network.id"], name="network_subnet_network"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("network_subnet_of_network", "network_subnet", ["network_id"], unique=False)
    op.create_table(
        "volume_attachment",
        sa.Column("volume_id", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("server_id", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), server_default="rw", nullable=False),
        sa.Column("attached_at", sa.Double(), nullable=False),
        sa.CheckConstraint("mode IN ('rw','ro')", name="volume_attachment_mode"),
        sa.ForeignKeyConstraint(["volume_id"], ["volume.id"], name="volume_attachment_volume"),
        sa.PrimaryKeyConstraint("volume_id", name="volume_attachment_one_server"),
        sa.UniqueConstraint("id", name="volume_attachment_one_id"),
    )
    op.create_index("volume_attachment_of_server", "volume_attachment", ["server_id"], unique=False)
    op.create_table(
        "identity_assignment",
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("role_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"], ["identity_project.id"], name="identity_assignment_project", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["role_id"], ["identity_role.id"], name="identity_assignment_role", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["identity_user.id"], name="identity_assignment_user", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("user_id", "project_id", "role_id", name="identity_assignment_once"),
    )
    op.create_table(
        "network_address",
        sa.Column("subnet_id", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("ip", sa.Text(), nullable=False),
        sa.Column("port_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["port_id"], ["network_port.id"], name="network_address_port"),
        sa.ForeignKeyConstraint(["subnet_id"], ["network_subnet.id"], name="network_address_subnet"),
        sa.PrimaryKeyConstraint("subnet_id", "number", name="network_address_once"),
        sa.UniqueConstraint("subnet_id", "ip", name="network_address_one_text"),
    )
    op.create_index("network_address_of_port", "network_address", ["port_id"], unique=False)
