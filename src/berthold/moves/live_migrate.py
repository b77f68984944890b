"""Live migration: move a running server to another host without stopping it.

    claim target ─ check target ─ prepare target ─ send memory ══ switch home ─ move ports ─ discard source
         ▲                              ▲               ▲       ║      ─ release source
         └───────────── undo ───────────┴───── undo ────┘       ╚═ from here the guest runs on the target

Promises:
    M1  The server holds a claim on every host that may be running it.
    M2  It has one home, which changes in a single write.
    M6  If it fails before the guest runs on the target, the server is what it was before.

The source is free the moment it has said that the guest is gone: the next request may use it.
"""

from __future__ import annotations

from berthold.moves.playbook import (
    NOTHING,
    Ask,
    Call,
    Errand,
    Place,
    Playbook,
    PointOfNoReturn,
    Write,
    source,
    target,
)
from berthold.moves.steps import bind_ports_to_target, guest_as_it_is, release_source, switch_home, to_target

LIVE_MIGRATION = Playbook(
    "live-migration",
    Place(
        "claim target",
        event="conductor_live_migrate_instance",
        task="migrating",
        migration="accepted",
    ),
    Ask(
        "check target",
        Errand("check", target, guest_as_it_is),
        undo=NOTHING,
        event="compute_check_can_live_migrate_destination",
        task="migrating",
        migration="accepted",
    ),
    Ask(
        "prepare target",
        Errand("prepare", target, guest_as_it_is),
        undo=Errand("discard", target),
        event="compute_pre_live_migration",
        task="migrating",
        migration="preparing",
    ),
    Ask(
        "send memory",
        Errand("send", source, to_target),
        undo=NOTHING,  # whether it was sent is asked before anything is undone
        decides=True,
        long=True,
        event="compute_live_migration",
        task="migrating",
        migration="running",
    ),
    PointOfNoReturn("the guest runs on the target"),
    Write(
        "switch home", lambda tx, scene: switch_home(tx, scene), task="migrating", migration="post-migrating"
    ),
    Call(
        "move ports",
        bind_ports_to_target,
        event="compute_post_live_migration_at_destination",
        task="migrating",
        migration="post-migrating",
    ),
    Ask("discard source", Errand("discard", source), task="migrating", migration="post-migrating"),
    Write(
        "release source",
        lambda tx, scene: release_source(tx, scene),
        task="migrating",
        migration="post-migrating",
    ),
    ends="completed",
)
