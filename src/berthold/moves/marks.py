"""What is written on a server at once, without a move: its lock, and an admin's word on its state."""

from __future__ import annotations

from berthold.errors import NotAllowed, WrongState
from berthold.ledger import claims, moves, servers
from berthold.ledger.store import Tx
from berthold.moves.begin import By


def lock(tx: Tx, server_id: str, by: By, reason: str | None = None) -> None:
    """From now on the server obeys admins only. Locked again it keeps who locked it first."""
    server = servers.hold(tx, server_id)
    locked_by = server["details"].get("locked_by") if server["locked"] else None
    details = {**server["details"], "locked_by": locked_by or ("admin" if by.is_admin else "owner")}
    servers.change(tx, server_id, locked=True, locked_reason=reason, details=details)


def unlock(tx: Tx, server_id: str, by: By) -> None:
    """The server obeys its owner again. Raises `NotAllowed` where an admin's lock is not the caller's."""
    server = servers.hold(tx, server_id)
    if not server["locked"]:
        return
    if server["details"].get("locked_by") == "admin" and not by.is_admin:
        raise NotAllowed(f"Instance {server_id} was locked by an administrator, who alone may unlock it.")
    details = {key: value for key, value in server["details"].items() if key != "locked_by"}
    servers.change(tx, server_id, locked=False, locked_reason=None, details=details)


def reset_state(tx: Tx, server_id: str, condition: str) -> None:
    """An admin says what the server is: `active` or `error`. Claims and guests stay as they are.

    Raises `WrongState` while a move works on the server (its outcome says what the server is; a
    move that is stuck can be resumed), for a server without a home that would be active, and for
    one that is stopped or paused, since `active` would be false of it.
    """
    server = servers.hold(tx, server_id)
    if move := moves.unfinished(tx, server_id):
        hint = {
            "waiting": "its group must arrive" if move["group_move_id"] else "confirm or revert it first",
            "stuck": f"resume move {move['id']} or delete the server",
        }.get(move["state"], "wait until it has ended")
        raise WrongState(f"Cannot reset the state of instance {server_id} during its {move['kind']}: {hint}.")
    if condition == "active":
        if server["condition"] not in ("error", "active"):
            raise WrongState(
                f"Cannot reset instance {server_id} to active: it is {server['condition']}; start it instead."
            )
        if claims.home_of(tx, server_id) is None:
            raise WrongState(f"Cannot reset instance {server_id} to active: it is on no host.")
    servers.change(tx, server_id, condition=condition)
