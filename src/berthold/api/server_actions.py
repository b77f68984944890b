"""Server actions: `POST /servers/{id}/action` with one key that names the action.

One row per action; nearly each begins, or goes on with, a move in the transaction that found
the server. 202 means begun, not done. What gives a server another place or another disk is in
`server_places.py` and `server_disks.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from berthold.api import server_disks as disks
from berthold.api import server_places as places
from berthold.api.answers import Shown, one
from berthold.api.call import Call, Reply
from berthold.api.microversions import Version
from berthold.api.problems import named_in_the_body
from berthold.api.schemas import actions as bodies
from berthold.api.schemas import disks as disk_bodies
from berthold.api.schemas import places as place_bodies
from berthold.api.schemas.body import Body
from berthold.api.servers import by, unlocked
from berthold.api.views import servers as views
from berthold.api.views.hosts import is_up
from berthold.errors import Malformed, NotAllowed, WrongState
from berthold.ledger import reading
from berthold.ledger.store import Tx
from berthold.moves import begin, look, marks
from berthold.records import flavors

MIGRATE_RULE = "os_compute_api:os-migrate-server:migrate"
LIVE_RULE = "os_compute_api:os-migrate-server:migrate_live"


@dataclass(frozen=True)
class Action:
    """A row: what runs, whom the rule lets, what the body is, the status, what the answer shows.

    `run(tx, call, server_id, wish)` is a transaction, or with `asks` a coroutine
    `run(call, server_id, wish)`; what it returns is the answer's document, or None where its
    microversion has none. A lock stops whom it concerns, unless the row `passes` it.
    """

    run: Callable[..., Any]
    rule: str
    body: Body = bodies.NOTHING
    status: int = 202
    asks: bool = False
    passes: bool = False
    shows: Shown | None = None


async def act(call: Call, server_id: str) -> Reply:
    """Find the action, decide its rule, check its body, run it."""
    if len(call.body) != 1:
        raise Malformed("Expected exactly one action, the only key of the body.")
    ((name, given),) = call.body.items()
    action = ACTIONS.get(name)
    if action is None:
        raise Malformed(
            f"There is no such action: {name[:60]}. This cloud has: {', '.join(sorted(ACTIONS))}."
        )
    call.must(action.rule)
    wish = action.body.convert(given, call.version)
    if action.asks:
        return Reply(action.status, await action.run(call, server_id, wish))
    return Reply(action.status, await call.store.write(_run, action, call, server_id, wish))


def _run(tx: Tx, action: Action, call: Call, server_id: str, wish: Any) -> Any:
    if action.passes:
        reading.server_of(tx, server_id, call.scope)
    else:
        unlocked(tx, call, server_id)
    return action.run(tx, call, server_id, wish)


def _home_answers(tx: Tx, call: Call, server_id: str, action: str) -> None:
    """Raise `WrongState` for a server that is to leave a host which is down: that host must send it."""
    host = reading.server_of(tx, server_id, call.scope)["host"]
    if host is not None and not is_up(host, call):
        raise WrongState(
            f"Cannot '{action}' instance {server_id}: Service is unavailable at this time, its host is down."
        )


def live_migrate(tx: Tx, call: Call, server_id: str, wish: bodies.LiveMigrate) -> None:
    """Move a running server to another host while it runs."""
    if wish.block_migration == "auto" and call.version < Version(2, 25):
        raise Malformed("block_migration: 'auto' needs microversion 2.25 or later; expected a boolean.")
    if wish.force and not wish.host:
        raise Malformed("Only a live migration to a host that is named can be forced.")
    if wish.host:
        call.must(f"{LIVE_RULE}:host")
    _home_answers(tx, call, server_id, "os-migrateLive")
    begin.begin(tx, "live-migration", server_id, by(call), {"host": wish.host})


def migrate(tx: Tx, call: Call, server_id: str, wish: bodies.Migrate | None) -> None:
    """Move a server to another host, stopped; then it waits for its owner's word."""
    host = wish.host if wish else None
    if host:
        call.must(f"{MIGRATE_RULE}:host")
    _home_answers(tx, call, server_id, "migrate")
    begin.begin(tx, "migration", server_id, by(call), {"host": host})


def resize(tx: Tx, call: Call, server_id: str, wish: bodies.Resize) -> None:
    """Give a server another flavor; then it waits for its owner's word."""
    server = unlocked(tx, call, server_id)
    with named_in_the_body():
        flavor = flavors.get(tx, str(wish.flavor).rsplit("/", 1)[-1], call.scope)
    if flavor["id"] == server["flavor"]["id"]:
        raise Malformed("When resizing, instances must change flavor!")
    if server["image_id"] and flavor["disk"] < server["flavor"]["disk"]:
        raise Malformed("Resize to a smaller disk is not possible: the disk of a server cannot shrink.")
    _home_answers(tx, call, server_id, "resize")
    begin.begin(tx, "resize", server_id, by(call), {"flavor": flavors.snapshot(flavor)})


def confirm_resize(tx: Tx, call: Call, server_id: str, _: None) -> None:
    """Keep what a resize or cold migration has made."""
    begin.confirm(tx, server_id, by(call))


def revert_resize(tx: Tx, call: Call, server_id: str, _: None) -> None:
    """Go back to the host and flavor from before."""
    begin.revert(tx, server_id, by(call))


