"""The tables of what is merely written down; no promise rests on them.

They share the ledger's metadata, so that one migration history makes all of them.
"""

from __future__ import annotations

from sqlalchemy import Column as _Column
from sqlalchemy import (
    ForeignKeyConstraint,
    Index,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

from berthold.ledger.schema import COUNTED, count, document, flag, metadata, moment, ordinal, words

# Written by records/flavors.py.
flavor = Table(
    "flavor",
    metadata,
    ordinal("number"),
    words("id"),
    words("name"),
    words("description", nullable=True),
    count("vcpus"),
    count("ram"),  # MiB
    count("disk"),  # GiB
    count("ephemeral", server_default="0"),  # GiB
    count("swap", server_default="0"),  # MiB
    _Column("rxtx_factor", Text, nullable=False, server_default="1.0"),
    flag("is_public", default=True),
    flag("disabled"),
    document("extra_specs"),
    UniqueConstraint("id", name="flavor_one_id"),
    UniqueConstraint("name", name="flavor_one_name"),
    sqlite_autoincrement=True,
)

# Which projects may use a flavor that is not public. Written by records/flavors.py.
flavor_access = Table(
    "flavor_access",
    metadata,
    words("flavor_id"),
    words("project_id"),
    PrimaryKeyConstraint("flavor_id", "project_id", name="flavor_access_once"),
    ForeignKeyConstraint(["flavor_id"], ["flavor.id"], name="flavor_access_flavor", ondelete="CASCADE"),
)

# Written by records/aggregates.py.
aggregate = Table(
    "aggregate",
    metadata,
    ordinal("number"),
    words("id"),
    words("name"),
    document("metadata"),
    moment("created_at"),
    moment("updated_at", nullable=True),
    UniqueConstraint("name", name="aggregate_one_name"),
    sqlite_autoincrement=True,
)
aggregate_host = Table(
    "aggregate_host",
    metadata,
    count("aggregate"),
    words("host_name"),
    PrimaryKeyConstraint("aggregate", "host_name", name="aggregate_host_once"),
    ForeignKeyConstraint(["aggregate"], ["aggregate.number"], name="aggregate_host_of", ondelete="CASCADE"),
)

# Written by records/keypairs.py.
keypair = Table(
    "keypair",
    metadata,
    ordinal("number"),
    words("user_id"),
    words("name"),
    words("type", server_default="ssh"),
    words("public_key"),
    words("fingerprint"),
    moment("created_at"),
    UniqueConstraint("user_id", "name", name="keypair_one_name"),
    sqlite_autoincrement=True,
)

# What somebody asked of a server: Nova's instance action. Its outcome is here once it is
# over; until then it is its move's. Written by records/actions.py.
action = Table(
    "action",
    metadata,
    ordinal("number"),
    words("request_id"),
    words("server_id"),
    words("move_id"),
    words("action"),
    words("user_id"),
    words("project_id"),
    words("message", nullable=True),  # 'Error' where it failed, as clients expect
    moment("started_at"),
    moment("updated_at"),
    sqlite_autoincrement=True,
    **COUNTED,
)
Index("action_of_server", action.c.server_id, action.c.number)

# What was done for an action, one row per finished line: Nova's instance-action event. A
# line that is still being done is read from its move. Written by records/actions.py.
event = Table(
    "event",
    metadata,
    ordinal("number"),
    count("action"),
    words("event"),
    words("result"),  # 'Success' or 'Error'
    words("host", nullable=True),
    words("details", nullable=True),  # why, for the owner: no host names
    words("traceback", nullable=True),  # why, for operators
    moment("started_at"),
    moment("finished_at"),
    ForeignKeyConstraint(["action"], ["action.number"], name="event_action"),
    sqlite_autoincrement=True,
)
Index("event_of_action", event.c.action)

# How far the sending of a live migration has come, in bytes, as its source host last said. A row
# goes once its move is over. Written by records/progress.py.
progress = Table(
    "progress",
    metadata,
    words("move_id", primary_key=True),
    count("memory_total_bytes"),
    count("memory_processed_bytes"),
    count("memory_remaining_bytes"),
    count("disk_total_bytes"),
    count("disk_processed_bytes"),
    count("disk_remaining_bytes"),
    moment("told_at"),
)

# What the auditor has found and still stands; a row goes once it is found no more. `key` is the
# same for the same trouble, however often it is found. Written by records/violations.py.
violation = Table(
    "violation",
    metadata,
    words("key", primary_key=True),
    words("rule"),
    words("says"),
    document("servers", "[]"),
    words("group_id", nullable=True),
    words("host_id", nullable=True),
    moment("since"),
    moment("seen_at"),
)

# What one process of many does for all, in turns: whose turn it is, until when, and which turn
# this is. Written by records/duties.py.
duty = Table(
    "duty",
    metadata,
    words("name", primary_key=True),
    words("owner"),
    count("turn", server_default="1"),
    moment("until"),
    moment("done_at", nullable=True),  # when a turn was last done to its end
)

# How often something has happened that operators watch and no row tells. Written by records/tallies.py.
tally = Table("tally", metadata, words("name", primary_key=True), count("total", server_default="0"))
