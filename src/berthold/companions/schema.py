"""The companions' tables: who may ask, and what images, volumes and networks there are.

They live on the ledger's metadata, so one migration makes them all, but no key leads from
here into the ledger or back: a site that points at a real Keystone, Glance, Cinder or
Neutron leaves these tables empty. As in the ledger, racers are stopped by named
constraints; each stands under the sentence that it enforces. Each group of tables is
written by the one module that bears its name (`identity_*` by identity.py, and so on), or
that the comment above it names.
"""

from __future__ import annotations

from sqlalchemy import (
    CheckConstraint,
    ForeignKeyConstraint,
    Index,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
)

from berthold.ledger.schema import COUNTED, count, document, flag, metadata, moment, words

# What the first start made. It is not made again when an operator removes it later.
companion_first = Table("companion_first", metadata, words("name", primary_key=True), moment("made_at"))

# What a project uses and may use of one resource (`volumes`, `port` …); 2^62 stands for no limit.
# `ceiling` is the limit, or the use where a limit was lowered below it. Written by quotas.py.
companion_quota = Table(
    "companion_quota",
    metadata,
    words("project_id"),
    words("resource"),
    count("used", server_default="0"),
    count("ceiling"),
    count("maximum"),
    PrimaryKeyConstraint("project_id", "resource", name="companion_quota_once"),
    # Q1: usage never exceeds its limit, racing or not; a limit lowered below the use only stops growth.
    CheckConstraint("used BETWEEN 0 AND ceiling", name="q1_companion_quota"),
    **COUNTED,
)

# -- Identity -----------------------------------------------------------------------------

identity_domain = Table(
    "identity_domain",
    metadata,
    words("id", primary_key=True),
    words("name"),
    UniqueConstraint("name", name="identity_domain_one_name"),
)

identity_project = Table(
    "identity_project",
    metadata,
    words("id", primary_key=True),
    words("domain_id"),
    words("name"),
    words("description", server_default=""),
    flag("enabled", default=True),
    moment("created_at"),
    # Within a domain a name means one project.
    UniqueConstraint("domain_id", "name", name="identity_project_one_name"),
    ForeignKeyConstraint(["domain_id"], ["identity_domain.id"], name="identity_project_domain"),
)

identity_user = Table(
    "identity_user",
    metadata,
    words("id", primary_key=True),
    words("domain_id"),
    words("name"),
    words("email", server_default=""),
    words("description", server_default=""),
    words("password_hash", nullable=True),  # argon2; without one nobody logs in by password
    words("default_project_id", nullable=True),
    flag("enabled", default=True),
    # Raised when the password changes or the user is disabled: older tokens are void.
    count("generation", server_default="1"),
    moment("created_at"),
    UniqueConstraint("domain_id", "name", name="identity_user_one_name"),
    ForeignKeyConstraint(["domain_id"], ["identity_domain.id"], name="identity_user_domain"),
)

identity_role = Table(
    "identity_role",
    metadata,
    words("id", primary_key=True),
    words("name"),
    UniqueConstraint("name", name="identity_role_one_name"),
)

identity_assignment = Table(
    "identity_assignment",
    metadata,
    words("user_id"),
    words("project_id"),
    words("role_id"),
    PrimaryKeyConstraint("user_id", "project_id", "role_id", name="identity_assignment_once"),
    ForeignKeyConstraint(
        ["user_id"], ["identity_user.id"], name="identity_assignment_user", ondelete="CASCADE"
    ),
    ForeignKeyConstraint(
        ["project_id"], ["identity_project.id"], name="identity_assignment_project", ondelete="CASCADE"
    ),
    ForeignKeyConstraint(
        ["role_id"], ["identity_role.id"], name="identity_assignment_role", ondelete="CASCADE"
    ),
)

# A user's application credentials: a secret, shown once, that stands for some of the user's roles on one
# project. Gone with the user and with the project. Written by credentials.py.
identity_credential = Table(
    "identity_credential",
    metadata,
    words("id", primary_key=True),
    words("user_id"),
    words("project_id"),
    words("name"),
    words("description", nullable=True),
    words("secret_hash"),  # argon2
    flag("unrestricted"),  # whether who logs in with it may make and remove such credentials
    moment("expires_at", nullable=True),
    moment("created_at"),
    # A user's name for one means one.
    UniqueConstraint("user_id", "name", name="identity_credential_one_name"),
    ForeignKeyConstraint(
        ["user_id"], ["identity_user.id"], name="identity_credential_user", ondelete="CASCADE"
    ),
    ForeignKeyConstraint(
        ["project_id"], ["identity_project.id"], name="identity_credential_project", ondelete="CASCADE"
    ),
)

