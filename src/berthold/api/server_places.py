"""Actions that give a server another place, or none: evacuate, shelve, offload, unshelve.

All begin in the transaction that found the server. A named host is for whom the policy lets
name one, and is no way round a rule (M8).
"""

from __future__ import annotations

import structlog
from msgspec import UNSET

from berthold.api.call import Call
from berthold.api.chance import password
from berthold.api.microversions import Version
from berthold.api.schemas import places as bodies
from berthold.api.servers import by, unlocked
from berthold.errors import Malformed, NotFound, WrongState
from berthold.ledger import reading
from berthold.ledger.store import Tx
from berthold.moves import left, shelf
from berthold.moves.snapshot import starts_from_volume
from berthold.records import aggregates

log = structlog.get_logger("berthold.services")

UNSHELVE_TO_HOST = "os_compute_api:os-shelve:unshelve_to_host"
SHARED_STORAGE_IS_FOUND_OUT = Version(2, 14)
STAYS_STOPPED = Version(2, 95)
ZONE_MAY_BE_NAMED = Version(2, 77)
HOST_MAY_BE_NAMED = Version(2, 91)


async def evacuate(call: Call, server_id: str, wish: bodies.Evacuate) -> dict[str, str | None] | None:
    """Make a server anew elsewhere: its host is forced down, or nobody hears of it."""
    fenced = await call.store.write(_evacuate, call, server_id, wish)
    if fenced is not None:
        log.warning(
            "host fenced",
            host=fenced,
            reason="it was silent, and a server was evacuated from it",
            server=server_id,
            user=call.actor.user_id,
            request=call.request_id,
        )
    if call.version >= SHARED_STORAGE_IS_FOUND_OUT:
        return None
    return {"adminPass": None if wish.shared else wish.admin_pass or password(call)}


def _evacuate(tx: Tx, call: Call, server_id: str, wish: bodies.Evacuate) -> str | None:
    """Begin it; the name of the host that is fenced with that, if it was not before."""
    unlocked(tx, call, server_id)
    host = wish.host or None
    if wish.force and host is None:
        raise Malformed("Only an evacuation to a host that is named can be forced.")
    if wish.shared and wish.admin_pass is not None:
        raise Malformed("admin password can't be changed on existing disk")
    if host is not None and host not in reading.host_names(tx):
        raise NotFound(f"Compute host {host} not found.")
    _, fenced = left.evacuate_and_fence(
        tx,
        server_id,
        by(call),
        silent_since=_silent_since(call),
        host=host,
        stopped=call.version >= STAYS_STOPPED,
    )
    return fenced


def _silent_since(call: Call) -> float:
    """Who was not heard since then is dead. Not who could not be heard: for the first seconds of this
    process that is everybody, and a host that lives must not be fenced for that."""
    silent_since = call.store.clock.now() - call.settings.silent_after_s
    return silent_since if call.services.since <= silent_since else 0.0


def shelve(tx: Tx, call: Call, server_id: str, _: None) -> None:
    """Keep a server as an image, and give its host back as soon as the operator has set; that of a server
    on volumes, of which no image is needed, at once."""
    at_once = starts_from_volume(reading.server_of(tx, server_id, call.scope))
    shelf.shelve(tx, server_id, by(call), offload=at_once or call.settings.shelved_offload_s == 0)


def offload(tx: Tx, call: Call, server_id: str, _: None) -> None:
    """Give the host of a shelved server back now."""
    shelf.offload(tx, server_id, by(call))


def unshelve(tx: Tx, call: Call, server_id: str, wish: bodies.Unshelve | None) -> None:
    """Find a shelved server a place again: any, in a zone (2.77), or on a host (2.91)."""
    where: dict[str, str | None] = {}
    if wish is not None:
        where = _where(call, wish)
    if host := where.get("host"):
        call.must(UNSHELVE_TO_HOST)
    if where:
        _check_zone(tx, reading.server_of(tx, server_id, call.scope)["zone"], where, host)
    shelf.unshelve(tx, server_id, by(call), where)


def _where(call: Call, wish: bodies.Unshelve) -> dict[str, str | None]:
    where: dict[str, str | None] = {}
    if wish.host is not UNSET:
        where["host"] = wish.host
    if wish.zone is not UNSET:
        where["zone"] = wish.zone
    if not where and call.version >= ZONE_MAY_BE_NAMED:
        raise Malformed("unshelve: expected null, or an availability_zone (since 2.91 also a host).")
    if where.get("zone", "") is None and call.version < HOST_MAY_BE_NAMED:
        raise Malformed("unshelve: an availability_zone of null needs microversion 2.91 or later.")
    return where


def _check_zone(tx: Tx, pinned: str | None, where: dict[str, str | None], host: str | None) -> None:
    """The zone exists, and the host is in it: in the one that is asked for, else the server's own."""
    zone = where.get("zone", pinned)
    zones = {**reading.host_zones(tx), **aggregates.zones(tx)}
    if where.get("zone") and zone not in zones.values():
        raise Malformed("The requested availability zone is not available")
    if host in zones and zone is not None and zones[host] != zone:
        raise WrongState(f"Host {host} is not in the availability zone {zone}.")
