"""a claim says what it takes of its host."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

AMOUNTS = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "disk_gb"}
FORMER_FUNCTIONS = ("place_1", "place_2", "place_3")


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("LOCK TABLE claim, allocation IN ACCESS EXCLUSIVE MODE")
    # Made anew, and filled with what it held: SQLite changes no constraint of a table that stands.
    old = sa.Table("claim", sa.MetaData(), autoload_with=op.get_bind())
    taken = sa.Table("allocation", sa.MetaData(), autoload_with=op.get_bind())
    rows = [
        {**row, **dict.fromkeys(AMOUNTS.values(), 0)}
        for row in op.get_bind().execute(sa.select(old)).mappings()
    ]
    claims = {row["id"]: row for row in rows}
    for claim_id, name, amount in op.get_bind().execute(
        sa.select(taken.c.claim_id, taken.c["class"], taken.c.amount)
    ):
        if claim_id in claims:
            claims[claim_id][AMOUNTS[name]] = amount
    op.drop_table("allocation")
    op.drop_table("claim")
    new = op.create_table(
        "claim",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("server_id", sa.Text(), nullable=False),
        sa.Column("host_id", sa.Text(), nullable=False),
        sa.Column("host_epoch", sa.BigInteger(), nullable=False),
        sa.Column("move_id", sa.Text(), nullable=True),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=True),
        sa.Column("domain", sa.Text(), nullable=True),
        sa.Column("place", sa.Text(), nullable=True),
        sa.Column("vcpus", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("memory_mb", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("disk_gb", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.ForeignKeyConstraint(
            ["server_id", "rule"],
            ["server.id", "server.rule"],
            name="claim_rule_is_its_servers",
            onupdate="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["server_id", "group_id"],
            ["server.id", "server.group_id"],
            name="claim_group_is_its_servers",
            deferrable=True,
            initially="IMMEDIATE",
        ),
        sa.ForeignKeyConstraint(
            ["group_id", "domain", "server_id"],
            ["seat.group_id", "seat.domain", "seat.server_id"],
            name="g1_claim_has_seat",
        ),
        sa.ForeignKeyConstraint(
            ["group_id", "place"], ["group_place.group_id", "group_place.host_id"], name="g2_claim_at_place"
        ),
        sa.CheckConstraint(
            "rule <> 'anti-affinity' OR (group_id IS NOT NULL AND domain IS NOT NULL AND domain = host_id)",
            name="g1_no_escape",
        ),
        sa.CheckConstraint(
            "rule <> 'affinity' OR role = 'left'"
            " OR (group_id IS NOT NULL AND place IS NOT NULL AND place = host_id)",
            name="g2_no_escape",
        ),
        sa.CheckConstraint("role IN ('home','target','source','left')", name="claim_role"),
        sa.CheckConstraint("vcpus >= 0 AND memory_mb >= 0 AND disk_gb >= 0", name="c1_claim_takes"),
    )
    op.bulk_insert(new, rows)
    op.create_index("claim_of_server", "claim", ["server_id"], unique=False)
    op.create_index("claim_on_host", "claim", ["host_id"], unique=False)
    op.create_index(
        "claim_place",
        "claim",
        ["group_id", "place"],
        unique=False,
        postgresql_where=sa.text("place IS NOT NULL"),
        sqlite_where=sa.text("place IS NOT NULL"),
    )
    op.create_index(
        "m2_one_home",
        "claim",
        ["server_id", "role"],
        unique=True,
        postgresql_where=sa.text("role <> 'left'"),
        sqlite_where=sa.text("role <> 'left'"),
    )
    # Its primary key begins with the group, which whoever looks for a server's seat knows.
    op.drop_index("seat_of_server", table_name="seat")
    if op.get_bind().dialect.name == "postgresql":
        for name in FORMER_FUNCTIONS:
            op.execute(f"DROP FUNCTION IF EXISTS {name}")
        op.execute((Path(__file__).parents[1] / "place_4.sql").read_text())