# Written by credentials.py.
identity_credential_role = Table(
    "identity_credential_role",
    metadata,
    words("credential_id"),
    words("role_id"),
    PrimaryKeyConstraint("credential_id", "role_id", name="identity_credential_role_once"),
    ForeignKeyConstraint(
        ["credential_id"],
        ["identity_credential.id"],
        name="identity_credential_role_credential",
        ondelete="CASCADE",
    ),
    ForeignKeyConstraint(["role_id"], ["identity_role.id"], name="identity_credential_role_role"),
)

# Tokens that were given back before their time; a row may go once the token has expired.
identity_revoked = Table(
    "identity_revoked",
    metadata,
    words("token_id", primary_key=True),
    moment("expires_at"),
)

# -- Image --------------------------------------------------------------------------------

# `file` names the bytes in the image directory. It is written once, with size and hashes,
# when every byte is on disk: an image is never seen half-written, and of two uploads that
# race one becomes the image.
image = Table(
    "image",
    metadata,
    words("id", primary_key=True),
    words("project_id"),
    words("name", nullable=True),
    words("status", server_default="queued"),
    words("visibility", server_default="shared"),
    words("disk_format", nullable=True),
    words("container_format", nullable=True),
    count("min_disk", server_default="0"),
    count("min_ram", server_default="0"),
    flag("protected"),
    document("properties"),
    document("tags", "[]"),
    words("file", nullable=True),
    count("size", nullable=True),
    words("checksum", nullable=True),
    words("os_hash_value", nullable=True),
    moment("created_at"),
    moment("updated_at"),
    CheckConstraint("status IN ('queued','active')", name="image_status"),
    CheckConstraint("(status = 'active') = (file IS NOT NULL)", name="image_active_has_bytes"),
    CheckConstraint("visibility IN ('private','shared','community','public')", name="image_visibility"),
)
Index("image_in_order", image.c.created_at, image.c.id)

# -- Block storage ------------------------------------------------------------------------

# `file` as for an image: named once, when it is complete. A volume that a move made keeps
# its row when it is deleted, so that the move's late repetition makes no second one.
volume = Table(
    "volume",
    metadata,
    words("id", primary_key=True),
    words("project_id"),
    words("user_id", nullable=True),
    words("name", nullable=True),
    words("description", nullable=True),
    words("status"),
    count("size"),
    words("volume_type", server_default="file"),
    words("zone", server_default="nova"),
    flag("bootable"),
    words("image_id", nullable=True),
    document("image_metadata"),
    words("source_id", nullable=True),
    words("snapshot_id", nullable=True),
    document("metadata"),
    words("file", nullable=True),
    words("move_id", nullable=True),
    moment("created_at"),
    moment("updated_at"),
    # A move makes one volume of a name, however often it asks.
    UniqueConstraint("move_id", "name", name="volume_one_per_move_and_name"),
    CheckConstraint("size >= 1", name="volume_has_size"),
    CheckConstraint("status IN ('creating','available','in-use','error','deleted')", name="volume_status"),
    CheckConstraint(
        "status NOT IN ('available','in-use') OR file IS NOT NULL", name="volume_ready_has_bytes"
    ),
)
Index("volume_of_project", volume.c.project_id, volume.c.created_at, volume.c.id)

# A snapshot is a whole copy of a volume's bytes, so it outlives its volume. Written by snapshots.py.
volume_snapshot = Table(
    "volume_snapshot",
    metadata,
    words("id", primary_key=True),
    words("project_id"),
    words("user_id", nullable=True),
    words("volume_id"),
    words("name", nullable=True),
    words("description", nullable=True),
    words("status"),
    count("size"),
    flag("bootable"),
    document("image_metadata"),
    document("metadata"),
    words("file", nullable=True),
    moment("created_at"),
    moment("updated_at"),
    CheckConstraint("size >= 1", name="volume_snapshot_has_size"),
    CheckConstraint("status IN ('creating','available','error')", name="volume_snapshot_status"),
    CheckConstraint("status <> 'available' OR file IS NOT NULL", name="volume_snapshot_ready_has_bytes"),
)
Index("volume_snapshot_of_project", volume_snapshot.c.project_id, volume_snapshot.c.created_at)
Index("volume_snapshot_of_volume", volume_snapshot.c.volume_id)

