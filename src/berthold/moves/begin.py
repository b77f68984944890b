"""Beginning a move: what may be asked of a server now, and the rows that begin it.

Every function runs in the caller's transaction and holds the server's row first (M3). 202
means begun, not done: once this is committed the move survives any crash (A1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from berthold.errors import Malformed, NotFound, WrongState
from berthold.ledger import claims, hosts, moves, servers
from berthold.ledger.store import Tx
from berthold.moves import interfaces, volumes, waiting
from berthold.moves.books import PLAYBOOKS
from berthold.moves.snapshot import key_of, starts_from_volume
from berthold.moves.status import status_of
from berthold.records import actions


@dataclass(frozen=True)
class By:
    """Who asks, and in which request. A locked server obeys admins only. `wait_s`: for how long what is
    asked for may wait for a place instead of failing (M7)."""

    user_id: str
    project_id: str
    request_id: str
    is_admin: bool = False
    wait_s: float = 0.0


@dataclass(frozen=True)
class NewServer:
    """A server that somebody wants. `volumes` are its block devices that are volumes, boot disk
    first: {"volume_id"} for one that exists, else {"size", "image_id"} for one to make, each with
    "boot_index", "delete_on_termination", "device". `networks`: one wish per port."""

    project_id: str
    user_id: str
    name: str
    flavor: Mapping[str, Any]
    image_id: str | None = None
    group_id: str | None = None
    zone: str | None = None
    host: str | None = None
    hints: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    networks: list[dict[str, Any]] = field(default_factory=list)
    volumes: list[dict[str, Any]] = field(default_factory=list)
    key_name: str | None = None
    description: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Beginning:
    """A kind of move as its users know it: who may begin it, and what Nova calls it."""

    kind: str
    playbook: str
    action: str  # the instance action
    api: str  # the word in the request
    conditions: frozenset[str]  # what the server may be at rest


ACTIVE, STOPPED, PAUSED = frozenset({"active"}), frozenset({"stopped"}), frozenset({"paused"})
ERROR = frozenset({"error"})
AT_HOME = ACTIVE | STOPPED | PAUSED
OFFLOADED = "shelved_offloaded"
ON_SHELF = frozenset({"shelved", OFFLOADED})
# They come one after another (`moves/in_turn.py`).
ATTACHMENTS = frozenset({"attach-volume", "detach-volume", "attach-interface", "detach-interface"})

BEGINNINGS: Mapping[str, Beginning] = {
    each.kind: each
    for each in (
        Beginning("live-migration", "live-migration", "live-migration", "os-migrateLive", ACTIVE),
        Beginning("migration", "resize", "migrate", "migrate", ACTIVE | STOPPED),
        Beginning("resize", "resize", "resize", "resize", ACTIVE | STOPPED),
        Beginning("stop", "stop", "stop", "stop", ACTIVE | ERROR),
        Beginning("start", "start", "start", "start", STOPPED),
        Beginning("reboot", "reboot", "reboot", "reboot", ACTIVE),
        Beginning("hard-reboot", "hard-reboot", "reboot", "reboot", AT_HOME | ERROR),
        Beginning("pause", "pause", "pause", "pause", ACTIVE),
        Beginning("unpause", "unpause", "unpause", "unpause", PAUSED),
        Beginning("suspend", "suspend", "suspend", "suspend", ACTIVE),
        Beginning("resume", "resume", "resume", "resume", frozenset({"suspended"})),
        Beginning("rebuild", "rebuild", "rebuild", "rebuild", ACTIVE | STOPPED | ERROR),
        Beginning("rescue", "rescue", "rescue", "rescue", ACTIVE | STOPPED | ERROR),
        Beginning("unrescue", "unrescue", "unrescue", "unrescue", frozenset({"rescued"})),
        Beginning("snapshot", "snapshot", "createImage", "createImage", AT_HOME | {"suspended"}),
        Beginning("backup", "backup", "createBackup", "createBackup", AT_HOME | {"suspended"}),
        Beginning("soft-delete", "soft-delete", "delete", "delete", AT_HOME | {"suspended"} | ERROR),
        Beginning("restore", "restore", "restore", "restore", frozenset({"soft-deleted"})),
        Beginning("attach-volume", "attach-volume", "attach_volume", "attach_volume", AT_HOME | ON_SHELF),
        Beginning("detach-volume", "detach-volume", "detach_volume", "detach_volume", AT_HOME | ON_SHELF),
        Beginning("attach-interface", "attach-interface", "attach_interface", "attach_interface", AT_HOME),
        Beginning("detach-interface", "detach-interface", "detach_interface", "detach_interface", AT_HOME),
    )
}


def create_servers(tx: Tx, by: By, wishes: list[NewServer]) -> list[str]:
    """New servers, each with its create under way; their ids. All or none.

    Raises `Refused` (Q1; G2 while the group moves, unless they may wait), `NotFound` for a group that is
    gone.
    """
    return [_create(tx, by, wish) for wish in sorted(wishes, key=lambda wish: wish.group_id or "")]


def _create(tx: Tx, by: By, wish: NewServer) -> str:
    server_id = servers.create(
        tx,
        project_id=wish.project_id,
        user_id=wish.user_id,
        name=wish.name,
        group_id=wish.group_id,
        flavor=wish.flavor,
        image_id=wish.image_id,
        zone=wish.zone,
        hints=dict(wish.hints),
        metadata=dict(wish.metadata),
        networks=wish.networks,
        key_name=wish.key_name,
        description=wish.description,
        details=dict(wish.details),
        may_wait=by.wait_s > 0,
    )
    plan = {"host": wish.host, "networks": wish.networks, "volumes": wish.volumes}
    _begin(tx, server_id, by, kind="create", playbook="create", action="create", wish=plan)
    return server_id


def begin(tx: Tx, kind: str, server_id: str, by: By, wish: Mapping[str, Any]) -> str:
    """Begin a move of one of the kinds in `BEGINNINGS`, or a delete, of the server; the move's id.

    `wish`: {"host": name or None} for a migration, {"flavor": its snapshot} for a resize, {"image_id"}
    and what else changes for a rebuild, {"image_id"} or nothing for a rescue, {"name", "metadata"}
    for a snapshot, the same and {"backup"} for a backup. Raises
    `NotFound` for the server, `Malformed` for a host that cannot be meant, `WrongState` when
    the server cannot do that now or is locked.
    """
    server = hold(tx, server_id, by)
    if kind == "delete":
        return _delete(tx, server, by)
    beginning = BEGINNINGS[kind]
    if kind == "snapshot" and starts_from_volume(server):
        beginning = replace(beginning, playbook="snapshot-of-volumes")
    if kind == "backup" and starts_from_volume(server):
        raise Malformed("Backup is not supported for volume-backed instances: create an image of it instead.")
    home = ready(tx, server, beginning)
    if name := wish.get("host"):
        check_host(tx, name, home)
    if flavor := wish.get("flavor"):
        # Until the owner has decided, both flavors may be needed: the larger of each is paid for.
        servers.recharge(
            tx, server_id, max(server["cores"], flavor["vcpus"]), max(server["ram"], flavor["ram"])
        )
    return begin_at(tx, server, home, by, beginning, wish)


def attach_volume(
    tx: Tx,
    /,
    server_id: str,
    by: By,
    volume_id: str,
    *,
    device: str | None = None,
    on_shelf: bool = True,
    **more: Any,
) -> Mapping[str, Any]:
    """Begin to give the server a volume; {"volume_id", "device", …} as it will be. `on_shelf`: also one that
    is shelved. `more`: delete_on_termination, tag. Raises as `begin` does; `Malformed` for a volume that
    the server has."""
    server = hold_in_turn(tx, server_id, by, "attach-volume")
    beginning, home = _of_volumes(tx, server, "attach-volume", on_shelf)
    named = volumes.attachable(server, volume_id, device)
    volume = {"volume_id": volume_id, "device": named, "boot_index": None, **more}
    begin_at(tx, server, home, by, beginning, {"volume": volume})
    return volume


def detach_volume(tx: Tx, server_id: str, by: By, volume_id: str, *, on_shelf: bool = True) -> None:
    """Begin to take a volume from the server, with `on_shelf` also from one that is shelved. Raises as
    `begin` does; `NotFound` for a volume that the server has not got, `Malformed` for the one it boots
    from."""
    server = hold_in_turn(tx, server_id, by, "detach-volume")
    volume = volumes.detachable(server, volume_id)
    beginning, home = _of_volumes(tx, server, "detach-volume", on_shelf)
    begin_at(tx, server, home, by, beginning, {"volume": dict(volume)})


def _of_volumes(
    tx: Tx, server: Mapping[str, Any], kind: str, on_shelf: bool
) -> tuple[Beginning, claims.Claim | None]:
    """How a server gets or loses a volume, and its home if it has one."""
    beginning = BEGINNINGS[kind]
    if not on_shelf:
        beginning = replace(beginning, conditions=beginning.conditions - ON_SHELF)
    if server["condition"] != OFFLOADED:
        return beginning, ready(tx, server, beginning)
    at_rest(tx, server, beginning)
    return replace(beginning, playbook=f"{kind}-offloaded"), None


def attach_interface(tx: Tx, server_id: str, by: By, wish: Mapping[str, Any]) -> str:
    """Begin to give the server a port: {"uuid"} of a network or {"port"}, perhaps "fixed_ip", "tag"; the
    move's id. Raises as `begin` does; `Malformed` for a port that the server has."""
    server = hold_in_turn(tx, server_id, by, "attach-interface")
    interfaces.attachable(server, wish.get("port"))
    home = ready(tx, server, BEGINNINGS["attach-interface"])
    return begin_at(tx, server, home, by, BEGINNINGS["attach-interface"], {"interface": dict(wish)})


