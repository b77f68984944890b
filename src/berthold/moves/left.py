"""Dead hosts: beginning an evacuation, and what becomes of a host that left servers behind.

A server leaves its claim on a host that cannot be asked (`steps.leave_behind`), and in the same
transaction an ask is written that waits there. Agents are given asks at their host's own epoch
only, so it is done when the host has come back and registered, or never. The answer releases the
claim; when the last is gone a host that is `cleaning` is up again.

Only what a claim says was left behind is ever removed. A guest that nobody knows is reported.
"""

from __future__ import annotations

from sqlalchemy import select

from berthold.errors import Malformed, WrongState
from berthold.ledger import claims, hosts, moves, outbox, schema
from berthold.ledger.store import Tx
from berthold.moves import begin, steps
from berthold.records import actions

EVACUATION = begin.Beginning(
    "evacuation",
    "evacuation",
    "evacuate",
    "evacuate",
    frozenset({"active", "stopped", "paused", "suspended", "rescued", "error"}),
)

# What is done with a guest where it is ends with its host. All other moves end by themselves when
# one of their hosts is fenced.
ENDS_WITH_ITS_HOST = frozenset(
    {
        *("stop", "start", "reboot", "hard-reboot", "pause", "unpause", "suspend", "resume"),
        *("rebuild", "rescue", "unrescue"),
    }
)


def evacuate(tx: Tx, server_id: str, by: begin.By, *, silent_since: float, host: str | None = None) -> str:
    """Begin to evacuate the server, as `evacuate_and_fence` does; the move's id."""
    return evacuate_and_fence(tx, server_id, by, silent_since=silent_since, host=host)[0]


def evacuate_and_fence(
    tx: Tx,
    server_id: str,
    by: begin.By,
    *,
    silent_since: float,
    host: str | None = None,
    stopped: bool = False,
) -> tuple[str, str | None]:
    """Begin to evacuate the server from its dead host, which is fenced with that; the move's id, and the
    host's name if it was not fenced before.

    A host is dead if an operator has fenced it or if nobody has heard of it since `silent_since`.
    `stopped`: the server shall not run when it has arrived, whatever it was (2.95).
    Raises `NotFound`, `Malformed` for a host that lives (as Nova) or a target that cannot be meant,
    `WrongState`.
    """
    server = begin.hold(tx, server_id, by)
    home = claims.home_of(tx, server_id)
    standing = moves.unfinished(tx, server_id)
    busy = standing is not None and standing["kind"] not in ENDS_WITH_ITS_HOST
    if home is None or busy or server["condition"] not in EVACUATION.conditions:
        raise WrongState(begin.cannot("evacuate", server, standing))
    if host is not None:
        begin.check_host(tx, host, home)
    if standing is not None:
        moves.supersede(tx, server_id)
        actions.end(tx, standing["facts"]["action"], failed=True)
    fenced = _fence(tx, home, silent_since)
    return begin.begin_at(tx, server, home, by, EVACUATION, {"host": host, "stopped": stopped}), fenced


def _fence(tx: Tx, home: claims.Claim, silent_since: float) -> str | None:
    """Hold the host, and fence it unless it is; its name if this did. It is never fenced while it is heard,
    or while nobody is."""
    locked = hosts.lock(tx, home.host_id, must_be_up=False)
    if locked.status == "fenced":
        return None
    if not hosts.is_silent(tx, home.host_id, silent_since):
        raise Malformed(f"Compute service of {locked.name} is still in use.")
    if not hosts.any_heard(tx, silent_since):
        # Then it is this cloud that was away (its database, say), rather than this host that died.
        raise Malformed(
            f"Compute service of {locked.name} may be still in use: none was heard for a while. Try again in"
            " a moment, or force it down."
        )
    hosts.fence(tx, home.host_id)
    return str(locked.name)


# -- The host is back ---------------------------------------------------------------------


def is_about_what_was_left(slot: str) -> bool:
    """Whether an ask of that slot waits for a host to come back; its move is then a claim."""
    return slot.split("/")[0] == steps.LEFT


def collect(tx: Tx, claim_id: str) -> bool:
    """The host has said that nothing of the guest is there any more; whether the host is up with that."""
    claim = claims.find(tx, claim_id)
    if claim is None or claim.role != "left":
        return False
    claims.release(tx, claim_id)
    _complete(tx, claim)
    return hosts.cleaned(tx, claim.host_id)


def _complete(tx: Tx, claim: claims.Claim) -> None:
    """The evacuations of the server from there are not only done but completed."""
    move = schema.move.c
    ended = select(move.id, move.facts).where(
        move.server_id == claim.server_id,
        move.source_id == claim.host_id,
        move.kind == "evacuation",
        move.state == "done",
    )
    for row in tx.execute(ended).all():
        moves.remember(tx, row.id, {**row.facts, "collected": True})


def ask_again(tx: Tx, host_id: str) -> None:
    """What the host has not removed, although it was asked and has answered, is asked of it anew; of two
    who look at once the second finds it asked. Raises `NotFound` for a host that was deleted meanwhile."""
    hosts.lock(tx, host_id, must_be_up=False)
    for claim in claims.left_on(tx, host_id):
        sent = outbox.all_of(tx, claim.id)
        if any(ask.state == "open" for ask in sent):
            continue
        outbox.send(
            tx,
            move_id=claim.id,
            slot=f"{steps.LEFT}/{len(sent)}",
            server_id=claim.server_id,
            host_id=host_id,
            verb="discard",
            args={},
        )


def forget_host(tx: Tx, host_id: str) -> None:
    """Remove a host, and if it is fenced what was left behind on it: it will never return.

    Raises `WrongState` while it holds anything else, or is the source or target of a move.
    """
    if hosts.lock(tx, host_id, must_be_up=False).status == "fenced":
        for claim in claims.left_on(tx, host_id):
            outbox.void(tx, claim.id)
            claims.release(tx, claim.id)
            _complete(tx, claim)
    hosts.remove(tx, host_id)
