"""Putting servers on the shelf and taking them off it: what may be asked of them, and when."""

from __future__ import annotations

from collections.abc import Mapping

from berthold.errors import Malformed, NotFound, WrongState
from berthold.ledger import claims, hosts, moves
from berthold.ledger.store import Tx
from berthold.moves import begin

ANYWHERE: Mapping[str, str | None] = {}
AT_REST = frozenset({"active", "stopped", "paused", "suspended"})


def shelve(tx: Tx, server_id: str, by: begin.By, *, offload: bool = True) -> str:
    """Begin to shelve the server, and if `offload` to give its host back at once; the move's id.
    Raises `NotFound`, `WrongState`."""
    playbook = "shelve-and-offload" if offload else "shelve"
    server = begin.hold(tx, server_id, by)
    beginning = begin.Beginning("shelve", playbook, "shelve", "shelve", AT_REST)
    return begin.begin_at(tx, server, begin.ready(tx, server, beginning), by, beginning, {})


def offload(tx: Tx, server_id: str, by: begin.By) -> str:
    """Begin to give a shelved server's host back; the move's id. Raises `NotFound`, `WrongState`."""
    server = begin.hold(tx, server_id, by)
    beginning = begin.Beginning(
        "shelve-offload", "shelve-offload", "shelveOffload", "shelveOffload", frozenset({"shelved"})
    )
    return begin.begin_at(tx, server, begin.ready(tx, server, beginning), by, beginning, {})


def unshelve(tx: Tx, server_id: str, by: begin.By, where: Mapping[str, str | None] = ANYWHERE) -> str:
    """Begin to take the server off the shelf; the move's id.

    `where`, for one that is offloaded: "host", a name (2.91); "zone", a name (2.77) or None to be
    bound to none (2.91). Raises `NotFound`, `Malformed` for an unknown host, `WrongState`: of two
    requests at once the second finds the first under way (M3).
    """
    server = begin.hold(tx, server_id, by)
    move = moves.unfinished(tx, server_id)
    if move is not None or server["condition"] not in ("shelved", "shelved_offloaded"):
        raise WrongState(begin.cannot("unshelve", server, move))
    if server["condition"] == "shelved_offloaded":
        if host := where.get("host"):
            _check_host(tx, host)
        beginning = begin.Beginning("unshelve", "unshelve", "unshelve", "unshelve", frozenset())
        return begin.begin_at(tx, server, None, by, beginning, where)
    if where:
        raise WrongState(
            f"Instance {server_id} is shelved and not offloaded: it is unshelved on its own host."
        )
    home = claims.home_of(tx, server_id)
    beginning = begin.Beginning("unshelve", "unshelve-at-home", "unshelve", "unshelve", frozenset())
    return begin.begin_at(tx, server, home, by, beginning, {})


def _check_host(tx: Tx, name: str) -> None:
    try:
        hosts.by_name(tx, name)
    except NotFound as error:
        raise Malformed(error.message) from error