def power(kind: str, tx: Tx, call: Call, server_id: str, _: None) -> None:
    """Stop, start, pause, unpause, suspend, resume, restore or unrescue the guest where it is."""
    begin.begin(tx, kind, server_id, by(call), {})


def reboot(tx: Tx, call: Call, server_id: str, wish: bodies.Reboot) -> None:
    """Let the guest begin anew, asking it first or not."""
    kind = "hard-reboot" if wish.type.upper() == "HARD" else "reboot"
    begin.begin(tx, kind, server_id, by(call), {})


def delete(tx: Tx, call: Call, server_id: str, _: None) -> None:
    """Delete for good, also what is kept to be restored."""
    begin.begin(tx, "delete", server_id, by(call), {})


def lock(tx: Tx, call: Call, server_id: str, wish: bodies.Lock | None) -> None:
    """From now on only admins may act on the server."""
    marks.lock(tx, server_id, by(call), wish.locked_reason if wish else None)


def unlock(tx: Tx, call: Call, server_id: str, _: None) -> None:
    """Its owner may act on the server again; an admin's lock is for admins to open."""
    try:
        marks.unlock(tx, server_id, by(call))
    except NotAllowed:
        call.must(UNLOCK_RULE)
        raise


def reset_state(tx: Tx, call: Call, server_id: str, wish: bodies.ResetState) -> None:
    """An admin's word on what the server is."""
    marks.reset_state(tx, server_id, wish.state)


async def console_output(call: Call, server_id: str, wish: bodies.ConsoleOutput | None) -> dict[str, str]:
    """What the guest has written to its console."""
    lines = wish.length if wish else None
    await call.store.read(reading.server_of, server_id, call.scope)
    return {"output": await look.console(call.store, server_id, None if lines == -1 else lines)}


UNLOCK_RULE = "os_compute_api:os-lock-server:unlock:unlock_override"
ACTIONS: dict[str, Action] = {
    "os-start": Action(partial(power, "start"), "os_compute_api:servers:start"),
    "os-stop": Action(partial(power, "stop"), "os_compute_api:servers:stop"),
    "reboot": Action(reboot, "os_compute_api:servers:reboot", bodies.REBOOT),
    "pause": Action(partial(power, "pause"), "os_compute_api:os-pause-server:pause"),
    "unpause": Action(partial(power, "unpause"), "os_compute_api:os-pause-server:unpause"),
    "suspend": Action(partial(power, "suspend"), "os_compute_api:os-suspend-server:suspend"),
    "resume": Action(partial(power, "resume"), "os_compute_api:os-suspend-server:resume"),
    "os-migrateLive": Action(live_migrate, LIVE_RULE, bodies.LIVE_MIGRATE),
    "migrate": Action(migrate, MIGRATE_RULE, bodies.MIGRATE),
    "resize": Action(resize, "os_compute_api:servers:resize", bodies.RESIZE),
    "confirmResize": Action(confirm_resize, "os_compute_api:servers:confirm_resize", status=204),
    "revertResize": Action(revert_resize, "os_compute_api:servers:revert_resize"),
    "evacuate": Action(
        places.evacuate,
        "os_compute_api:os-evacuate",
        place_bodies.EVACUATE,
        status=200,
        asks=True,
        shows=one("adminPass"),
    ),
    "shelve": Action(places.shelve, "os_compute_api:os-shelve:shelve"),
    "shelveOffload": Action(places.offload, "os_compute_api:os-shelve:shelve_offload"),
    "unshelve": Action(places.unshelve, "os_compute_api:os-shelve:unshelve", place_bodies.UNSHELVE),
    "rebuild": Action(
        disks.rebuild,
        "os_compute_api:servers:rebuild",
        disk_bodies.REBUILD,
        asks=True,
        shows=one("server", views.REBUILT_OR_IN_FULL, "adminPass", "progress", "fault"),
    ),
    "rescue": Action(
        disks.rescue,
        "os_compute_api:os-rescue",
        disk_bodies.RESCUE,
        status=200,
        asks=True,
        shows=one("adminPass"),
    ),
    "unrescue": Action(partial(power, "unrescue"), "os_compute_api:os-unrescue"),
    "createImage": Action(
        disks.create_image,
        "os_compute_api:servers:create_image",
        disk_bodies.CREATE_IMAGE,
        asks=True,
        shows=one("image_id"),
    ),
    "createBackup": Action(
        disks.create_backup,
        "os_compute_api:os-create-backup",
        disk_bodies.CREATE_BACKUP,
        asks=True,
        shows=one("image_id"),
    ),
    "lock": Action(lock, "os_compute_api:os-lock-server:lock", bodies.LOCK, passes=True),
    "unlock": Action(unlock, "os_compute_api:os-lock-server:unlock", passes=True),
    "forceDelete": Action(delete, "os_compute_api:os-deferred-delete:force"),
    "restore": Action(partial(power, "restore"), "os_compute_api:os-deferred-delete:restore"),
    "os-resetState": Action(reset_state, "os_compute_api:os-admin-actions:reset_state", bodies.RESET_STATE),
    "os-getConsoleOutput": Action(
        console_output,
        "os_compute_api:os-console-output",
        bodies.CONSOLE_OUTPUT,
        status=200,
        asks=True,
        shows=one("output"),
    ),
}
