"""Every playbook, by name."""

from __future__ import annotations

from collections.abc import Mapping

from berthold.moves.create import CREATE
from berthold.moves.delete import DELETE
from berthold.moves.live_migrate import LIVE_MIGRATION
from berthold.moves.playbook import Playbook
from berthold.moves.resize import CONFIRM_RESIZE, RESIZE, REVERT_RESIZE

PLAYBOOKS: Mapping[str, Playbook] = {
    book.name: book for book in (CREATE, DELETE, LIVE_MIGRATION, RESIZE, CONFIRM_RESIZE, REVERT_RESIZE)
}
