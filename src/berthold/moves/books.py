"""Every playbook, by name."""

from __future__ import annotations

from collections.abc import Mapping

from berthold.moves.create import CREATE
from berthold.moves.delete import DELETE
from berthold.moves.evacuate import EVACUATION
from berthold.moves.group_move import (
    GROUP_ARRIVAL,
    GROUP_EVACUATION,
    GROUP_LIVE_MIGRATION,
    GROUP_MIGRATION,
    GROUP_PLACES,
    GROUP_RETURN,
)
from berthold.moves.interfaces import ATTACH_INTERFACE, DETACH_INTERFACE
from berthold.moves.live_migrate import LIVE_MIGRATION
from berthold.moves.playbook import Playbook
from berthold.moves.power import (
    HARD_REBOOT,
    PAUSE,
    REBOOT,
    RESUME,
    START,
    STOP,
    SUSPEND,
    UNPAUSE,
)
from berthold.moves.rebuild import REBUILD, RESCUE, UNRESCUE
from berthold.moves.resize import CONFIRM_RESIZE, RESIZE, REVERT_RESIZE
from berthold.moves.shelve import OFFLOAD, SHELVE, SHELVE_AND_OFFLOAD, UNSHELVE, UNSHELVE_AT_HOME
from berthold.moves.snapshot import BACKUP, SNAPSHOT, SNAPSHOT_OF_VOLUMES
from berthold.moves.soft_delete import CONFIRM_AND_SOFT_DELETE, RESTORE, SOFT_DELETE
from berthold.moves.volumes import (
    ATTACH_VOLUME,
    ATTACH_VOLUME_OFFLOADED,
    DETACH_VOLUME,
    DETACH_VOLUME_OFFLOADED,
)

PLAYBOOKS: Mapping[str, Playbook] = {
    book.name: book
    for book in (
        CREATE,
        DELETE,
        LIVE_MIGRATION,
        RESIZE,
        CONFIRM_RESIZE,
        REVERT_RESIZE,
        EVACUATION,
        GROUP_PLACES,
        GROUP_LIVE_MIGRATION,
        GROUP_MIGRATION,
        GROUP_EVACUATION,
        GROUP_ARRIVAL,
        GROUP_RETURN,
        SHELVE,
        SHELVE_AND_OFFLOAD,
        OFFLOAD,
        UNSHELVE,
        UNSHELVE_AT_HOME,
        STOP,
        START,
        REBOOT,
        HARD_REBOOT,
        PAUSE,
        UNPAUSE,
        SUSPEND,
        RESUME,
        SOFT_DELETE,
        CONFIRM_AND_SOFT_DELETE,
        RESTORE,
        REBUILD,
        RESCUE,
        UNRESCUE,
        SNAPSHOT,
        SNAPSHOT_OF_VOLUMES,
        BACKUP,
        ATTACH_VOLUME,
        ATTACH_VOLUME_OFFLOADED,
        DETACH_VOLUME,
        DETACH_VOLUME_OFFLOADED,
        ATTACH_INTERFACE,
        DETACH_INTERFACE,
    )
}