def detach_interface(tx: Tx, server_id: str, by: By, port_id: str) -> str:
    """Begin to take a port from the server; the move's id. Raises as `begin` does; `NotFound` for a port
    that the server has not got."""
    server = hold_in_turn(tx, server_id, by, "detach-interface")
    port = interfaces.detachable(server, port_id)
    home = ready(tx, server, BEGINNINGS["detach-interface"])
    return begin_at(tx, server, home, by, BEGINNINGS["detach-interface"], {"port": dict(port)})


def hold(tx: Tx, server_id: str, by: By) -> Mapping[str, Any]:
    """The server's row, held, for somebody who may act on it. Raises `NotFound`, `WrongState` if locked."""
    server = servers.hold(tx, server_id)
    if server["locked"] and not by.is_admin:
        raise WrongState(f"Instance {server_id} is locked")
    return server


def hold_in_turn(tx: Tx, server_id: str, by: By, kind: str) -> Mapping[str, Any]:
    """The same for one of the `ATTACHMENTS`. Raises `WrongState` to `wait` for while another is under way:
    what the server has is known when that has ended."""
    server = hold(tx, server_id, by)
    move = moves.unfinished(tx, server_id)
    if move is not None and move["kind"] in ATTACHMENTS and move["state"] in moves.WORKED_ON:
        raise WrongState(cannot(BEGINNINGS[kind].api, server, move), wait=True)
    return server