# A volume is attached to one server at most.
volume_attachment = Table(
    "volume_attachment",
    metadata,
    words("volume_id"),
    words("id"),
    words("server_id"),
    words("device"),
    words("mode", server_default="rw"),
    moment("attached_at"),
    PrimaryKeyConstraint("volume_id", name="volume_attachment_one_server"),
    UniqueConstraint("id", name="volume_attachment_one_id"),
    ForeignKeyConstraint(["volume_id"], ["volume.id"], name="volume_attachment_volume"),
    CheckConstraint("mode IN ('rw','ro')", name="volume_attachment_mode"),
)
Index("volume_attachment_of_server", volume_attachment.c.server_id)

# Which volume was taken from which server for good: a late attach of a move that has been
# superseded is refused. Or from which move, whose attach was undone; then `server_id` is the move's.
volume_parting = Table(
    "volume_parting",
    metadata,
    words("volume_id"),
    words("server_id"),
    moment("parted_at"),
    PrimaryKeyConstraint("volume_id", "server_id", name="volume_parting_once"),
)

# -- Network ------------------------------------------------------------------------------

network = Table(
    "network",
    metadata,
    words("id", primary_key=True),
    words("project_id"),
    words("name", server_default=""),
    words("description", server_default=""),
    flag("shared"),
    flag("external"),
    flag("admin_state_up", default=True),
    count("mtu", server_default="1500"),
    moment("created_at"),
    moment("updated_at"),
)

network_subnet = Table(
    "network_subnet",
    metadata,
    words("id", primary_key=True),
    words("network_id"),
    words("project_id"),
    words("name", server_default=""),
    count("version"),
    words("cidr"),
    words("gateway_ip", nullable=True),
    flag("dhcp", default=True),
    document("pools", "[]"),  # [{"start", "end"}]: where addresses are taken from
    document("nameservers", "[]"),
    moment("created_at"),
    ForeignKeyConstraint(["network_id"], ["network.id"], name="network_subnet_network"),
    CheckConstraint("version IN (4, 6)", name="network_subnet_version"),
)
Index("network_subnet_of_network", network_subnet.c.network_id)

# `made_for_server`: unplugging the server removes the port; one that was lent stays.
network_port = Table(
    "network_port",
    metadata,
    words("id", primary_key=True),
    words("network_id"),
    words("project_id"),
    words("name", server_default=""),
    words("mac_address"),
    words("server_id", nullable=True),
    words("device_owner", server_default=""),
    flag("made_for_server"),
    count("position", server_default="0"),  # the server's first, second … interface
    words("host", nullable=True),
    flag("admin_state_up", default=True),
    moment("created_at"),
    moment("updated_at"),
    # On a network a MAC address is one port's.
    UniqueConstraint("network_id", "mac_address", name="network_port_one_mac"),
    # A server has one first interface, one second, and so on.
    UniqueConstraint("server_id", "position", name="network_port_one_per_position"),
    ForeignKeyConstraint(["network_id"], ["network.id"], name="network_port_network"),
)
Index("network_port_of_network", network_port.c.network_id)

# `number` counts from the subnet's first address.
network_address = Table(
    "network_address",
    metadata,
    words("subnet_id"),
    count("number"),
    words("ip"),
    words("port_id"),
    # An address is given to one port at most.
    PrimaryKeyConstraint("subnet_id", "number", name="network_address_once"),
    UniqueConstraint("subnet_id", "ip", name="network_address_one_text"),
    ForeignKeyConstraint(["subnet_id"], ["network_subnet.id"], name="network_address_subnet"),
    ForeignKeyConstraint(["port_id"], ["network_port.id"], name="network_address_port"),
)
Index("network_address_of_port", network_address.c.port_id)

# A server is plugged once. When it is unplugged the row stays and says so, since a late
# `plug` of a move that has been superseded must not give ports to a server that is gone.
# In the same way a move that gives a port to a server that exists, or takes one, does so once:
# its row has the move's id instead of the server's.
network_plug = Table(
    "network_plug",
    metadata,
    words("server_id", primary_key=True),
    words("state"),
    moment("since"),
    CheckConstraint("state IN ('plugged','unplugged')", name="network_plug_state"),
)
