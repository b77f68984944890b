"""Server actions: `POST /servers/{id}/action` with one key that names the action.

One row per action; each begins, or goes on with, a move in the transaction that found the
server. 202 means begun, not done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from berthold.api.call import Call, Reply
from berthold.api.microversions import Version
from berthold.api.problems import named_in_the_body
from berthold.api.schemas import actions as bodies
from berthold.api.schemas.body import Body
from berthold.api.servers import by, unlocked
from berthold.errors import Malformed
from berthold.ledger.store import Tx
from berthold.moves import begin
from berthold.records import flavors

MIGRATE_RULE = "os_compute_api:os-migrate-server:migrate"
LIVE_RULE = "os_compute_api:os-migrate-server:migrate_live"


@dataclass(frozen=True)
class Action:
    """A row: what runs in the transaction, whom the rule lets, what the body is, the status."""

    run: Callable[[Tx, Call, str, Any], None]
    rule: str
    body: Body
    status: int = 202


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
    await call.store.write(_run, action, call, server_id, wish)
    return Reply(action.status)


def _run(tx: Tx, action: Action, call: Call, server_id: str, wish: Any) -> None:
    unlocked(tx, call, server_id)
    action.run(tx, call, server_id, wish)


def live_migrate(tx: Tx, call: Call, server_id: str, wish: bodies.LiveMigrate) -> None:
    """Move a running server to another host while it runs."""
    if wish.block_migration == "auto" and call.version < Version(2, 25):
        raise Malformed("block_migration: 'auto' needs microversion 2.25 or later; expected a boolean.")
    if wish.host:
        call.must(f"{LIVE_RULE}:host")
    begin.begin(tx, "live-migration", server_id, by(call), {"host": wish.host})


def migrate(tx: Tx, call: Call, server_id: str, wish: bodies.Migrate | None) -> None:
    """Move a server to another host, stopped; then it waits for its owner's word."""
    host = wish.host if wish else None
    if host:
        call.must(f"{MIGRATE_RULE}:host")
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
    begin.begin(tx, "resize", server_id, by(call), {"flavor": flavors.snapshot(flavor)})


def confirm_resize(tx: Tx, call: Call, server_id: str, _: None) -> None:
    """Keep what a resize or cold migration has made."""
    begin.confirm(tx, server_id, by(call))


def revert_resize(tx: Tx, call: Call, server_id: str, _: None) -> None:
    """Go back to the host and flavor from before."""
    begin.revert(tx, server_id, by(call))


ACTIONS: dict[str, Action] = {
    "os-migrateLive": Action(live_migrate, LIVE_RULE, bodies.LIVE_MIGRATE),
    "migrate": Action(migrate, MIGRATE_RULE, bodies.MIGRATE),
    "resize": Action(resize, "os_compute_api:servers:resize", bodies.RESIZE),
    "confirmResize": Action(
        confirm_resize, "os_compute_api:servers:confirm_resize", bodies.NOTHING, status=204
    ),
    "revertResize": Action(revert_resize, "os_compute_api:servers:revert_resize", bodies.NOTHING),
}