def ready(tx: Tx, server: Mapping[str, Any], beginning: Beginning) -> claims.Claim:
    """The home of a server that can do this now. Raises `WrongState`."""
    at_rest(tx, server, beginning)
    home = claims.home_of(tx, server["id"])
    if home is None:
        # Only a server in error can be without one: it was never built.
        raise WrongState(f"Cannot '{beginning.api}' instance {server['id']}: it is on no host")
    return home


def at_rest(tx: Tx, server: Mapping[str, Any], beginning: Beginning) -> None:
    """Raise `WrongState` for a server that is on the move, or not in a condition to do this."""
    move = moves.unfinished(tx, server["id"])
    if move is not None or server["condition"] not in beginning.conditions:
        raise WrongState(cannot(beginning.api, server, move))


def begin_at(
    tx: Tx,
    server: Mapping[str, Any],
    home: claims.Claim | None,
    by: By,
    beginning: Beginning,
    wish: Mapping[str, Any],
) -> str:
    """Begin the move of a server that is held and may be moved; the move's id."""
    return _begin(
        tx,
        server["id"],
        by,
        kind=beginning.kind,
        playbook=beginning.playbook,
        action=beginning.action,
        wish=wish,
        source_id=home.host_id if home else None,
    )


def confirm(tx: Tx, server_id: str, by: By) -> None:
    """The owner keeps what a resize or migration made. Raises `WrongState` if there is nothing to keep."""
    carry_on(tx, server_id, by, "confirm-resize", "confirmResize")


