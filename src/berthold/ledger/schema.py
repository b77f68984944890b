"""The tables that promises rest on, and the constraints that keep them.

What must never happen is impossible here. Each named constraint stands under the sentence
that it enforces; its name begins with the promise's id. Two ideas carry the rest:

* `rule` (the policy of the server's group, or 'none') is copied from group to server to
  claim by foreign keys and is never NULL, since one NULL switches a composite key off on
  both engines. So no claim can deny its group.
* A seat and a place are rows that claims *reference*. The database refuses a member's claim
  without one, and refuses to free one under a claim.

Each table names the one module that writes it. Times are seconds since 1970 (UTC) as
floats, amounts are integers in the unit of their resource class (MEMORY_MB: MiB, DISK_GB:
GiB), ids are UUIDs in canonical text. The same metadata serves PostgreSQL and SQLite.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData()

# A row that is counted up in place stays on its page (heap-only updates) if there is room.
COUNTED: dict[str, Any] = {"postgresql_with": {"fillfactor": 70}}

UNFINISHED = ("running", "undoing", "waiting", "stuck")
_UNFINISHED_SQL = "state IN ('running','undoing','waiting','stuck')"


def words(name: str, **options: Any) -> Column[str]:
    """A text column, NOT NULL unless told otherwise."""
    return Column(name, Text, nullable=options.pop("nullable", False), **options)


def count(name: str, **options: Any) -> Column[int]:
    """A 64-bit integer column, NOT NULL unless told otherwise."""
    return Column(name, BigInteger, nullable=options.pop("nullable", False), **options)


def moment(name: str, **options: Any) -> Column[float]:
    """Seconds since 1970, UTC."""
    return Column(name, Double, nullable=options.pop("nullable", False), **options)


def flag(name: str, *, default: bool = False) -> Column[bool]:
    return Column(name, Boolean, nullable=False, server_default=text("true" if default else "false"))


def document(name: str, default: str = "{}") -> Column[Any]:
    """A JSON document, never NULL."""
    return Column(name, JSON, nullable=False, server_default=text(f"'{default}'"))


def ordinal(name: str) -> Column[int]:
    """The number that the database gives a row; later rows get higher ones."""
    return Column(name, BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True)


# -- Hosts and what they offer ------------------------------------------------------------

# Placement's resource providers. A host is a root provider; what is inside a host (a NUMA
# node, a card) is a child. Written by ledger/inventories.py.
provider = Table(
    "provider",
    metadata,
    words("id", primary_key=True),
    words("name"),
    words("parent_id", nullable=True),
    words("root_id"),
    count("generation", server_default="0"),
    UniqueConstraint("name", name="provider_one_name"),
    ForeignKeyConstraint(["parent_id"], ["provider.id"], name="provider_parent"),
    **COUNTED,
)

# A hypervisor host; its id is its root provider's. Status, epoch and `asks` are one row,
# which every claim locks first. Written by ledger/hosts.py; `asks` by ledger/outbox.py too.
#   up        may be given servers
#   fenced    may not act (M5): its asks and answers are of an older epoch
#   cleaning  is back and still holds what it left behind (M1): takes nothing
host = Table(
    "host",
    metadata,
    words("id", primary_key=True),
    words("name"),
    words("status"),
    flag("disabled"),
    words("disabled_reason", nullable=True),
    count("epoch", server_default="1"),
    count("asks", server_default="0"),  # how many asks it was ever sent: the next one's number
    words("agent_key"),  # which machine's agent may speak for it
    words("zone", server_default="nova"),
    document("facts"),  # what its hypervisor says of itself
    moment("created_at"),
    moment("updated_at"),
    UniqueConstraint("name", name="host_one_name"),
    ForeignKeyConstraint(["id"], ["provider.id"], name="host_is_a_provider"),
    CheckConstraint("status IN ('up','fenced','cleaning')", name="host_status"),
    **COUNTED,
)
# M1: a machine is one host. Under two names, what seems dead under the one would run on under the other.
Index("m1_one_host_per_machine", host.c.agent_key, unique=True)

# When a host was last heard. Apart from `host`, so that hearing never waits for a claim.
# Written by ledger/hosts.py, once a second for all hosts.
heartbeat = Table(
    "heartbeat",
    metadata,
    words("host_id", primary_key=True),
    moment("heard_at"),
    **COUNTED,
)

# What a provider offers of one resource class, and how much of it is claimed (C1).
# `capacity` is what may be claimed of it: floor((total - reserved) * allocation_ratio).
# Written by ledger/inventories.py.
inventory = Table(
    "inventory",
    metadata,
    words("provider_id"),
    words("class"),
    count("total"),
    count("reserved", server_default="0"),
    count("min_unit", server_default="1"),
    count("max_unit"),
    count("step_size", server_default="1"),
    Column("allocation_ratio", Double, nullable=False, server_default="1"),
    count("capacity"),
    count("ceiling"),
    count("used", server_default="0"),
    PrimaryKeyConstraint("provider_id", "class", name="inventory_one_per_class"),
    ForeignKeyConstraint(["provider_id"], ["provider.id"], name="inventory_provider"),
    CheckConstraint("used >= 0", name="c1_not_negative"),
    # C1: no claim makes a host hold more than its capacity. A claim raises `used` and never
    # writes `ceiling`; only a release and a change of capacity write it, so an inventory
    # that was shrunk below its use is legal and grants nothing more.
    CheckConstraint("ceiling = CASE WHEN used > capacity THEN used ELSE capacity END", name="c1_capacity"),
    # The capacity is the one that Placement's formula gives.
    CheckConstraint(
        "capacity <= (total - reserved) * allocation_ratio"
        " AND capacity > (total - reserved) * allocation_ratio - 1",
        name="c1_honest_capacity",
    ),
    CheckConstraint(
        "total >= 0 AND reserved >= 0 AND reserved <= total AND min_unit >= 1"
        " AND max_unit >= min_unit AND step_size >= 1 AND allocation_ratio > 0",
        name="inventory_sensible",
    ),
    **COUNTED,
)

# Written by ledger/inventories.py.
provider_trait = Table(
    "provider_trait",
    metadata,
    words("provider_id"),
    words("trait"),
    PrimaryKeyConstraint("provider_id", "trait", name="provider_trait_once"),
    ForeignKeyConstraint(["provider_id"], ["provider.id"], name="provider_trait_provider"),
)

# -- Projects and groups ------------------------------------------------------------------

# What a project uses and may use, in one row so that one guarded update judges all three.
# `*_ceiling` works as in `inventory`. -1 for a maximum means no limit and is stored as a
# number beyond reach. Written by ledger/quotas.py.
project = Table(
    "project",
    metadata,
    words("id", primary_key=True),
    count("instances", server_default="0"),
    count("instances_ceiling"),
    count("instances_max"),
    count("cores", server_default="0"),
    count("cores_ceiling"),
    count("cores_max"),
    count("ram", server_default="0"),
    count("ram_ceiling"),
    count("ram_max"),
    count("server_groups", server_default="0"),
    count("server_groups_ceiling"),
    count("server_groups_max"),
    count("server_group_members_max"),
    # Q1: usage never exceeds its limit, racing or not; a limit lowered below the use only
    # stops growth.
    *(
        CheckConstraint(f"{what} BETWEEN 0 AND {what}_ceiling", name=f"q1_{what}")
        for what in ("instances", "cores", "ram", "server_groups")
    ),
    **COUNTED,
)

# Written by ledger/groups.py; `moving` and `generation` by ledger/seats.py; `members_max` by
# ledger/quotas.py too, when its project's limit changes: it works as a ceiling does.
server_group = Table(
    "server_group",
    metadata,
    words("id", primary_key=True),
    words("project_id"),
    words("user_id"),
    words("name"),
    words("policy"),
    count("per_host", server_default="1"),
    document("rules"),  # as the user wrote them; `per_host` is what is kept
    count("members", server_default="0"),  # from creation on, placed or not
    count("members_max"),
    words("moving", nullable=True),  # the move for which the whole group is on its way (G2)
    count("generation", server_default="0"),  # what a soft member's ranking has seen (G3)
    moment("created_at"),
    UniqueConstraint("id", "policy", name="server_group_policy"),
    UniqueConstraint("id", "per_host", name="server_group_per_host"),
    CheckConstraint(
        "policy IN ('affinity','anti-affinity','soft-affinity','soft-anti-affinity')",
        name="server_group_known_policy",
    ),
    CheckConstraint("per_host >= 1", name="server_group_per_host_positive"),
    CheckConstraint("members BETWEEN 0 AND members_max", name="q1_group_members"),
    **COUNTED,
)
Index("server_group_of_project", server_group.c.project_id)

# -- Servers and moves --------------------------------------------------------------------

# A server as its owner knows it. Where it lives is not written here: its home is the claim
# with role 'home' (M2). A deleted server keeps its row, its history and nothing else.
# Written by ledger/servers.py; its rule by ledger/groups.py, when a group is deleted.
server = Table(
    "server",
    metadata,
    words("id", primary_key=True),
    words("project_id"),
    words("user_id"),
    words("name"),
    words("description", nullable=True),
    words("rule", server_default="none"),
    words("group_id", nullable=True),
    words("condition"),  # what it is when nothing is under way
    document("flavor"),  # its flavor as it was when chosen
    count("cores"),  # what its project is charged for it
    count("ram"),
    words("image_id", nullable=True),
    words("key_name", nullable=True),
    words("zone", nullable=True),  # the availability zone that was asked for
    document("hints"),
    document("metadata"),
    document("networks", "[]"),  # what was asked for
    document("ports", "[]"),  # what it got: id, network, mac, addresses
    document("volumes", "[]"),  # its block devices, boot disk first
    document("details"),  # user data, hostname, config drive …
    document("fault"),  # why it is in error: code, message, details, created
    flag("locked"),
    words("locked_reason", nullable=True),
    moment("created_at"),
    moment("updated_at"),
    moment("launched_at", nullable=True),
    moment("deleted_at", nullable=True),
    UniqueConstraint("id", "rule", name="server_rule"),
    UniqueConstraint("id", "group_id", name="server_group_of"),
    ForeignKeyConstraint(["project_id"], ["project.id"], name="server_project"),
    # A server's rule is its group's policy, and 'none' is for servers without a group.
    ForeignKeyConstraint(
        ["group_id", "rule"], ["server_group.id", "server_group.policy"], name="server_rule_is_its_groups"
    ),
    CheckConstraint("(group_id IS NULL) = (rule = 'none')", name="server_rule_none"),
    CheckConstraint(
        "condition IN ('building','active','stopped','paused','suspended','rescued',"
        "'shelved','shelved_offloaded','soft-deleted','error','deleted')",
        name="server_condition",
    ),
    **COUNTED,
)
Index("server_of_project", server.c.project_id, server.c.created_at)
Index("server_of_group", server.c.group_id)
# What a conductor looks for every second where servers are kept for a while.
Index(
    "server_on_time",
    server.c.condition,
    postgresql_where=text("condition IN ('soft-deleted','shelved')"),
    sqlite_where=text("condition IN ('soft-deleted','shelved')"),
)

# A group that moves as a whole (G2): every member of an affinity group goes from `source_id` to
# `target_id` and holds both until the last has arrived at `goal_id`, which is the one or, on the way
# back, the other. Each member's part is a move that names this row. Written by ledger/group_moves.py.
#   waiting    no host would do yet (M7): nothing is claimed, and one member's move stands in the queue
#   moving     its members are on their way, or wait for the others, or for an operator
#   settling   all have arrived: what they held on the other host is given up
#   scattered  the group was deleted (G4): each member's move ends by itself
group_move = Table(
    "group_move",
    metadata,
    words("id", primary_key=True),
    words("group_id"),
    words("source_id"),
    words("target_id", nullable=True),  # none while it waits, or if it was never granted one
    words("goal_id"),
    words("state"),
    document("wish"),  # of one that may wait: what was asked for
    words("request_id"),
    words("user_id"),
    words("project_id"),
    moment("created_at"),
    moment("updated_at"),
    CheckConstraint("state IN ('waiting','moving','settling','scattered','done')", name="group_move_state"),
    # G2: a group that moves goes to one other host, and heads for that or back.
    CheckConstraint("target_id IS NOT NULL OR state NOT IN ('moving','settling')", name="g2_group_target"),
    CheckConstraint("source_id <> target_id", name="g2_group_moves_away"),
    CheckConstraint("goal_id = source_id OR goal_id = target_id", name="g2_group_goal"),
)
# G2: a group is on one move at a time, or waits for one.
Index(
    "g2_one_group_move",
    group_move.c.group_id,
    unique=True,
    postgresql_where=text("state IN ('waiting','moving','settling')"),
    sqlite_where=text("state IN ('waiting','moving','settling')"),
)
Index("group_move_of_group", group_move.c.group_id, group_move.c.created_at)
Index(
    "group_move_to_do",
    group_move.c.created_at,
    postgresql_where=text("state <> 'done'"),
    sqlite_where=text("state <> 'done'"),
)

# One durable saga. `playbook` is the list that it follows, `line` the next line to do (or,
# while undoing, to undo). `until` is the end of its lease. Written by ledger/moves.py.
move = Table(
    "move",
    metadata,
    ordinal("number"),
    words("id"),
    words("server_id"),
    words("kind"),
    words("playbook"),
    words("state"),
    count("line", server_default="0"),
    count("attempt", server_default="0"),  # how often the line was begun anew
    moment("line_since"),
    words("owner", nullable=True),
    count("epoch", server_default="0"),
    moment("until", server_default="0"),
    words("source_id", nullable=True),
    words("target_id", nullable=True),
    document("wish"),  # what was asked for
    document("facts"),  # what was learned on the way
    document("failure"),  # why it is being undone
    words("request_id"),  # of the action that it works for now
    words("user_id"),
    words("project_id"),
    moment("created_at"),
    moment("updated_at"),
    words("group_move_id", nullable=True),  # the group move that it is a member's part of
    UniqueConstraint("id", name="move_one_id"),
    CheckConstraint(
        "state IN ('running','undoing','waiting','stuck','done','undone','superseded')", name="move_state"
    ),
    ForeignKeyConstraint(["server_id"], ["server.id"], name="move_server"),
    sqlite_autoincrement=True,
    **COUNTED,
)
# M3: a server has at most one unfinished move.
Index(
    "m3_one_unfinished_move",
    move.c.server_id,
    unique=True,
    postgresql_where=text(_UNFINISHED_SQL),
    sqlite_where=text(_UNFINISHED_SQL),
)
Index("move_of_server", move.c.server_id)
Index(
    "move_of_group_move",
    move.c.group_move_id,
    postgresql_where=text("group_move_id IS NOT NULL"),
    sqlite_where=text("group_move_id IS NOT NULL"),
)
Index(
    "move_to_do",
    move.c.state,
    postgresql_where=text("state IN ('running','undoing')"),
    sqlite_where=text("state IN ('running','undoing')"),
)

# -- Seats, places, claims ----------------------------------------------------------------

# G1: at most `per_host` members of an anti-affinity group hold a seat in one domain, and a
# member holds one seat there however many claims it has. A domain is a host.
# Written by ledger/seats.py.
seat = Table(
    "seat",
    metadata,
    words("group_id"),
    words("domain"),
    count("seat"),
    count("per_host"),
    words("server_id"),
    PrimaryKeyConstraint("group_id", "domain", "seat", name="g1_seat_free"),
    UniqueConstraint("group_id", "domain", "server_id", name="g1_one_each"),
    CheckConstraint("seat BETWEEN 1 AND per_host", name="g1_seat_exists"),
    ForeignKeyConstraint(
        ["group_id", "per_host"], ["server_group.id", "server_group.per_host"], name="g1_honest_per_host"
    ),
    ForeignKeyConstraint(
        ["server_id", "group_id"],
        ["server.id", "server.group_id"],
        name="g1_seat_of_member",
        deferrable=True,
        initially="IMMEDIATE",
    ),
)

# G2: an affinity group lives on one home and, while it moves, goes to one next home.
# Written by ledger/seats.py.
group_place = Table(
    "group_place",
    metadata,
    words("group_id"),
    words("role"),
    words("host_id"),
    PrimaryKeyConstraint("group_id", "role", name="g2_one_home_one_next"),
    UniqueConstraint("group_id", "host_id", name="g2_place"),
    CheckConstraint("role IN ('home','next')", name="g2_role"),
    ForeignKeyConstraint(["group_id"], ["server_group.id"], name="g2_group"),
)

# M1: a server holds a claim on every host that may be running it, and what it takes of that host
# stands in it: 0 of what it does not need. Roles:
#   home    where it lives (M2)
#   target  where a move is taking it
#   source  where it lived until the move switched its home; kept until the move is final
#   left    on a fenced host that has not yet said that the guest is gone
# Written by ledger/claims.py.
claim = Table(
    "claim",
    metadata,
    words("id", primary_key=True),
    words("server_id"),
    words("host_id"),
    count("host_epoch"),
    words("move_id", nullable=True),
    words("role"),
    words("rule"),
    words("group_id", nullable=True),
    words("domain", nullable=True),
    words("place", nullable=True),
    count("vcpus", server_default="0"),
    count("memory_mb", server_default="0"),
    count("disk_gb", server_default="0"),
    # C1: a claim takes, it never gives.
    CheckConstraint("vcpus >= 0 AND memory_mb >= 0 AND disk_gb >= 0", name="c1_claim_takes"),
    # A claim cannot deny its server's group.
    ForeignKeyConstraint(
        ["server_id", "rule"],
        ["server.id", "server.rule"],
        name="claim_rule_is_its_servers",
        onupdate="CASCADE",
    ),
    ForeignKeyConstraint(
        ["server_id", "group_id"],
        ["server.id", "server.group_id"],
        name="claim_group_is_its_servers",
        deferrable=True,
        initially="IMMEDIATE",
    ),
    # G1: a member's claim rests on its seat, and the seat stays while the claim stands.
    ForeignKeyConstraint(
        ["group_id", "domain", "server_id"],
        ["seat.group_id", "seat.domain", "seat.server_id"],
        name="g1_claim_has_seat",
    ),
    CheckConstraint(
        "rule <> 'anti-affinity' OR (group_id IS NOT NULL AND domain IS NOT NULL AND domain = host_id)",
        name="g1_no_escape",
    ),
    # G2: a live member's claim is at one of its group's places.
    ForeignKeyConstraint(
        ["group_id", "place"], ["group_place.group_id", "group_place.host_id"], name="g2_claim_at_place"
    ),
    CheckConstraint(
        "rule <> 'affinity' OR role = 'left'"
        " OR (group_id IS NOT NULL AND place IS NOT NULL AND place = host_id)",
        name="g2_no_escape",
    ),
    CheckConstraint("role IN ('home','target','source','left')", name="claim_role"),
)
# M2: a server has one home at most, and comes from and goes to one host at most.
Index(
    "m2_one_home",
    claim.c.server_id,
    claim.c.role,
    unique=True,
    postgresql_where=text("role <> 'left'"),
    sqlite_where=text("role <> 'left'"),
)
Index("claim_of_server", claim.c.server_id)  # of any role
Index("claim_on_host", claim.c.host_id)
Index(
    "claim_place",
    claim.c.group_id,
    claim.c.place,
    postgresql_where=text("place IS NOT NULL"),
    sqlite_where=text("place IS NOT NULL"),
)

# M7: who waits for a place on which host. It holds nothing for anybody; it only says whom to let go
# first (`ledger/queue.py`). `ticket` is the move's number: first come, first served. Written by
# ledger/queue.py.
queue = Table(
    "queue",
    metadata,
    words("move_id"),
    words("host_id"),
    count("ticket"),
    words("group_id", nullable=True),  # whose seat or place it waits for
    flag("room"),  # whether it waits for capacity too
    moment("until"),
    PrimaryKeyConstraint("move_id", "host_id", name="queue_once"),
    ForeignKeyConstraint(["move_id"], ["move.id"], name="queue_move"),
)
Index("queue_on_host", queue.c.host_id)

# -- Asks and history ---------------------------------------------------------------------

# What agents are asked to do, written with the decision that needs it. `slot` makes a line
# that is repeated find its own ask again. `seq` orders the asks of a host: an agent ignores
# an ask of a server that is older than what it has done for it. Written by ledger/outbox.py.
ask = Table(
    "ask",
    metadata,
    words("id", primary_key=True),
    words("move_id"),
    words("slot"),
    words("server_id"),
    words("host_id"),
    count("host_epoch"),
    count("seq"),
    words("verb"),
    document("args"),
    words("state", server_default="open"),
    document("answer"),
    moment("asked_at"),
    moment("answered_at", nullable=True),
    UniqueConstraint("move_id", "slot", name="ask_one_per_slot"),
    UniqueConstraint("host_id", "seq", name="ask_order"),
    CheckConstraint("state IN ('open','done','void')", name="ask_state"),
    **COUNTED,
)
Index(
    "ask_open",
    ask.c.host_id,
    postgresql_where=text("state = 'open'"),
    sqlite_where=text("state = 'open'"),
)

# Placement history: append-only, written in the claim's own transaction, in the order that
# the database gave. The checker replays it. Written by ledger/history.py.
#   offered     a host's capacity is now `amounts`
#   claimed     `claim_id` holds `amounts` on `host_id` for `server_id`
#   home        `claim_id` is now the server's home
#   left        `claim_id` waits on a fenced host
#   freed       `claim_id` is gone
#   ungrouped   `server_id` no longer follows a rule (G4)
history = Table(
    "history",
    metadata,
    ordinal("number"),
    moment("at"),
    words("event"),
    words("claim_id", nullable=True),
    words("server_id", nullable=True),
    words("host_id", nullable=True),
    words("move_id", nullable=True),
    words("group_id", nullable=True),
    words("policy", server_default="none"),
    count("per_host", server_default="1"),
    document("amounts"),
    CheckConstraint("event IN ('offered','claimed','home','left','freed','ungrouped')", name="history_event"),
    sqlite_autoincrement=True,
)
