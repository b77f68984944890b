"""Bodies of server actions, inside their one key."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from berthold.api.schemas.body import INTEGER_MAX, Body, Shape
from berthold.api.schemas.servers import DiskConfig

HostOrNone = Annotated[str, Meta(min_length=1, max_length=255)] | None


class LiveMigrate(Shape):
    """Disks are on volumes or copied as the agent sees fit; nothing may be forced past the rules (M8)."""

    host: HostOrNone
    block_migration: bool | Literal["auto"]
    disk_over_commit: bool = False
    force: bool = False


class Migrate(Shape):
    host: HostOrNone = None


class Nothing(Shape):
    """`{}`, where others write null."""


class Resize(Shape):
    flavor: Annotated[str, Meta(min_length=1, max_length=500)] | int = field(name="flavorRef")
    disk_config: DiskConfig | None = field(name="OS-DCF:diskConfig", default=None)


class Reboot(Shape):
    type: Literal["SOFT", "Soft", "soft", "HARD", "Hard", "hard"]


class Lock(Shape):
    locked_reason: Annotated[str, Meta(min_length=1, max_length=255)] | None = None


class ResetState(Shape):
    state: Literal["active", "error"]


class ConsoleOutput(Shape):
    """How many of the last lines; -1 for all."""

    length: Annotated[int, Meta(ge=-1, le=INTEGER_MAX)] | None = None


class ForceComplete(Shape):
    force_complete: None


FORCE_COMPLETE = Body(ForceComplete)
LIVE_MIGRATE = Body(
    LiveMigrate,
    when={"disk_over_commit": "2.1-2.24", "force": "2.30-2.67"},
    needs={"disk_over_commit": "2.1-2.24"},
)
MIGRATE = Body(Migrate | None, when={"host": "2.56"})
RESIZE = Body(Resize)
REBOOT = Body(Reboot)
LOCK = Body(Lock | None, when={"locked_reason": "2.73"})
RESET_STATE = Body(ResetState)
CONSOLE_OUTPUT = Body(ConsoleOutput | None)
NOTHING = Body(Nothing | None)
ANY = Body(dict[str, Any])