def revert(tx: Tx, server_id: str, by: By) -> None:
    """The owner wants the server back as it was. Raises `WrongState` if there is no way back."""
    carry_on(tx, server_id, by, "revert-resize", "revertResize")


def carry_on(tx: Tx, server_id: str, by: By, playbook: str, action: str) -> None:
    """The move that waits for its owner's word goes on with another playbook. Raises `WrongState`."""
    server = hold(tx, server_id, by)
    move = moves.unfinished(tx, server_id)
    if move is None or move["state"] != "waiting" or move["group_move_id"]:
        raise WrongState(cannot(action, server, move))
    number = actions.begin(
        tx,
        request_id=by.request_id,
        server_id=server_id,
        move_id=move["id"],
        name=action,
        user_id=by.user_id,
        project_id=by.project_id,
    )
    moves.resume(
        tx, move["id"], playbook=playbook, request_id=by.request_id, facts={**move["facts"], "action": number}
    )


def _delete(tx: Tx, server: Mapping[str, Any], by: By) -> str:
    """Delete takes the place of whatever the server was doing (M3); asked twice it is one delete."""
    standing = moves.unfinished(tx, server["id"])
    if standing and standing["kind"] == "delete":
        already: str = standing["id"]
        return already
    moves.supersede(tx, server["id"])
    wish: dict[str, Any] = {}
    if standing and standing["kind"] == "create":
        wish = {
            "unfinished_create": standing["id"],
            "unfinished_volumes": standing["wish"].get("volumes", []),
        }
    if standing and (standing["kind"] == "shelve" or _makes_image(standing)):
        wish = {"unfinished_image": key_of(standing)}
    if standing and standing["kind"] == "attach-volume":
        wish = {"unfinished_volume": standing["wish"]["volume"]["volume_id"]}
    return _begin(tx, server["id"], by, kind="delete", playbook="delete", action="delete", wish=wish)


def _makes_image(move: Mapping[str, Any]) -> bool:
    """Whether it makes an image that is not complete. A complete one is its owner's, whatever comes."""
    return move["kind"] in ("snapshot", "backup") and move["line"] < PLAYBOOKS[move["playbook"]].no_return


def _begin(
    tx: Tx,
    server_id: str,
    by: By,
    *,
    kind: str,
    playbook: str,
    action: str,
    wish: Mapping[str, Any],
    source_id: str | None = None,
) -> str:
    patience = {waiting.PATIENCE: by.wait_s} if by.wait_s > 0 and waiting.may_wait(playbook) else {}
    move_id = moves.begin(
        tx,
        server_id=server_id,
        kind=kind,
        playbook=playbook,
        wish={**wish, **patience},
        request_id=by.request_id,
        user_id=by.user_id,
        project_id=by.project_id,
        source_id=source_id,
    )
    number = actions.begin(
        tx,
        request_id=by.request_id,
        server_id=server_id,
        move_id=move_id,
        name=action,
        user_id=by.user_id,
        project_id=by.project_id,
    )
    moves.remember(tx, move_id, {"action": number})
    return move_id


def cannot(action: str, server: Mapping[str, Any], move: Mapping[str, Any] | None) -> str:
    """Why not, in Nova's words where it has any."""
    shown = status_of(server, move)
    what = f"task_state {shown.task_state}" if shown.task_state else f"vm_state {shown.vm_state}"
    if move is not None and not shown.task_state and move["state"] in moves.WORKED_ON:
        what = f"vm_state {shown.vm_state} and its {move['kind']} is under way"
    if move is not None and move["group_move_id"]:
        what += ", with its whole group (operators go on with `berthold group move`, --resume or --back)"
    return f"Cannot '{action}' instance {server['id']} while it is in {what}"


def check_host(tx: Tx, name: str, home: claims.Claim) -> None:
    """Raises `Malformed` for a target host that cannot be meant."""
    try:
        wanted = hosts.by_name(tx, name)
    except NotFound as error:
        raise Malformed(error.message) from error
    if wanted == home.host_id:
        raise Malformed(f"The target host can't be the same one: the server is on {name} already.")
